"""Bearer keys: who is let in where."""

import pytest

from gateway.dialects.bearer import authenticate
from gateway.model.problem import Code, Problem
from gateway.model.worker import WorkerKey

KEYS = {
    "everywhere": WorkerKey("everywhere", "s3cret-one"),
    "files": WorkerKey("files", "s3cret-two", frozenset({"files"})),
    "umlaut": WorkerKey("umlaut", "geheim-ü"),
}


@pytest.mark.parametrize(
    "field, worker",
    [
        (b"Bearer s3cret-one", "everywhere"),
        (b"bearer s3cret-one", "everywhere"),
        (b"BEARER  s3cret-two ", "files"),
        ("Bearer geheim-ü".encode(), "umlaut"),
    ],
)
def test_let_in(field: bytes, worker: str) -> None:
    """The scheme compares without case, the secret exactly."""
    assert authenticate([field], KEYS, "files") == worker


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
    problem = authenticate(fields, KEYS, "files")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.status) == (Code.UNAUTHENTICATED, 401)
    assert "s3cret" not in problem.message.lower()


def test_a_key_of_another_store() -> None:
    """403, and the message names key and store, not the secret."""
    problem = authenticate([b"Bearer s3cret-two"], KEYS, "db")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.status) == (Code.ACCESS_DENIED, 403)
    assert "files" in problem.message
    assert "db" in problem.message
    assert "s3cret" not in problem.message


def test_two_fields_are_ambiguous() -> None:
    """Even when both are right."""
    problem = authenticate([b"Bearer s3cret-one"] * 2, KEYS, "files")
    assert isinstance(problem, Problem)
    assert problem.code is Code.REQUEST_MALFORMED


def test_switched_off() -> None:
    """None lets everybody in as nobody; no keys let nobody in."""
    assert authenticate([b"Bearer whatever"], None, "files") is None
    assert isinstance(authenticate([b"Bearer s3cret-one"], {}, "files"), Problem)
