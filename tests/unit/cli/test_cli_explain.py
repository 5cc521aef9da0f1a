"""Laws of explain: it says what the data plane would do, and claims no more than is promised."""

from __future__ import annotations

import pytest

from gateway.cli.explain import Question, explain
from gateway.cli.promise import promise
from gateway.policy.document import PolicySet
from gateway.policy.load import loads

POLICY = """
[server]
auth = "none"
[stores.files]
type = "files"
root = "files"
[stores.db]
type = "sqlite"
path = "db.sqlite"
tables = { jobs = {} }
[stores.lake]
type = "s3"
listen = "127.0.0.1:9001"
endpoint = "http://127.0.0.1:5000"
access_key_id = "id"
secret_access_key = "secret"
settle_ms = 7000
[[rules]]
match = "/files/shared/{team}/{x*}"
scope = "team/{team}"
[[rules]]
store = "lake"
match = "/shared/{team}/{key*}"
scope = "team/{team}"
[[rules]]
match = "/files/free/{x*}"
mode = "off"
[[rules]]
match = "/files/seal/{x}"
reads = "seal"
[[rules]]
match = "/files/legacy/{x}"
on_missing_token = "allow-and-count"
max_jump = 10
"""


@pytest.fixture(scope="module")
def policy() -> PolicySet:
    return loads(POLICY)


def told(policy: PolicySet, method: str, url: str, token: str | None = "7") -> dict[str, str]:
    """The explanation as {name: text}; several lines of one name joined."""
    found: dict[str, str] = {}
    for name, text in explain(policy, Question(method, url, token)):
        found[name] = f"{found[name]}\n{text}" if name in found else text
    return found


@pytest.mark.parametrize(
    "method, url, token, name, text",
    [
        ("PUT", "/files/legacy/a", None, "answer", "passed on unfenced and counted"),
        ("PUT", "/files/legacy/a", None, "not covered", "writes without a token"),
        ("PUT", "/files/legacy/a", "7", "answer", "403 fence_token_implausible"),
        ("PUT", "/files/a", "7", "scope", "files:a (its own"),
        (
            "PUT",
            "/files/a",
            "7",
            "answer",
            "412 fence_token_stale when the scope's mark is above 7",
        ),
        ("PUT", "/files/a", None, "answer", "428 fence_token_required"),
        ("PUT", "/files/a", None, "scope", "files:a"),
        ("PUT", "/files/a", "007", "answer", "400 fence_token_malformed"),
        ("PUT", "/files/a//b", "7", "answer", "400 request_malformed"),
        ("PUT", "/files/a b", "7", "scope", "files:a%20b"),
        ("POST", "/files/a", "7", "answer", "405 method_not_allowed"),
        ("OPTIONS", "/files/a", "7", "answer", "by the gateway itself"),
        ("PUT", "/files/free/a", None, "answer", "passed on unfenced"),
        ("GET", "/files/seal/a", "7", "reads", "seal: raises"),
        ("GET", "/files/a", None, "reads", "check: refused when"),
        ("PUT", "http://127.0.0.1:8080/files/shared/x/y", "7", "rule", "policy:18"),
        ("PUT", "http://127.0.0.1:9001/shared/x/y", "7", "scope", "team/x"),
        ("PUT", "http://127.0.0.1:9001/demo/k", "7", "scope", "lake:demo/k (its own"),
        ("DELETE", "/db/jobs?id=eq.5", "7", "scope", "db:jobs/5"),
        ("DELETE", "/db/jobs?id=eq.5", "7", "row", "jobs/5, if that is its whole primary key"),
        ("DELETE", "/db/jobs?state=is.null", "7", "answer", "400 fence_scope_undetermined"),
        ("POST", "/db/jobs", "7", "answer", "depends on the body. Without its whole primary key"),
        ("POST", "/db/jobs", "7", "answer", "else carried out"),
        ("POST", "/db/jobs", "7", "scope", "db:jobs/KEY (its own"),
        ("POST", "/db/jobs", None, "answer", "428 fence_token_required"),
        ("PUT", "/files/legacy/a", None, "promise", "none for this request, which passes"),
        ("PUT", "/files/legacy/a", "7", "promise", "exact: "),
        ("GET", "/db/jobs", "7", "answer", "answered without a look at the token"),
        ("DELETE", "/db/jbos", "7", "answer", "did you mean jobs?"),
        ("PUT", "/db/jobs", "7", "answer", "405 method_not_allowed"),
        ("PATCH", "/db/jobs?id=eq.5", "x", "answer", "400 fence_token_malformed"),
    ],
)
def test_a_request_is_explained(
    policy: PolicySet, method: str, url: str, token: str | None, name: str, text: str
) -> None:
    """Each line says what the same request would meet."""
    assert text in told(policy, method, url, token)[name]


