"""Laws of the loader: every mistake is told with its file, line, key and the nearest valid name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.policy.load import PolicyError, load, loads

GOOD = """\
[stores.files]
type = "files"
root = "files"
"""

LAKE = """\
[server]
auth = "none"
[stores.lake]
type = "s3"
listen = "127.0.0.1:9001"
endpoint = "http://127.0.0.1:5000"
access_key_id = "id"
secret_access_key = "hidden-secret"
"""

DB = """\
[stores.db]
type = "sqlite"
path = "db.sqlite"
tables = { jobs = {} }
"""


def mistakes(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        loads(text, name="p.toml")
    return str(caught.value)


RULE = GOOD + "[[rules]]\nmatch = '/files/x'\n"

MISTAKES = {
    "method in lower case": (
        RULE + "methods = ['GET', 'put']\n",
        'p.toml:6: rules[0].methods[1]: "put" is no method that can pass (write PUT)',
    ),
    "method that is none": (
        RULE + "methods = ['PUTT']\n",
        'p.toml:6: rules[0].methods[0]: "PUTT" is no method that can pass (did you mean PUT?)',
    ),
    "no method at all": (
        RULE + "methods = []\n",
        "p.toml:6: rules[0].methods: lets nothing through; name a method, or leave it away for all",
    ),
    "jump of nothing": (
        RULE + "max_jump = 0\n",
        "p.toml:6: rules[0].max_jump: expected at least 1, found 0",
    ),
    "what to do without a token": (
        RULE + "on_missing_token = 'allow-and-cont'\n",
        'p.toml:6: rules[0].on_missing_token: expected "refuse" or "allow-and-count", found '
        '"allow-and-cont" (did you mean allow-and-count?)',
    ),
    "bound where nothing is compared": (
        RULE + "mode = 'off'\nmax_jump = 1\n",
        'p.toml:7: rules[0].max_jump: has no effect with mode = "off"; remove one of the two',
    ),
    "section": (
        "[limts]\n" + GOOD,
        "p.toml:1: limts: there is no such key here (did you mean limits?)",
    ),
    "key": (
        "[limits]\ndrain_timout_ms = 1\n" + GOOD,
        "p.toml:2: limits.drain_timout_ms: there is no such key here "
        "(did you mean drain_timeout_ms?)",
    ),
    "key of another section": (
        "[server]\ndrain_timeout_ms = 4\n" + GOOD,
        "p.toml:2: server.drain_timeout_ms: there is no such key here "
        "(drain_timeout_ms is a key of [limits])",
    ),
    "key of another store type": (
        GOOD + "settle_ms = 5\n",
        "p.toml:4: stores.files.settle_ms: there is no such key here (settle_ms is a key of "
        '[stores.<name>] of type "s3", [stores.<name>] of type "http")',
    ),
    "number in quotes": (
        '[limits]\nmax_fields = "100"\n' + GOOD,
        'p.toml:2: limits.max_fields: expected a whole number, without quotes, found "100"',
    ),
    "true for a number": (
        "[limits]\nmax_fields = true\n" + GOOD,
        "p.toml:2: limits.max_fields: expected a whole number, without quotes, found true",
    ),
    "too small": (
        "[limits]\nmax_fields = 1\n" + GOOD,
        "p.toml:2: limits.max_fields: expected at least 8, found 1",
    ),
    "too large": (
        "[limits]\nhold_back_bytes = 65537\n" + GOOD,
        "p.toml:2: limits.hold_back_bytes: expected at most 65536, found 65537",
    ),
    "word": (
        '[server]\nauth = "key"\n' + GOOD,
        'p.toml:2: server.auth: expected "keys" or "none", found "key" (did you mean keys?)',
    ),
    "address": (
        '[server]\nlisten = "8080"\n' + GOOD,
        'p.toml:2: server.listen: expected "host:port", such as "127.0.0.1:8080" or "[::1]:8080", '
        'found "8080"',
    ),
    "port": (
        '[server]\nlisten = "127.0.0.1:80800"\n' + GOOD,
        "p.toml:2: server.listen: expected a port from 0 to 65535",
    ),
    "stamp key for replicas": (
        LAKE + '[registry]\ntype = "redis"\nurl = "redis://r"\n',
        'p.toml:3: stores.lake.stamp_key: is required with registry.type = "redis": replicas '
        "recognise each other's writes by it; set stamp_key",
    ),
    "short stamp key": (
        LAKE + 'stamp_key = "fifteen-letters"\n',
        "p.toml:9: stores.lake.stamp_key: ",
    ),
    "store type": (
        '[stores.files]\ntype = "file"\n',
        'p.toml:2: stores.files.type: expected one of "files", "sqlite", "postgres", '
        '"mariadb", "s3", "http", found "file" (did you mean files?)',
    ),
    "no store type": (
        '[stores.files]\nroot = "x"\n',
        "p.toml:1: stores.files.type: is required: one of",
    ),
    "missing key": (
        '[stores.files]\ntype = "files"\n',
        "p.toml:1: stores.files.root: is required: The dir",
    ),
    "store name": (
        '[stores.My]\ntype = "files"\nroot = "x"\n',
        "p.toml:1: stores.My: a store's name is made of a-z, 0-9, _ and -",
    ),
    "no store": ("[server]\n", "p.toml: stores: at least one store is needed"),
    "dialect of a files store": (
        GOOD + 'dialect = "rows"\n',
        'p.toml:4: stores.files.dialect: expected "http" or "s3", found "rows"',
    ),
    "dialect of a database": (
        DB + 'dialect = "s3"\n',
        'p.toml:5: stores.db.dialect: expected "rows", found "s3"',
    ),
    "mount of an s3 store": (
        LAKE + 'mount = "/lake"\n',
        "p.toml:9: stores.lake.mount: there is no such key here",
    ),
    "reserved mount": (
        GOOD + 'mount = "/v1/files"\n',
        'p.toml:4: stores.files.mount: "/v1/files" belongs to the gateway itself; choose another',
    ),
    "mount without slash": (
        GOOD + 'mount = "files"\n',
        'p.toml:4: stores.files.mount: expected path prefix on server.listen, such as "/files"',
    ),
    "mount with a dot segment": (
        GOOD + 'mount = "/a/../b"\n',
        'p.toml:4: stores.files.mount: "." and ".." are no path segments here',
    ),
    "overlapping mounts": (
        GOOD + DB + 'mount = "/files/db"\n',
        'p.toml:8: stores.db.mount: "/files/db" overlaps "/files" of store files',
    ),
    "one listener twice": (
        '[server]\nlisten = "0.0.0.0:9001"\n' + LAKE.replace("[server]\n", ""),
        "p.toml:6: stores.lake.listen: 127.0.0.1:9001 is taken already by 0.0.0.0:9001 at p.toml:2",
    ),
    "s3 dialect without listener": (
        GOOD + 'dialect = "s3"\nbuckets = ["demo"]\n[server]\nauth = "none"\n',
        "p.toml:1: stores.files.listen: is required for the s3 dialect",
    ),
    "s3 dialect without buckets": (
        GOOD + 'dialect = "s3"\nlisten = "127.0.0.1:0"\n[server]\nauth = "none"\n',
        'p.toml:1: stores.files.buckets: is required for the s3 dialect: ["demo"]',
    ),
    "http dialect with listener": (
        GOOD + 'listen = "127.0.0.1:0"\n',
        "p.toml:4: stores.files.listen: the http dialect is mounted on server.listen",
    ),
    "http dialect with buckets": (
        GOOD + 'buckets = ["demo"]\n',
        "p.toml:4: stores.files.buckets: only the s3 dialect has buckets",
    ),
    "two stores over one directory": (
        GOOD + '[stores.more]\ntype = "files"\nroot = "files/more"\n',
        "p.toml:6: stores.more.root: reaches what store files reaches: one "
        "thing would have two scopes",
    ),
    "a store over the registry": (
        DB.replace("db.sqlite", "./registry.sqlite"),
        "p.toml:3: stores.db.path: is the registry's file",
    ),
    "no table": (
        DB.replace("{ jobs = {} }", "{}"),
        "p.toml:4: stores.db.tables: name a table at least: [stores.db.tables.jobs]",
    ),
    "key in a table": (
        DB.replace("jobs = {}", 'jobs = { version_col = "v" }'),
        "p.toml:4: stores.db.tables.jobs.version_col: there is no such key here "
        "(did you mean version_column?)",
    ),
    "address of a store": (
        LAKE.replace(":5000", ":5000/path"),
        "p.toml:6: stores.lake.endpoint: expected address of the server",
    ),
    "unset variable": (
        LAKE.replace('"id"', '"${NO_SUCH}"'),
        "p.toml:7: stores.lake.access_key_id: the environment variable NO_SUCH is not set",
    ),
    "no variable": (
        LAKE.replace('"id"', '"${A-B}"'),
        'p.toml:7: stores.lake.access_key_id: "${A-B}" is no environment variable',
    ),
    "variable never closed": (
        LAKE.replace('"id"', '"${HOME"'),
        'p.toml:7: stores.lake.access_key_id: "${" is never closed: write ${NAME}',
    ),
    "variable never closed, behind a dollar": (
        LAKE.replace('"id"', '"$$${HOME"'),
        'p.toml:7: stores.lake.access_key_id: "${" is never closed: write ${NAME}',
    ),
    "renewal time": (
        "[limits]\nregistry_timeout_ms = 2_000\n" + GOOD,
        "p.toml:2: limits.registry_timeout_ms: is 2000, expected at most member_ttl_ms / 2 = 1500",
    ),
    "time-out too long beside an unset one": (
        "[limits]\nlock_timeout_ms = 6_000\n" + GOOD,
        "p.toml:2: limits.lock_timeout_ms: is 6000, expected at most drain_timeout_ms = 5000",
    ),
    "store of a key": (
        GOOD + '[[auth.keys]]\nid = "a"\nsecret = "12345678"\nstores = ["filse"]\n',
        'p.toml:7: auth.keys[0].stores[0]: there is no store "filse" (did you mean files?)',
    ),
    "id of a key": (
        GOOD + '[[auth.keys]]\nid = "a/b"\nsecret = "12345678"\n',
        "p.toml:5: auth.keys[0].id: expected 1 to 64 letters, digits",
    ),
    "id twice": (
        GOOD
        + '[[auth.keys]]\nid = "a"\nsecret = "12345678"\n'
        + '[[auth.keys]]\nid = "a"\nsecret = "87654321"\n',
        'p.toml:8: auth.keys[1].id: "a" names another key already',
    ),
    "secret twice": (
        GOOD
        + '[[auth.keys]]\nid = "a"\nsecret = "12345678"\n'
        + '[[auth.keys]]\nid = "b"\nsecret = "12345678"\n',
        "p.toml:9: auth.keys[1].secret: is another key's already",
    ),
    "open beyond this machine": (
        '[server]\nlisten = "0.0.0.0:8080"\n' + GOOD,
        "p.toml:3: stores.files: would be open to everyone who reaches 0.0.0.0:8080: "
        'add [[auth.keys]] with stores = ["files"], or set server.auth = "none"',
    ),
    "keys demanded": (
        '[server]\nauth = "keys"\n' + GOOD,
        'p.toml:3: stores.files: no key covers it, and server.auth is "keys"',
    ),
    "s3 without key": (
        LAKE.replace('auth = "none"\n', ""),
        "p.toml:2: stores.lake: s3 clients sign what they send, and no key covers it",
    ),
    "single brackets": (
        'rules = { match = "/a" }\n' + GOOD,
        "p.toml:1: rules: expected a list of tables",
    ),
    "no match": (
        GOOD + '[[rules]]\nscope = "x"\n',
        "p.toml:4: rules[0].match: is required: Path as the client sends it",
    ),
    "mode": (
        GOOD + '[[rules]]\nmatch = "/files/{x}"\nmode = "enforced"\n',
        'p.toml:6: rules[0].mode: expected "enforce", "shadow" or "off", found "enforced" '
        "(did you mean enforce?)",
    ),
    "glob": (
        GOOD + '[[rules]]\nmatch = "/files/*"\n',
        'p.toml:5: rules[0].match: "*": write {name} for one segment, {name*} for the rest',
    ),
    "capture": (
        GOOD + '[[rules]]\nmatch = "/files/{team}"\nscope = "t/{taem}"\n',
        "p.toml:6: rules[0].scope: {taem} is not captured by match, which has {team}",
    ),
    "store of a rule": (
        GOOD + '[[rules]]\nstore = "file"\nmatch = "/files/{x}"\n',
        'p.toml:5: rules[0].store: there is no store "file" (did you mean files?)',
    ),
    "path of no store": (
        GOOD + '[[rules]]\nmatch = "/flies/{x}"\n',
        "p.toml:5: rules[0].match: can never match: no store has such paths (did you mean /files?)",
    ),
    "table of no store": (
        DB + '[[rules]]\nmatch = "/db/jbos/{pk}"\n',
        "p.toml:6: rules[0].match: can never match: no store has such paths "
        "(did you mean /db/jobs?)",
    ),
    "too deep for rows": (
        DB + '[[rules]]\nmatch = "/db/jobs/{a}/{b}"\n',
        "p.toml:6: rules[0].match: can never match: no store has such paths",
    ),
    "shadowed rule": (
        GOOD + '[[rules]]\nmatch = "/files/{x*}"\n[[rules]]\nmatch = "/files/a/{b}"\n',
        "p.toml:7: rules[1].match: can never match: the rule at p.toml:4 takes all of it, and "
        "the first match wins (put the narrower rule first)",
    ),
    "shadowed by a table": (
        DB + '[[rules]]\nmatch = "/db/{t}"\nscope = "x"\n[[rules]]\nmatch = "/db/jobs/{pk}"\n',
        "p.toml:9: rules[1].match: can never match: the rule at p.toml:5 takes all of it",
    ),
    "scope that is off": (
        GOOD + '[[rules]]\nmatch = "/files/{x}"\nscope = "a"\nmode = "off"\n',
        'p.toml:6: rules[0].scope: has no effect with mode = "off"',
    ),
    "syntax": ("[stores\n", "p.toml:1: Expected ']' at the end of a table declaration"),
    "text without quotes": (
        "[server]\nlisten = here\n",
        "p.toml:2: Invalid value (text stands in quotes",
    ),
    "internal name": (
        GOOD + 'name = "x"\n',
        "p.toml:4: stores.files.name: there is no such key here",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_where_and_what(mistake: str) -> None:
    """Each typical mistake is answered with file, line, key, and what to write instead."""
    text, told = MISTAKES[mistake]
    assert told in mistakes(text)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_is_told_once(mistake: str) -> None:
    """A mistake brings no further complaints with it, which would hide where it lies."""
    assert len(mistakes(MISTAKES[mistake][0]).splitlines()) == 1


def test_all_mistakes_are_told_at_once_in_file_order() -> None:
    """An operator mends a file in one round."""
    text = (
        '[limits]\nmax_fields = 1\nmax_feilds = 2\n[stores.x]\ntype = "y"\n[[rules]]\nmatch = "z"\n'
    )
    lines = [int(re.findall(r"p\.toml:(\d+)", line)[0]) for line in mistakes(text).splitlines()]
    assert lines == [2, 3, 5, 7]


def test_no_secret_is_repeated() -> None:
    """Neither a wrong secret nor one inside an address shows up in a message."""
    text = LAKE.replace('"hidden-secret"', "[5, 'hidden-secret']")
    text = text.replace("http://127", "http://me:hidden-secret@127")
    text += '[[auth.keys]]\nid = "a"\nsecret = "hidden-secret with blanks"\n'
    text += '[stores.pg]\ntype = "postgres"\ndsn = "mysql://me:hidden-secret@h/d"\n'
    told = mistakes(text)
    assert len(told.splitlines()) == 5
    assert "hidden" not in told


@pytest.mark.parametrize(
    "registry", ['type = "sqlite"', 'type = "memory"', 'type = "etcd"\nurl = "http://e"']
)
def test_stamp_keys_are_asked_for_beyond_one_machine(registry: str) -> None:
    """A local registry takes the key of the data directory; a shared one takes a given key."""
    text = LAKE + ("stamp_key = 'sixteen-letters-'\n" if "etcd" in registry else "")
    loads(f"{text}[registry]\n{registry}\n")


def test_another_stamp_key_is_another_digest() -> None:
    """Replicas compare digests as they join; a digest without stamp keys stays what it was."""
    digests = {
        loads(LAKE + key).digest
        for key in ("", "stamp_key = 'sixteen-letters-'\n", "stamp_key = 'sixteen-letters+'\n")
    }
    assert len(digests) == 3


def test_secrets_are_not_in_representations() -> None:
    """A policy that is printed by accident shows no secret."""
    text = LAKE + 'stamp_key = "hidden-stamp-key"\n'
    policy = loads(text + '[[auth.keys]]\nid = "a"\nsecret = "hidden-secret-2"\n')
    assert "hidden" not in repr(policy)


def test_variables_are_replaced_everywhere_but_in_rules() -> None:
    """`${NAME}` comes from the environment, `$$` is a dollar sign."""
    text = LAKE.replace("hidden-secret", "$$-${KEY}-x").replace("5000", "${PORT}")
    policy = loads(text, environ={"KEY": "k", "PORT": "6000"})
    lake = policy.stores["lake"]
    assert lake.type == "s3"
    assert (lake.secret_access_key, lake.endpoint) == ("$-k-x", "http://127.0.0.1:6000")


def test_defaults_are_filled_in() -> None:
    """The smallest policy is one store; it is mounted under its name."""
    policy = loads(GOOD)
    assert policy.stores["files"].mount == "/files"
    assert policy.mounted() == (policy.stores["files"],)
    assert policy.worker_keys("files") == ()
    assert policy.data(Path("x")) == Path("data/x")


def test_several_files_are_one_policy(tmp_path: Path) -> None:
    """Tables are united, rules appended in order; places keep their own file and line."""
    (tmp_path / "a.toml").write_text(GOOD + '[[rules]]\nmatch = "/files/a"\n')
    (tmp_path / "b.toml").write_text(
        DB + '\n[[rules]]\nmatch = "/db/jobs"\n[limits]\nmax_fields = 9\n'
    )
    policy = load([tmp_path / "a.toml", tmp_path / "b.toml"], environ={})
    assert list(policy.stores) == ["files", "db"]
    assert [rule.where for rule in policy.rules] == [f"{tmp_path}/a.toml:4", f"{tmp_path}/b.toml:6"]
    assert policy.limits.max_fields == 9


def test_a_key_in_two_files_is_a_mistake(tmp_path: Path) -> None:
    """Nobody has to guess which file won."""
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD)
    with pytest.raises(PolicyError, match=r"b.toml:2: .*type: is set already at .*a.toml:2"):
        load([tmp_path / "a.toml", tmp_path / "b.toml"], environ={})


@pytest.mark.parametrize(
    "name, told",
    [
        ("b.toml", "no such file (did you mean a.toml?)"),
        ("", "is a directory"),
        ("x/y", "nor is there a"),
    ],
)
def test_a_file_that_is_not_there_is_told(tmp_path: Path, name: str, told: str) -> None:
    """A mistyped path is answered with the file that was probably meant."""
    (tmp_path / "a.toml").write_text(GOOD)
    with pytest.raises(PolicyError, match=re.escape(told)):
        load([tmp_path / name], environ={})


def test_text_that_is_not_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    """TOML is UTF-8; another encoding is named, not guessed."""
    (tmp_path / "a.toml").write_bytes(GOOD.encode() + b"# caf\xe9\n")
    with pytest.raises(PolicyError, match=r"a.toml:4: is not UTF-8 text"):
        load([tmp_path / "a.toml"], environ={})


def test_a_setting_can_be_overridden(tmp_path: Path) -> None:
    """`--set` takes TOML values, and text without quotes."""
    (tmp_path / "a.toml").write_text(GOOD)
    policy = load(
        [tmp_path / "a.toml"],
        environ={},
        overrides=[
            "server.listen=127.0.0.1:0",
            "limits.max_fields=50",
            "stores.files.root=elsewhere",
        ],
    )
    assert str(policy.server.listen) == "127.0.0.1:0"
    assert policy.limits.max_fields == 50
    assert policy.stores["files"].type == "files"


@pytest.mark.parametrize(
    "assignment, told",
    [
        (
            "server.listn=x",
            "--set: server.listn: there is no such key here (did you mean",
        ),
        ("server.listen", "--set: server.listen: expected section.key=value"),
        ("rules.x=1", "only keys of single tables"),
    ],
)
def test_a_wrong_override_is_told(tmp_path: Path, assignment: str, told: str) -> None:
    """A mistake on the command line is told as one, without its value."""
    (tmp_path / "a.toml").write_text(GOOD + '[[rules]]\nmatch = "/files/{x}"\n')
    with pytest.raises(PolicyError, match=re.escape(told)):
        load([tmp_path / "a.toml"], environ={}, overrides=[assignment])


def test_the_digest_changes_with_what_derives_scopes_and_with_nothing_else() -> None:
    """Two policies of one digest give every resource one scope (decisions, "Reload")."""
    base = GOOD + '[[rules]]\nmatch = "/files/{x}"\nscope = "a/{x}"\n'
    same = "[limits]\nmax_fields = 50\n" + base + 'reads = "seal"\n'
    others = [
        base.replace("a/", "b/"),
        base + 'store = "files"\n',
        base.replace("{x}", "{y}"),
        GOOD,
    ]
    assert loads(same).digest == loads(base).digest
    assert len({loads(text).digest for text in [base, *others]}) == 5


def test_a_mistake_is_one_line_whatever_its_key_holds() -> None:
    """A quoted key may hold a line break or a terminal's escape: neither reaches a log as such."""
    with pytest.raises(PolicyError) as refused:
        loads('[server]\n"a\\nb\\u001b[2J" = 1\n')
    (line,) = [str(m) for m in refused.value.mistakes if "server.a" in m.key]
    assert "server.a\\nb\\x1b[2J" in line
