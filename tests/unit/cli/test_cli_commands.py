"""Laws of the command line: mistakes are a line and an exit code, never a traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import commands
from gateway.policy.document import PolicySet

QUICKSTART = Path(__file__).parents[3] / "policies" / "quickstart.toml"
FAULT = "this is a planted fault"


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(commands.app, arguments, env=env)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["sevre"], "Did you mean 'serve'?"),
        (["explain", "PUT"], "Missing argument 'url'"),
        (["serve", "--polcy", "x"], "No such option: --polcy"),
        (["explain", "/files/x", "PUT"], "write METHOD URL"),
        (["check", str(QUICKSTART.with_name("quickstrt.toml"))], "did you mean quickstart.toml?"),
        (["check", str(QUICKSTART.parent)], "is a directory, expected a TOML file"),
        (["check", "--set", "server.listn=x"], "--set: server.listn: there is no such key here"),
        (["check", "--set", "server.listen=8080"], 'expected "host:port"'),
        (["migrate", "db", "--set", "stores.db.tables={}"], "name a table at least"),
    ],
)
def test_wrong_input_is_exit_code_2_and_a_line(arguments: list[str], told: str) -> None:
    """A mistyped command, file, key or value is told with what was meant."""
    result = run(*arguments)
    assert result.exit_code == commands.WRONG_INPUT
    assert told in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "url, told",
    [
        ("/fils/x", "no store answers /fils/x; did you mean /files?"),
        ("http://127.0.0.1:9999/x", "nothing listens at 127.0.0.1:9999; served are http://"),
        ("http://127.0.0.1:port/x", "is no URL"),
        ("/v1/seal", "belongs to the gateway itself"),
    ],
)
def test_a_url_that_nobody_serves_is_told(url: str, told: str) -> None:
    """A mistyped URL is answered with what there is."""
    result = run("explain", "PUT", url)
    assert result.exit_code == commands.FAILED
    assert told in result.stderr


def test_check_tells_what_is_served() -> None:
    """A good policy is summed up: stores, who may use them, rules."""
    result = run("check", str(QUICKSTART))
    assert result.exit_code == 0
    assert "files: files, http at /files, open: no key needed" in result.stdout
    assert "objects: files, s3 at 127.0.0.1:9000\n" in result.stdout
    assert "/db/jobs -> jobs" in result.stdout


def test_without_a_file_the_quick_start_is_taken() -> None:
    """The command works at once; the quick start ships with the product."""
    assert "quickstart.toml" in run("check").stdout


def test_a_policy_may_read_the_environment(tmp_path: Path) -> None:
    """Secrets come from variables; a missing one is named."""
    text = QUICKSTART.read_text().replace('"demo-secret"', '"${DEMO_SECRET}"')
    (tmp_path / "p.toml").write_text(text)
    missing = run("check", str(tmp_path / "p.toml"))
    assert missing.exit_code == commands.WRONG_INPUT
    assert "the environment variable DEMO_SECRET is not set" in missing.stderr
    there = run("check", str(tmp_path / "p.toml"), env={"DEMO_SECRET": "long-enough-secret"})
    assert there.exit_code == 0
    assert "long-enough-secret" not in there.output


def test_serve_hands_the_checked_policy_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was set on the command line is in the policy, and the exit code is passed on."""
    served: list[PolicySet] = []

    def pretend(policy: PolicySet, _place: object) -> int:
        served.append(policy)
        return 7

    monkeypatch.setattr("gateway.app.serve", pretend)
    assert run("serve", "--set", "server.listen=127.0.0.1:0").exit_code == 7
    assert served[0].server.listen.port == 0


@pytest.mark.parametrize(
    "error, told, debug",
    [
        (PermissionError(13, "Permission denied", "data"), "Permission denied: 'data'", ""),
        (RuntimeError(FAULT), "This is a fault of fencegate", ""),
        (RuntimeError(FAULT), "Traceback", "1"),
    ],
)
def test_no_traceback_reaches_a_user_unasked(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    told: str,
    debug: str,
) -> None:
    """What went wrong is a line and exit code 1; the traceback is there for who asks."""

    def fail(policy: PolicySet, _place: object) -> int:
        raise error

    monkeypatch.setattr("gateway.app.serve", fail)
    monkeypatch.setattr(sys, "argv", ["fencegate", "serve"])
    monkeypatch.setenv("FENCEGATE_DEBUG", debug)
    with pytest.raises(SystemExit) as exit_:
        commands.main()
    assert exit_.value.code == commands.FAILED
    text = capsys.readouterr().err
    assert told in text
    assert ("Traceback" in text) == bool(debug)