@pytest.mark.parametrize("url", ["/files/a", "/files/shared/x/y", "/db/jobs?id=eq.5"])
def test_a_refusal_is_not_taken_back(policy: PolicySet, url: str) -> None:
    """A write without token is told the 428 and no other answer, with a rule and without one."""
    method = "PATCH" if url.startswith("/db") else "PUT"
    lines = list(explain(policy, Question(method, url, None)))
    answers = [text for name, text in lines if name == "answer"]
    assert len(answers) == 1
    assert answers[0].startswith("428 fence_token_required")


def test_an_exact_promise_names_no_settle_time(policy: PolicySet) -> None:
    """Files and databases check under the lock or in the transaction that writes."""
    found = told(policy, "PUT", "/files/a")
    assert found["promise"].startswith("exact: ")
    assert "settle" not in found["not covered"]
    assert "writers that bypass the gateway" in found["not covered"]


def test_an_s3_promise_names_its_limits(policy: PolicySet) -> None:
    """Its settle time, a frozen gateway and repeating ETags are what it does not cover."""
    found = told(policy, "PUT", "http://127.0.0.1:9001/demo/k")
    assert "within settle_ms = 7000 of its last byte" in found["promise"]
    for gap in ("effects later than settle_ms = 7000", "frozen", "ETags that repeat"):
        assert gap in found["not covered"]


def test_a_scope_over_several_stores_has_the_weakest_promise(policy: PolicySet) -> None:
    """The files store cannot lend its exactness to an S3 server that shares its scope."""
    found = told(policy, "PUT", "/files/shared/x/y")
    assert "settle_ms = 7000" in found["promise"]
    assert "spans files, lake" in found["promise"]
    assert "the weakest, lake" in found["promise"]


def test_a_scope_over_several_stores_has_the_gaps_of_each(policy: PolicySet) -> None:
    """The weakest store's promise hides none of what another does not cover; none comes twice."""
    kinds = [policy.stores[name] for name in ("files", "db", "lake")]
    together = promise(kinds, policy.registry).not_covered
    for store in kinds:
        assert set(promise([store], policy.registry).not_covered) <= set(together)
    assert len(set(together)) == len(together)
    assert not set(together) <= set(promise([kinds[2]], policy.registry).not_covered)


def test_a_frozen_gateway_is_bounded_by_the_settle_time(policy: PolicySet) -> None:
    """It may freeze as its membership ends, so the time to live is no part of the bound."""
    gaps = promise([policy.stores["lake"]], policy.registry).not_covered
    frozen = [gap for gap in gaps if "frozen" in gap]
    assert [gap.endswith("longer than settle_ms = 7000") for gap in frozen] == [True]


def test_half_a_body_is_told_until_it_was_probed(policy: PolicySet) -> None:
    """Only with a bucket to try it out does the start learn that a server keeps half a body."""
    probed = loads(POLICY.replace("settle_ms = 7000", 'settle_ms = 7000\nprobe_bucket = "b-b"'))
    for checked, told_of_it in ((policy, True), (probed, False)):
        gaps = promise([checked.stores["lake"]], checked.registry).not_covered
        assert any("half a body" in gap for gap in gaps) is told_of_it


@pytest.mark.parametrize(
    "registry, text",
    [
        ('type = "redis"\nurl = "redis://h"', "loses acknowledged writes"),
        ('type = "postgres"\nurl = "postgresql://h/d"', "without durability: fsync = off"),
        ('type = "etcd"\nurl = "http://h:2379"', "without durability: etcd"),
    ],
)
def test_a_registry_without_durability_is_told(registry: str, text: str) -> None:
    """Each shared registry can be configured to lose marks, and can be restored from a backup."""
    shared = POLICY.replace("settle_ms = 7000", f'settle_ms = 7000\nstamp_key = "{"k" * 32}"')
    policy = loads(f"{shared}[registry]\n{registry}\n")
    gaps = "\n".join(promise([policy.stores["files"]], policy.registry).not_covered)
    assert text in gaps
    assert "restored from a backup" in gaps


