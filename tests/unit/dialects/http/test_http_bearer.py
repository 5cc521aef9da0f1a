"""Bearer keys: who is let in where."""

import pytest

from gateway.dialects.bearer import authenticate
from gateway.dialects.rows.dialect import NoBody
from gateway.model.problem import Code, Problem
from gateway.model.worker import Grant, WorkerKey, secret_digest
from gateway.ports.dialect import RawRequest

KEYS = {
    "everywhere": WorkerKey("everywhere", "s3cret-one"),
    "files": WorkerKey("files", "s3cret-two", frozenset({"files"})),
    "umlaut": WorkerKey("umlaut", "geheim-ü"),
    "hashed": WorkerKey("hashed", None, digest=secret_digest("s3cret-hashed")),
    "until": WorkerKey("until", "s3cret-until", expires_s=1_000.0),
}


def sent(*fields: bytes, arrived_s: float = 0.0) -> RawRequest:
    """A request with these Authorization fields."""
    named = tuple((b"authorization", field) for field in fields)
    return RawRequest("GET", b"/files/x", b"", named, "r1", "h", False, arrived_s, NoBody())


def worker_of(request: RawRequest) -> str:
    """Whose key let the request in."""
    grant = authenticate(request, KEYS, "files")
    assert isinstance(grant, Grant), grant
    return grant.worker


@pytest.mark.parametrize(
    "field, worker",
    [
        (b"Bearer s3cret-one", "everywhere"),
        (b"bearer s3cret-one", "everywhere"),
        (b"BEARER  s3cret-two ", "files"),
        ("Bearer geheim-ü".encode(), "umlaut"),
        (b"Bearer s3cret-hashed", "hashed"),
    ],
)
def test_let_in(field: bytes, worker: str) -> None:
    """The scheme compares without case, the secret exactly."""
    assert worker_of(sent(field)) == worker


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [b"Bearer s3cret"],
        [b"Bearer s3cret-one2"],
        [b"Bearer S3CRET-ONE"],
        [b"Bearers3cret-one"],
        [b"Basic s3cret-one"],
        [b"s3cret-one"],
    ],
)
def test_kept_out(fields: list[bytes]) -> None:
    """401, whatever is missing or wrong; the secret is not repeated."""
    problem = authenticate(sent(*fields), KEYS, "files")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.status) == (Code.UNAUTHENTICATED, 401)
    assert "s3cret" not in problem.message.lower()


def test_a_key_of_another_store() -> None:
    """403, and the message names key and store, not the secret."""
    problem = authenticate(sent(b"Bearer s3cret-two"), KEYS, "db")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.status) == (Code.ACCESS_DENIED, 403)
    assert "files" in problem.message
    assert "db" in problem.message
    assert "s3cret" not in problem.message


def test_two_fields_are_ambiguous() -> None:
    """Even when both are right."""
    problem = authenticate(sent(*[b"Bearer s3cret-one"] * 2), KEYS, "files")
    assert isinstance(problem, Problem)
    assert problem.code is Code.REQUEST_MALFORMED


def test_switched_off() -> None:
    """None lets everybody in as nobody; no keys let nobody in."""
    assert authenticate(sent(b"Bearer whatever"), None, "files") is None
    assert isinstance(authenticate(sent(b"Bearer s3cret-one"), {}, "files"), Problem)


def test_an_expired_key_is_no_key() -> None:
    """401 from its last moment on; the message names the key, not the secret."""
    assert worker_of(sent(b"Bearer s3cret-until", arrived_s=999.9)) == "until"
    problem = authenticate(sent(b"Bearer s3cret-until", arrived_s=1_000.0), KEYS, "files")
    assert isinstance(problem, Problem)
    assert problem.code is Code.UNAUTHENTICATED
    assert "until has expired" in problem.message
    assert "s3cret" not in problem.message


def test_the_digest_is_no_secret() -> None:
    """Whoever reads the policy file cannot send what stands in it."""
    digest = secret_digest("s3cret-hashed")
    for stolen in (digest.hex(), f"sha256:{digest.hex()}"):
        problem = authenticate(sent(b"Bearer " + stolen.encode()), KEYS, "files")
        assert isinstance(problem, Problem)
    assert isinstance(authenticate(sent(b"Bearer " + digest), KEYS, "files"), Problem)