def test_the_openapi_document_is_printed() -> None:
    """`fencegate openapi` is what the app says of itself."""
    document = json.loads(run("openapi").stdout)
    assert {"/healthz", "/readyz", "/metrics", "/v1/reset", "/v1/seal", "/v1/scopes"} <= set(
        document["paths"]
    )


def test_the_version_is_printed() -> None:
    """`fencegate version` names product and release."""
    assert run("version").stdout.startswith("fencegate 0")


PARTLY = """
[stores.files]
type = "files"
root = "files"
[[rules]]
match = "/files/{team}/report"
[[rules]]
match = "/files/acme/{name}"
"""


def test_strict_tells_what_is_often_not_meant(tmp_path: Path) -> None:
    """Paths without a rule and rules that cross are exit code 2, with file and line."""
    path = tmp_path / "p.toml"
    path.write_text(PARTLY)
    assert run("check", str(path)).exit_code == 0
    result = run("check", "--strict", str(path))
    assert result.exit_code == commands.WRONG_INPUT
    assert "stores.files: some paths of /files/* meet no rule" in result.stderr
    assert (
        f"{path}:7: rules.match: /files/acme/{{name}} and /files/{{team}}/report" in result.stderr
    )


def test_strict_takes_narrow_rules_before_wide_ones(tmp_path: Path) -> None:
    """That is how rules are written: nothing to tell, once the last one takes all."""
    path = tmp_path / "p.toml"
    wide = '[[rules]]\nmatch = "/files/{path*}"\n'
    path.write_text(
        PARTLY.replace('match = "/files/{team}/report"', 'match = "/files/acme/r"') + wide
    )
    result = run("check", "--strict", str(path))
    assert (result.exit_code, result.stderr) == (0, "")


def test_connect_reaches_everything_and_tells_what_each_rule_gets(tmp_path: Path) -> None:
    """Registry and stores are opened; each rule has the guarantee of its weakest store."""
    result = run("check", "--connect", str(QUICKSTART), "--set", f"server.data_dir={tmp_path}")
    assert result.exit_code == 0
    assert "registry sqlite: reached" in result.stdout
    assert "store   db: exact, whatever crashes" in result.stdout
    assert "rule    /files/reports/{team}/{rest*}: exact" in result.stdout


def test_connect_warns_of_tables_that_nobody_can_write(tmp_path: Path) -> None:
    """A key of no certain spelling, or none, is told; with one scope for the table it is fine."""
    path = tmp_path / "p.toml"
    path.write_text(
        f'[server]\ndata_dir = "{tmp_path}"\n[stores.db]\ntype = "sqlite"\npath = "db.sqlite"\n'
        'init = """CREATE TABLE a (k real PRIMARY KEY); CREATE TABLE b (v text);'
        'CREATE TABLE c (k text PRIMARY KEY); CREATE TABLE d (v text);"""\n'
        "tables = { a = {}, b = {}, c = {}, d = {} }\n"
        '[[rules]]\nmatch = "/db/d"\nscope = "d"\n'
    )
    result = run("check", "--connect", str(path))
    assert result.exit_code == 0
    assert 'of table a can be fenced, so each is refused: key column "k" (REAL)' in result.stdout
    assert 'of table b can be fenced, so each is refused: table "b" has no pri' in result.stdout
    assert result.stdout.count("WARNING") == 2


def test_connect_tells_all_that_cannot_be_reached(tmp_path: Path) -> None:
    """A store and a registry that are down are told in one run, and the exit code is 1."""
    path = tmp_path / "p.toml"
    path.write_text(
        '[server]\nauth = "none"\n[registry]\ntype = "redis"\nurl = "redis://127.0.0.1:1"\n'
        '[stores.lake]\ntype = "s3"\nlisten = "127.0.0.1:0"\nendpoint = "http://127.0.0.1:1"\n'
        'access_key_id = "id"\nsecret_access_key = "secret"\nprobe_bucket = "bucket"\n'
        'stamp_key = "0123456789abcdef"\n'
    )
    result = run("check", "--connect", str(path), "--set", f"server.data_dir={tmp_path}")
    assert result.exit_code == commands.FAILED
    assert "FAILED  registry redis: " in result.stdout
    assert "FAILED  store lake: " in result.stdout


def test_explain_takes_header_fields() -> None:
    """-H is what a client would send; a malformed one is told."""
    field = run("explain", "PUT", "/files/x", "-H", "X-Fence-Token: 7")
    assert "mark is above 7" in field.stdout
    rows = run("explain", "DELETE", "/db/jobs?id=eq.1", "-H", "x-fence-token: seven")
    assert "fence_token_malformed" in rows.stdout
    assert run("explain", "PUT", "/files/x", "-H", "nonsense").exit_code == commands.WRONG_INPUT