def test_a_store_without_conditions_is_weaker_than_one_with(policy: PolicySet) -> None:
    """Objects rewritten since are not claimed to be safe there."""
    weak = loads(POLICY.replace("settle_ms = 7000", 'settle_ms = 7000\nconditions = "none"'))
    text = promise([weak.stores["lake"]], weak.registry).text
    assert "rewritten" not in text
    assert "rewritten" in promise([policy.stores["lake"]], policy.registry).text


def test_a_registry_that_forgets_is_told(policy: PolicySet) -> None:
    """The memory registry loses its marks at a restart."""
    forgetful = loads(POLICY + '[registry]\ntype = "memory"\n')
    assert "memory registry forgets" in told(forgetful, "PUT", "/files/a")["not covered"]


KEYS = """
[[auth.keys]]
id = "team"
secret = "team-secret"
scopes = ["team/{team}"]
stores = ["files", "db", "lake"]
[[auth.keys]]
id = "reader"
secret = "reader-secret"
methods = ["GET"]
stores = ["files"]
[[auth.keys]]
id = "old"
secret = "old-secret"
expires = 2020-01-01T00:00:00Z
"""


@pytest.mark.parametrize(
    "key, url, name, text",
    [
        (None, "/files/shared/x/y", "key", "needs a key of team, reader, old: 401"),
        (None, "/db/jobs?id=eq.5", "key", "needs a key of team, old: 401"),
        ("Bearer team-secret", "/files/shared/x/y", "answer", "else carried out"),
        ("Bearer team-secret", "/files/shared/x/y", "key", "team, which covers the store"),
        ("Bearer team-secret", "/files/a", "answer", "403 access_denied: the key team"),
        ("Bearer reader-secret", "/files/a", "answer", "403 access_denied: the key reader"),
        ("Bearer reader-secret", "/db/jobs?id=eq.5", "answer", "does not cover the store db"),
        ("Bearer old-secret", "/files/a", "answer", "401 unauthenticated: the key old has expired"),
        ("Bearer wrong", "/files/a", "answer", "401 unauthenticated: this key is not known"),
        ("Basic eDp5", "/files/a", "answer", "401 unauthenticated"),
        (None, "http://127.0.0.1:9001/shared/x/y", "key", "needs a key of team, old: 403"),
        (
            "AWS4-HMAC-SHA256 Credential=team/20260101/us-east-1/s3/aws4_request, Signature=0",
            "http://127.0.0.1:9001/shared/x/y",
            "key",
            "its signature is not verified here",
        ),
        (
            "AWS4-HMAC-SHA256 Credential=team/20260101/us-east-1/s3/aws4_request, Signature=0",
            "http://127.0.0.1:9001/demo/k",
            "answer",
            "403 access_denied: the key team does not cover the scope",
        ),
        (
            "AWS4-HMAC-SHA256 Credential=nobody/20260101/us-east-1/s3/aws4_request, Signature=0",
            "http://127.0.0.1:9001/demo/k",
            "answer",
            "403 access_denied: this access key id is not known",
        ),
    ],
)
def test_the_key_that_a_request_shows_counts(
    key: str | None, url: str, name: str, text: str
) -> None:
    """Whom the gateway would answer 401 or 403 is told so; who shows none is told what it takes."""
    keyed = loads(POLICY.replace('[server]\nauth = "none"', KEYS))
    fields = () if key is None else ((b"authorization", key.encode()),)
    method = "PATCH" if url.startswith("/db") else "PUT"
    found: dict[str, str] = {}
    for line, said in explain(keyed, Question(method, url, "7", fields)):
        found[line] = f"{found[line]}\n{said}" if line in found else said
    assert text in found[name]
    if found["answer"].startswith(("401", "403 access")):
        assert "carried out" not in found["answer"]
        assert "promise" not in found


def test_no_key_is_asked_of_an_open_store(policy: PolicySet) -> None:
    """A store without keys says nothing of them, unless one is shown to it."""
    assert "key" not in told(policy, "PUT", "/files/a")
