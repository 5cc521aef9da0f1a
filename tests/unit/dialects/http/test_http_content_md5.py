"""Content-MD5 in the http dialect: a body that does not match never ends."""

import base64
import hashlib

import pytest

from gateway.dialects.http import HttpDialect
from gateway.dialects.origin import OriginDialect
from gateway.engine.compared_body import compared
from gateway.engine.retries import as_promised
from gateway.model.mark import Scope
from gateway.model.outcome import Applied, Refused
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut
from gateway.model.write_id import RequestName, request_name
from gateway.ports.body import BodyError
from gateway.ports.dialect import Parsed, RawRequest
from tests.unit.dialects.s3.s3_requests import Pieces, read_all

DIALECT = HttpDialect("files", "/files", None)
RIGHT = base64.b64encode(hashlib.md5(b"hello", usedforsecurity=False).digest())
OTHER = base64.b64encode(hashlib.md5(b"hellO", usedforsecurity=False).digest())


async def parse(method: str, *digests: bytes) -> object:
    fields = ((b"x-fence-token", b"1"), *((b"content-md5", digest) for digest in digests))
    body = Pieces(b"he", b"llo")
    request = RawRequest(method, b"/files/k", b"", fields, "r1", "h", False, 1.0, body)
    return await DIALECT.parse(request)


@pytest.mark.parametrize("digests", [(), (RIGHT,)])
async def test_a_body_that_matches_passes(digests: tuple[bytes, ...]) -> None:
    """All pieces come through, with their length; without the field nothing is demanded."""
    parsed = await parse("PUT", *digests)
    assert isinstance(parsed, Parsed)
    assert parsed.body.length == 5
    assert await read_all(parsed.body) == b"hello"


async def test_a_body_that_differs_has_no_end() -> None:
    """The digest of other bytes: 400 in place of the end, so that nothing is committed."""
    parsed = await parse("PUT", OTHER)
    assert isinstance(parsed, Parsed)
    with pytest.raises(BodyError) as refused:
        await read_all(parsed.body)
    assert refused.value.problem.code is Code.REQUEST_MALFORMED
    assert "Content-MD5" in refused.value.problem.message


@pytest.mark.parametrize("digests", [(b"",), (b"!",), (RIGHT[:-4],), (b"YQ==",), (RIGHT, RIGHT)])
async def test_a_field_that_is_no_digest_is_refused(digests: tuple[bytes, ...]) -> None:
    """Malformed, of another size, or sent twice: refused before the body is asked for."""
    problem = await parse("PUT", *digests)
    assert isinstance(problem, Problem)
    assert problem.code is Code.REQUEST_MALFORMED


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_it_means_nothing_without_a_body(method: str) -> None:
    """Reads and deletes store no body: the field is not looked at."""
    assert isinstance(await parse(method, b"!"), Parsed)


SCOPE = Scope("s")


async def named(
    dialect: HttpDialect | OriginDialect, *digests: tuple[bytes, bytes], method: str = "PUT"
) -> RequestName:
    fields = ((b"x-fence-token", b"1"), (b"idempotency-key", b"k"), *digests)
    body = Pieces(b"hello")
    request = RawRequest(method, b"/files/k", b"", fields, "r1", "h", False, 1.0, body)
    parsed = await dialect.parse(request)
    assert isinstance(parsed, Parsed)
    name = request_name(parsed.operation, SCOPE)
    assert name is not None
    return name


@pytest.mark.parametrize("field", [b"content-md5", b"content-digest", b"digest", b"repr-digest"])
@pytest.mark.parametrize(
    "dialect, method",
    [
        (DIALECT, "PUT"),
        (OriginDialect("files", "/files", None), "PUT"),
        (OriginDialect("files", "/files", None), "POST"),
    ],
)
async def test_another_digest_is_another_content(
    dialect: HttpDialect | OriginDialect, method: str, field: bytes
) -> None:
    """Of the same length, under the same key: no retry, but a key that was used twice."""
    first = await named(dialect, (field, RIGHT), method=method)
    assert await named(dialect, (field, RIGHT), method=method) == first
    for other in (((field, OTHER),), ()):
        changed = await named(dialect, *other, method=method)
        assert changed.digest == first.digest
        assert changed.content != first.content


@pytest.mark.parametrize("read", [False, True])
async def test_a_replay_does_not_take_a_body_that_lies(read: bool) -> None:
    """The answer from memory needs no body, but holds it to its digest, wherever reading stopped.

    The control: one that matches is answered.
    """

    replay = Applied(ObjectPut('"1"'), replayed=True)
    for digest in (RIGHT, OTHER):
        parsed = await parse("PUT", digest)
        assert isinstance(parsed, Parsed)
        body = compared(parsed.operation, parsed.body)
        if read:
            await anext(aiter(body))
        outcome = await as_promised(replay, body)
        if digest is RIGHT:
            assert outcome is replay
        else:
            assert isinstance(outcome, Refused)
            assert "Content-MD5" in outcome.problem.message
