"""Every way in which a signature can be wrong, with the code that S3 answers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.s3.canonical import (
    canonical_path,
    canonical_query,
    canonical_request,
    parse_query,
)
from gateway.dialects.s3.credentials import PRESIGN_PARAMETERS
from gateway.dialects.s3.sigv4 import (
    UNSIGNED_PAYLOAD,
    credential_scope,
    day_key,
    signature,
    string_to_sign,
)
from gateway.model.problem import Code, Problem
from gateway.model.worker import WorkerKey, secret_digest
from gateway.ports.dialect import Parsed, RawRequest
from tests.unit.dialects.s3.s3_requests import (
    ACCESS,
    HOST,
    KEYS,
    NOW_S,
    REGION,
    SECRET,
    dialect,
    parsed,
    problem,
    raw,
    signed,
)

Change = Callable[[bytes], bytes]


def changed(request: RawRequest, name: bytes, change: Change) -> RawRequest:
    """Change the value of one field after signing."""
    fields = tuple((n, change(v) if n == name else v) for n, v in request.fields)
    assert fields != request.fields
    return dataclasses.replace(request, fields=fields)


def without(request: RawRequest, name: bytes) -> RawRequest:
    """Take a field away after signing."""
    return dataclasses.replace(request, fields=tuple(f for f in request.fields if f[0] != name))


def plus(request: RawRequest, *fields: tuple[bytes, bytes]) -> RawRequest:
    """Add fields after signing."""
    return dataclasses.replace(request, fields=(*request.fields, *fields))


def swap(old: bytes, new: bytes) -> Change:
    """Replace a part of a value."""
    return lambda value: value.replace(old, new)


def put(**options: object) -> RawRequest:
    """Make a signed PUT."""
    fields = [(b"x-amz-meta-color", b"red"), (b"content-type", b"text/plain")]
    return signed("PUT", b"/bucket/a%20key", b"x-id=PutObject", fields, b"hello", **options)


DAY = b"20270115"

HEADER_CASES = {
    "no signature": (without(put(), b"authorization"), "AccessDenied", 403),
    "unknown key": (put(access="nobody"), "InvalidAccessKeyId", 403),
    "wrong secret": (put(secret="wrong"), "SignatureDoesNotMatch", 403),
    "key of another store": (put(access="elsewhere", secret="other"), "AccessDenied", 403),
    "clock behind": (put(at_s=NOW_S - 901), "RequestTimeTooSkewed", 403),
    "clock ahead": (put(at_s=NOW_S + 901), "RequestTimeTooSkewed", 403),
    "wrong region": (put(region="eu-central-1"), "AuthorizationHeaderMalformed", 400),
    "wrong service": (
        changed(put(), b"authorization", swap(b"/s3/", b"/sqs/")),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "wrong terminator": (
        changed(put(), b"authorization", swap(b"aws4_request", b"aws5_request")),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "another day in the credential": (
        changed(put(), b"authorization", swap(DAY, b"20270114")),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "no credential": (
        changed(put(), b"authorization", lambda v: re.sub(rb"Credential=[^,]+, ", b"", v)),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "a credential twice": (
        changed(put(), b"authorization", lambda v: v + b", Credential=x/1/2/3/aws4_request"),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "an unknown component": (
        changed(put(), b"authorization", lambda v: v + b", Extra=1"),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "a short signature": (
        changed(put(), b"authorization", lambda v: v[:-1]),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "an upper-case signature": (
        changed(put(), b"authorization", lambda v: v[:-64] + v[-64:].upper()),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "a signed name in upper case": (
        changed(put(), b"authorization", swap(b"=content-type;", b"=Content-Type;")),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "a signed name twice": (
        changed(put(), b"authorization", swap(b";host;", b";host;host;")),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "another scheme": (
        changed(put(), b"authorization", lambda _: b"Bearer demo-secret"),
        "InvalidArgument",
        400,
    ),
    "signature version 2": (
        changed(put(), b"authorization", lambda _: b"AWS demo:c2lnbmF0dXJl"),
        "InvalidRequest",
        400,
    ),
    "signature version 2 presigned": (
        raw("GET", b"/bucket/k", b"AWSAccessKeyId=demo&Signature=x&Expires=2000000000"),
        "InvalidRequest",
        400,
    ),
    "two Authorization fields": (plus(put(), (b"authorization", b"x")), "InvalidArgument", 400),
    "header and query at once": (
        dataclasses.replace(put(), query=b"x-id=PutObject&X-Amz-Algorithm=AWS4-HMAC-SHA256"),
        "InvalidArgument",
        400,
    ),
    "no date": (without(put(), b"x-amz-date"), "AccessDenied", 403),
    "two dates": (plus(put(), (b"x-amz-date", b"20270115T080000Z")), "AccessDenied", 403),
    "a date of another form": (
        changed(put(), b"x-amz-date", lambda _: b"Fri, 15 Jan 2027 08:00:00 GMT"),
        "AuthorizationHeaderMalformed",
        400,
    ),
    "a date that is no day": (
        changed(
            changed(put(), b"x-amz-date", swap(DAY, b"20271315")),
            b"authorization",
            swap(DAY, b"20271315"),
        ),
        "AccessDenied",
        403,
    ),
    "no body hash": (without(put(), b"x-amz-content-sha256"), "InvalidRequest", 400),
    "a session token": (plus(put(), (b"x-amz-security-token", b"t")), "InvalidToken", 400),
    "an unsigned x-amz field": (plus(put(), (b"x-amz-acl", b"public-read")), "AccessDenied", 403),
    "an unsigned copy source": (
        plus(put(), (b"x-amz-copy-source", b"/bucket/other")),
        "AccessDenied",
        403,
    ),
    "a signed field that did not arrive": (
        without(put(), b"content-type"),
        "SignatureDoesNotMatch",
        403,
    ),
    "a second value of a signed field": (
        plus(put(), (b"x-amz-meta-color", b"blue")),
        "SignatureDoesNotMatch",
        403,
    ),
    "another host": (changed(put(), b"host", lambda _: b"127.0.0.1"), "SignatureDoesNotMatch", 403),
}


@pytest.mark.parametrize("case", HEADER_CASES)
async def test_a_wrong_signature_has_its_own_code(case: str) -> None:
    """Each way to be wrong is answered with the code and status that S3 has for it."""
    request, native, status = HEADER_CASES[case]
    answer = await problem(request)
    assert (answer.native, answer.status) == (native, status)


async def test_the_signed_request_itself_is_accepted() -> None:
    """The control of the table above: unchanged, the request is understood."""
    assert (await parsed(put())).operation.worker == ACCESS


@pytest.mark.parametrize("offset_s", [-900, 0, 900])
async def test_a_quarter_of_an_hour_of_skew_is_accepted(offset_s: int) -> None:
    """Up to and including 15 minutes either way."""
    await parsed(put(at_s=NOW_S + offset_s))


async def test_a_host_that_is_not_signed_is_refused() -> None:
    """The host decides which gateway was meant, so it must be covered."""
    request = changed(put(), b"authorization", swap(b"host;", b""))
    answer = await problem(request)
    assert (answer.native, answer.status) == ("AccessDenied", 403)
    assert "host" in answer.message


async def test_a_request_without_a_host_is_refused() -> None:
    """What was signed for no host was signed for any."""
    request = signed("GET", b"/bucket/k")
    request = without(changed(request, b"authorization", swap(b"host;", b"")), b"host")
    assert (await problem(request)).native == "AccessDenied"


STREAMING = (
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
)


@pytest.mark.parametrize("payload", STREAMING)
async def test_a_presigned_upload_has_no_chunks(payload: str) -> None:
    """A presigned URL is no seed for a chain, and its unsigned trailer could be anybody's: 501."""
    field = (b"x-amz-content-sha256", payload.encode())
    names = b"host;x-amz-content-sha256"
    request = presigned(method="PUT", fields=(field,), signed_names=names, payload=payload.encode())
    assert (await problem(request)).code is Code.NOT_FENCED


