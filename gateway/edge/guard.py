"""The guard: the first thing a parsed head meets, before anything acts on it. Pure.

Theory. Servers and proxies differ in what they accept, and each difference is a request that two of
them understand differently. The guard takes only what has one meaning (RFC 9110, RFC 9112), in a
fixed order of checks, each of which ends the connection. It compares bytes, with `fullmatch`: text
patterns and `int()` know other scripts' digits, `$` matches before a final newline. Header fields
are copied into a tuple, so that nothing can be added to what was checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.dialects.fence_fields import fence_fields
from gateway.edge.asgi_types import Scope
from gateway.edge.field_names import acts_on, complaint_about, is_field_name
from gateway.edge.refusals import head_too_large, malformed
from gateway.model.problem import Code, Problem
from gateway.ports.body import Body
from gateway.ports.dialect import RawFields, RawRequest

_HOST: Final = re.compile(rb"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_LENGTH: Final = re.compile(rb"[0-9]{1,19}")
_MAX_LENGTH: Final = 2**63 - 1
_METHOD: Final = re.compile(r"[A-Z][A-Z-]*")
_PATH: Final = re.compile(rb"/(?:[\x21\x22\x24\x26-\x3e\x40-\x7e]++|%[0-9A-Fa-f]{2})*+")
_QUERY: Final = re.compile(rb"(?:[\x21\x22\x24\x26-\x7e]++|%[0-9A-Fa-f]{2})*+")

_HOP_BY_HOP: Final = frozenset({b"upgrade", b"http2-settings", b"te"})
_HARMLESS_OPTIONS: Final = frozenset({b"close", b"keep-alive"})
_OVERRIDES: Final = frozenset({b"x-http-method-override", b"x-http-method", b"x-method-override"})
_WATCHED: Final = (
    frozenset({b"host", b"content-length", b"transfer-encoding", b"expect", b"connection"})
    | frozenset({b"x-fence-token", b"x-fence-holder"})
    | _HOP_BY_HOP
    | _OVERRIDES
)

Found = dict[bytes, list[bytes]]
"""The values of the fields that the guard looks at."""


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What is configured. `hosts` are the names served, in lower case; None serves any."""

    max_head_bytes: int = 32 * 1024
    max_fields: int = 100
    hosts: frozenset[bytes] | None = None


class Framing(NamedTuple):
    """How the body is delimited: a length (0 without a body), or None when it is chunked."""

    length: int | None
    awaits_continue: bool


def guard(
    scope: Scope,
    rules: GuardRules,
    body_of: Callable[[Framing], Body],
    *,
    request_id: str,
    arrived_s: float,
) -> RawRequest | Problem:
    """Check a head and make a request of it. `arrived_s` is CLOCK_REALTIME, for signatures."""
    if scope["type"] != "http":
        raise ValueError(f"a {scope['type']} connection is not served here")
    fields: RawFields = tuple(scope["headers"])
    found: Found = {}
    complaint: str | None = None
    size = len(scope["raw_path"]) + len(scope["query_string"])
    for name, value in fields:
        size += len(name) + len(value) + 4
        if name in _WATCHED:
            found.setdefault(name, []).append(value)
        elif complaint is None:
            complaint = complaint_about(name)
    if size > rules.max_head_bytes or len(fields) > rules.max_fields:
        return head_too_large(rules.max_head_bytes, rules.max_fields)
    if complaint is not None:
        return malformed(complaint)
    problem = _check_version(scope["http_version"]) or _check_host(
        found, scope["http_version"], rules.hosts
    )
    if problem is not None:
        return problem
    framing = _framing(found, scope["http_version"])
    if isinstance(framing, Problem):
        return framing
    problem = (
        _check_method(scope["method"], found)
        or _check_connection(found)
        or _check_fence(fields, found)
        or _check_target(scope["raw_path"], scope["query_string"])
    )
    if problem is not None:
        return problem
    return RawRequest(
        method=scope["method"],
        path=scope["raw_path"],
        query=scope["query_string"],
        fields=_end_to_end(fields, found),
        request_id=request_id,
        host=found[b"host"][0].decode("ascii") if b"host" in found else "",
        https=scope["scheme"] == "https",
        arrived_s=arrived_s,
        body=body_of(framing),
    )


