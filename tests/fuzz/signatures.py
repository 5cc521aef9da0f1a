"""Laws of SigV4: only what the key's owner signed is let in, and nothing breaks the parser."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote_from_bytes, unquote_to_bytes

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from gateway.dialects.s3.canonical import parse_query
from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.sigv4 import AccessKey, UnsignedRequest, amz_date, sign
from gateway.dialects.s3.verify import Identity, verify
from gateway.model.worker import WorkerKey
from gateway.ports.dialect import RawFields, RawRequest
from tests.fuzz.targets import passes_guard

NOW_S = 1_800_000_000.0
REGION = "us-east-1"
SECRET = "demo-secret"
KEYS = {"demo": WorkerKey("demo", SECRET)}
_HOST = (b"host", b"127.0.0.1:9000")
_PLAIN_QUERY = re.compile(rb"[\w.~-]+=[\w.~-]*(&[\w.~-]+=[\w.~-]*)*")
_BLANK = b" \t"


def request(path: bytes, query: bytes, fields: RawFields, method: str = "PUT") -> RawRequest:
    """A request as the edge hands it over, without a body."""
    body = None
    return RawRequest(method, path, query, fields, "r", "h", False, NOW_S, body)  # type: ignore[arg-type]


def verdict(sent: RawRequest) -> Identity | None:
    """The identity, or None when it is refused. Anything else is a fault."""
    try:
        return verify(sent, parse_query(sent.query), keys=KEYS, store="objects", region=REGION)
    except RefusedError as refusal:
        told = refusal.problem.message
    assert told
    assert SECRET not in told
    return None


def check_credentials(data: bytes) -> None:
    """`query NUL authorization NUL date NUL hash`: nobody without the secret is let in."""
    query, authorization, date, digest = [*data.split(b"\0"), b"", b"", b""][:4]
    fields = (
        _HOST,
        (b"x-amz-date", date),
        (b"x-amz-content-sha256", digest),
        (b"authorization", authorization),
    )
    for given in (fields, fields[:3], fields[:1]):
        assert verdict(request(b"/bucket/key", query, given)) is None


def check_signature(data: bytes) -> None:
    """`path NUL query NUL name NUL value NUL change`: what is signed is let in, as it was."""
    path, query, name, value, change = [*data.split(b"\0"), b"", b"", b"", b""][:5]
    path = b"/bucket/" + path
    if not passes_guard(path) or not passes_guard(b"/" + query.replace(b"?", b"")):
        return
    name = b"x-amz-meta-" + bytes(b for b in name.lower() if 0x61 <= b <= 0x7A)
    value = bytes(b for b in value if 0x20 <= b < 0x7F).strip(_BLANK)
    unsigned = UnsignedRequest("PUT", path, query, (_HOST, (name, value)))
    fields = (_HOST, (name, value), *sign(unsigned, AccessKey("demo", SECRET), REGION, NOW_S))
    sent = request(path, query, fields)
    if verdict(sent) is None:  # what it refuses must be what a client may not send when signed so
        assert b"x-amz-" in query.lower() or b"awsaccesskeyid" in query.lower() or b"%" in query
        return
    check_second_opinion(path, query, fields)
    check_changes(sent, change)


def check_second_opinion(path: bytes, query: bytes, fields: RawFields) -> None:
    """botocore signs the same request alike, where it can be asked about it."""
    if quote_from_bytes(unquote_to_bytes(path), safe="/~").encode() != path:
        return  # its callers escape a key in one way alone
    if query and not _PLAIN_QUERY.fullmatch(query):
        return  # nor does it decode a query before it signs it
    url = f"http://127.0.0.1:9000{path.decode()}" + (f"?{query.decode()}" if query else "")
    asked = AWSRequest("PUT", url)
    for name, value in fields:
        if name not in (b"authorization", b"host"):
            asked.headers[name.decode()] = value.decode()
    asked.context["timestamp"] = amz_date(NOW_S)
    signer = S3SigV4Auth(Credentials("demo", SECRET), "s3", REGION)
    canonical = signer.canonical_request(asked)
    mac = signer.signature(signer.string_to_sign(asked, canonical), asked)
    ours = dict(fields)[b"authorization"].decode()
    assert ours.endswith(f"Signature={mac}"), canonical


def check_changes(sent: RawRequest, change: bytes) -> None:
    """Each part of a signed request that means something to a store is covered."""
    extra = b"a" + bytes(b for b in change if 0x61 <= b <= 0x7A)
    bodiless = tuple(f for f in sent.fields if f[0] != b"x-amz-content-sha256")
    changed = [
        replace(sent, method="DELETE"),
        replace(sent, path=sent.path + extra),
        replace(sent, path=sent.path + b"/"),
        replace(sent, query=(sent.query + b"&" if sent.query else b"") + extra),
        replace(sent, fields=(*sent.fields, (b"x-amz-meta-" + extra, b"1"))),
        replace(sent, fields=(*sent.fields, (b"x-amz-acl", extra))),
        replace(sent, fields=((b"host", extra), *sent.fields[1:])),
        replace(sent, fields=(sent.fields[0], (sent.fields[1][0], extra * 40), *sent.fields[2:])),
        replace(sent, fields=(*bodiless, (b"x-amz-content-sha256", b"0" * 64))),
        replace(sent, arrived_s=NOW_S + 901),
    ]
    for index, other in enumerate(changed):
        assert verdict(other) is None, f"change {index} passed: {other}"