async def test_fence_fields_need_no_signature_and_may_have_one() -> None:
    """X-Fence-Token is honoured when it is unsigned, and when it is signed."""
    fence = (b"x-fence-token", b"7")
    assert (await parsed(plus(put(), fence))).operation.token == 7
    request = signed("PUT", b"/bucket/k", fields=[fence], body=b"x")
    assert b"x-fence-token" in dict(request.fields)[b"authorization"]
    assert (await parsed(request)).operation.token == 7
    assert (await problem(changed(request, b"x-fence-token", lambda _: b"8"))).native == (
        "SignatureDoesNotMatch"
    )


async def test_blanks_around_and_within_values_are_not_part_of_them() -> None:
    """Fields are signed trimmed and collapsed, so a hop may fold blanks."""
    request = signed("PUT", b"/bucket/k", fields=[(b"x-amz-meta-a", b"  x   y ")], body=b"")
    await parsed(changed(request, b"x-amz-meta-a", lambda _: b"x y"))
    assert (await problem(changed(request, b"x-amz-meta-a", lambda _: b"xy"))).native == (
        "SignatureDoesNotMatch"
    )


# --- presigned ------------------------------------------------------------------------------------
def presigned(
    *,
    method: str = "GET",
    path: bytes = b"/bucket/k",
    expires: bytes = b"60",
    extra: bytes = b"",
    region: str = REGION,
    signed_names: bytes = b"host",
    fields: tuple[tuple[bytes, bytes], ...] = (),
    edit: Change = lambda query: query,
    arrived_s: float = NOW_S,
    payload: bytes = UNSIGNED_PAYLOAD.encode(),
) -> RawRequest:
    """Presign by hand; `edit` changes the query before the signature is made over it."""
    date = "20270115T080000Z"
    scope = credential_scope(date[:8], region)
    query = edit(
        b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
        + f"{ACCESS}/{scope}".replace("/", "%2F").encode()
        + b"&X-Amz-Date=" + date.encode() + b"&X-Amz-Expires=" + expires
        + b"&X-Amz-SignedHeaders=" + signed_names.replace(b";", b"%3B") + extra
    )  # fmt: skip
    values = {b"host": HOST, **dict(fields)}
    covered = [(name, values[name]) for name in sorted(signed_names.split(b";")) if name in values]
    canonical = canonical_request(
        method, canonical_path(path), canonical_query(parse_query(query)), covered, payload
    )
    mac = signature(day_key(SECRET, date[:8], region), string_to_sign(date, scope, canonical))
    query += b"&X-Amz-Signature=" + mac.encode()
    return raw(method, path, query, fields, arrived_s=arrived_s)