def _check_version(version: str) -> Problem | None:
    if version in ("1.1", "1.0"):
        return None
    return malformed("send the request as HTTP/1.1")


def _check_host(found: Found, version: str, hosts: frozenset[bytes] | None) -> Problem | None:
    values = found.get(b"host", [])
    if not values and version == "1.0" and hosts is None:
        return None
    if len(values) != 1:
        return malformed("send exactly one Host field")
    match = _HOST.fullmatch(values[0])
    if match is None:
        return malformed("Host must be a name or an address, with a port at most")
    if hosts is None or match[1].lower() in hosts or values[0].lower() in hosts:
        return None
    text = "this gateway does not serve the host that the request names; see `hosts`"
    return Problem(Code.UNKNOWN_HOST, text, close=True)


def _framing(found: Found, version: str) -> Framing | Problem:
    """RFC 9112, section 6.3, without what it merely tolerates."""
    lengths = found.get(b"content-length")
    codings = found.get(b"transfer-encoding")
    length: int | None = 0
    if codings is not None:
        if lengths is not None:
            return malformed("send Content-Length or Transfer-Encoding, not both")
        if version != "1.1":
            return malformed("HTTP/1.0 knows no Transfer-Encoding; send Content-Length")
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            return malformed('the only Transfer-Encoding that is understood is "chunked", once')
        length = None
    elif lengths is not None:
        if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
            return malformed("send one Content-Length field, of digits only")
        length = int(lengths[0])
        if length > _MAX_LENGTH:
            return malformed("Content-Length is larger than any body can be")
    expected = found.get(b"expect")
    if expected is not None and (len(expected) != 1 or expected[0].lower() != b"100-continue"):
        return malformed("the only expectation that can be met is Expect: 100-continue")
    return Framing(length, expected is not None and version == "1.1")


def _check_method(method: str, found: Found) -> Problem | None:
    if not _METHOD.fullmatch(method):
        return malformed("a method is written in capital letters")
    for name in _OVERRIDES:
        if name in found:
            return malformed("send the method in the request line: no field overrides it")
    return None


def _options(found: Found) -> list[bytes]:
    return [
        option.strip(b" \t").lower()
        for value in found.get(b"connection", ())
        for option in value.split(b",")
    ]


def _check_connection(found: Found) -> Problem | None:
    """A field that `Connection` names is dropped by the next hop: it must not matter to anybody."""
    for option in _options(found):
        if option in _HARMLESS_OPTIONS or option in _HOP_BY_HOP or not option:
            continue
        if not is_field_name(option):
            return malformed("Connection must be a list of names")
        if acts_on(option.replace(b"_", b"-")):
            return malformed(f"Connection must not name {option.decode('ascii')}")
    return None


def _check_fence(fields: RawFields, found: Found) -> Problem | None:
    if b"x-fence-token" not in found and b"x-fence-holder" not in found:
        return None
    fence = fence_fields(fields)
    if not isinstance(fence, Problem):
        return None
    return Problem(fence.code, fence.message, close=True)


def _check_target(path: bytes, query: bytes) -> Problem | None:
    if not _PATH.fullmatch(path) or not _QUERY.fullmatch(query):
        return malformed(
            "escape the bytes of the target that are not visible ASCII, and every percent sign "
            "that starts no escape (%25)"
        )
    if b"%00" in path:
        return malformed("the path must not hold a NUL byte (%00)")
    return None


def _end_to_end(fields: RawFields, found: Found) -> RawFields:
    """Leave out what concerns this connection alone (RFC 9110, section 7.6.1)."""
    gone = {o for o in _options(found) if o not in _HARMLESS_OPTIONS} if found else set()
    gone.update(name for name in _HOP_BY_HOP if name in found)
    if not gone:
        return fields
    return tuple(field for field in fields if field[0] not in gone)