def drop(name: bytes) -> Change:
    """Remove one parameter from a query."""
    return lambda query: b"&".join(p for p in query.split(b"&") if not p.startswith(name + b"="))


QUERY = "AuthorizationQueryParametersError"

QUERY_CASES = {
    "expires 0": (presigned(expires=b"0"), QUERY, 400),
    "expires above a week": (presigned(expires=b"604801"), QUERY, 400),
    "expires with a sign": (presigned(expires=b"%2B60"), QUERY, 400),
    "expires that is no number": (presigned(expires=b"1e3"), QUERY, 400),
    "expires in other digits": (presigned(expires=b"%D9%A3"), QUERY, 400),
    "no expires": (presigned(edit=drop(b"X-Amz-Expires")), QUERY, 400),
    "no date": (presigned(edit=drop(b"X-Amz-Date")), QUERY, 400),
    "no credential": (presigned(edit=drop(b"X-Amz-Credential")), QUERY, 400),
    "another algorithm": (
        presigned(edit=swap(b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256")),
        QUERY,
        400,
    ),
    "a parameter twice": (presigned(extra=b"&X-Amz-Expires=60"), QUERY, 400),
    "wrong region": (presigned(region="eu-central-1"), QUERY, 400),
    "a session token": (presigned(extra=b"&X-Amz-Security-Token=t"), "InvalidToken", 400),
    "expired": (presigned(arrived_s=NOW_S + 61), "AccessDenied", 403),
    "not valid yet": (presigned(arrived_s=NOW_S - 901), "AccessDenied", 403),
    "an unsigned x-amz field": (
        presigned(fields=((b"x-amz-acl", b"public-read"),)),
        "AccessDenied",
        403,
    ),
    "two hashes": (
        presigned(
            extra=b"&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD",
            fields=((b"x-amz-content-sha256", b"0" * 64),),
            signed_names=b"host;x-amz-content-sha256",
        ),
        QUERY,
        400,
    ),
}


@pytest.mark.parametrize("case", QUERY_CASES)
async def test_a_wrong_presigned_url_has_its_own_code(case: str) -> None:
    """Each way in which a presigned URL is wrong is answered as S3 does."""
    request, native, status = QUERY_CASES[case]
    answer = await problem(request)
    assert (answer.native, answer.status) == (native, status)


@pytest.mark.parametrize(
    "request_",
    [
        presigned(),
        presigned(expires=b"1"),
        presigned(expires=b"604800", arrived_s=NOW_S + 604_800),
        presigned(extra=b"&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD"),
        presigned(extra=b"&X-Amz-Content-SHA256=UNSIGNED-PAYLOAD"),
        presigned(extra=b"&response-content-type=text%2Fplain"),
        presigned(
            fields=((b"x-amz-content-sha256", UNSIGNED_PAYLOAD.encode()),),
            signed_names=b"host;x-amz-content-sha256",
        ),
    ],
    ids=["plain", "1 s", "a week", "hash word", "hash word 2", "override", "hash field"],
)
async def test_a_right_presigned_url_is_accepted(request_: RawRequest) -> None:
    """The control of the table above, at the limits of the life time."""
    assert (await parsed(request_)).operation.worker == ACCESS


def test_every_presign_parameter_is_needed_but_the_hash() -> None:
    """A parameter added to the list must get a case in the table above."""
    assert len(PRESIGN_PARAMETERS) == 8


# --- one flipped bit ------------------------------------------------------------------------------
def _meaning(request: RawRequest) -> object:
    """What a signature covers: the same meaning may be spelled in several ways."""
    try:
        query = sorted(parse_query(request.query))
    except ValueError:
        query = []
    fields = sorted((name, b" ".join(value.split())) for name, value in request.fields)
    return request.method, canonical_path(request.path), query, fields


SUBJECTS = {
    "header": signed(
        "PUT",
        b"/bucket/a%20key%2Fb",
        b"x-id=PutObject",
        [(b"x-amz-meta-color", b"red"), (b"content-type", b"text/plain")],
        b"hello",
    ),
    "presigned": presigned(extra=b"&response-content-type=text%2Fplain"),
}


@settings(max_examples=400, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("subject", SUBJECTS)
async def test_one_flipped_bit_anywhere_is_refused(subject: str, data: st.DataObject) -> None:
    """Method, path, query, each signed field and its name: no bit of them can change unnoticed."""
    request = SUBJECTS[subject]
    covered = [i for i, f in enumerate(request.fields) if f[0] != b"content-length"]
    where = data.draw(st.sampled_from(["path", "query", *covered]))
    part = data.draw(st.sampled_from([0, 1])) if isinstance(where, int) else 0
    original = request.fields[where][part] if isinstance(where, int) else getattr(request, where)
    bit = data.draw(st.integers(0, len(original) * 8 - 1))
    flipped = bytearray(original)
    flipped[bit // 8] ^= 1 << (bit % 8)
    if isinstance(where, int):
        fields = list(request.fields)
        pair = list(fields[where])
        pair[part] = bytes(flipped)
        fields[where] = (pair[0], pair[1])
        attempt = dataclasses.replace(request, fields=tuple(fields))
    else:
        attempt = dataclasses.replace(request, **{where: bytes(flipped)})
    answer = await dialect().parse(attempt)
    if isinstance(answer, Parsed):
        assert _meaning(attempt) == _meaning(request)
    else:
        assert isinstance(answer, Problem)


@pytest.mark.parametrize("subject", SUBJECTS)
async def test_the_subjects_of_the_flips_are_accepted(subject: str) -> None:
    """The control of the flips: unflipped, both requests are understood."""
    assert (await parsed(SUBJECTS[subject])).operation.resource.path.startswith("bucket/")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_another_method_is_refused(method: str) -> None:
    """A signed PUT cannot be replayed as a read or a removal."""
    request = dataclasses.replace(put(), method=method)
    assert (await problem(request)).native == "SignatureDoesNotMatch"


async def test_an_empty_set_of_keys_lets_nobody_in() -> None:
    """No keys is not the same as no authentication."""
    assert (await problem(put(), keys={})).native == "InvalidAccessKeyId"
    assert (await parsed(put(), keys=None)).operation.worker is None


async def test_no_refusal_tells_a_secret() -> None:
    """Neither the secret nor what the signature should have been is in any message."""
    for request, _, _ in [*HEADER_CASES.values(), *QUERY_CASES.values()]:
        answer = await problem(request)
        text = repr(answer)
        assert SECRET not in text
        assert not re.search(r"[0-9a-f]{64}", text)
    assert SECRET not in repr(KEYS)


async def test_a_key_is_refused_from_its_expiry_on() -> None:
    """Behind the signature: only who holds the secret learns that the key has expired."""
    for expires_s, admitted in ((NOW_S + 1, True), (NOW_S, False)):
        keys = {ACCESS: WorkerKey(ACCESS, SECRET, expires_s=expires_s)}
        found = await dialect(keys).parse(put())
        assert isinstance(found, Parsed) is admitted
        if isinstance(found, Problem):
            assert (found.native, found.status) == ("AccessDenied", 403)
    forged = dataclasses.replace(put(), path=b"/demo/another")
    answer = await dialect({ACCESS: WorkerKey(ACCESS, SECRET, expires_s=NOW_S)}).parse(forged)
    assert isinstance(answer, Problem)
    assert answer.native == "SignatureDoesNotMatch"


async def test_a_key_without_its_secret_signs_nothing() -> None:
    """Of a hashed key the gateway cannot know a signature, so none is ever right."""
    keys = {ACCESS: WorkerKey(ACCESS, None, digest=secret_digest(SECRET))}
    answer = await dialect(keys).parse(put())
    assert isinstance(answer, Problem)
    assert answer.native == "InvalidAccessKeyId"
