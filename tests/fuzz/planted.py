"""Faults that have been real ones in other servers, planted in the gateway for a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

import gateway.dialects.fence_fields
import gateway.dialects.plain_path
import gateway.dialects.s3.canonical
import gateway.dialects.s3.target
import gateway.dialects.s3.verify
import gateway.edge.guard
import gateway.policy.complaint
import gateway.policy.pattern
from gateway.dialects.plain_path import PlainPath
from gateway.edge.guard import Found, Framing
from gateway.edge.strict import StrictProtocol
from gateway.model.problem import Problem
from gateway.model.token import Malformed, Token
from gateway.policy.complaint import Mistake, Place, PolicyError
from tests.fuzz import heads, policies, targets

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """A fault, the law that must find it, and how it is planted."""

    law: str
    plant: Plant


def _put(target: object, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(target, name, value)


def _first_token(fields: list[bytes]) -> Token | Malformed | None:
    """The first of several fields counts."""
    return heads_parse_token(fields[:1])


def _python_number(fields: list[bytes]) -> Token | Malformed | None:
    """Whatever `int` takes is a token."""
    try:
        return Token(int(fields[0])) if len(fields) == 1 else Malformed("many")
    except ValueError:
        return Malformed("no number")


def _any_proof(fields: list[bytes]) -> Token | Malformed | None:
    """A dot may be followed by anything."""
    return heads_parse_token([field.partition(b".")[0] for field in fields])


heads_parse_token = heads.parse_token


def _any_token(parse: Callable[[list[bytes]], Token | Malformed | None]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(heads, "parse_token", parse)
        patch.setattr(gateway.dialects.fence_fields, "parse_token", parse)

    return plant


def _trailers(self: StrictProtocol, name: bytes, value: bytes) -> None:
    """Fields behind the body are fields like others."""
    self.headers.append((name.lower(), value))


def _last_segment(self: StrictProtocol, url: bytes) -> None:
    """A target comes whole, or so one thinks."""
    self.url = url


def _last_coding(found: Found, version: str) -> Framing | Problem:
    """What ends in `chunked` is chunked."""
    if any(b"chunked" in value.lower() for value in found.get(b"transfer-encoding", ())):
        return Framing(None, awaits_continue=False)
    lengths = found.get(b"content-length")
    return Framing(int(lengths[0]) if lengths else 0, awaits_continue=False)


def _one_line(self: PolicyError, mistakes: Sequence[Mistake]) -> None:
    """Where it was is forgotten."""
    lost = (replace(m, key="", place=Place(m.place.file)) for m in mistakes)
    self.mistakes = tuple(lost)


def _same(value: Any, *_: object) -> Any:
    return value


def _path_as_it_is(patch: pytest.MonkeyPatch) -> None:
    """Two spellings of a path are two paths."""
    patch.setattr(gateway.policy.pattern, "normal_path", _same)
    patch.setattr(policies, "normal_path", _same)


def _no_bound(patch: pytest.MonkeyPatch) -> None:
    """A scope is as long as it likes."""
    patch.setattr(policies, "bounded_scope", _same)


def _plain_as_it_is(path: bytes) -> PlainPath | Problem:
    """A path means itself, dots and all."""
    text = path.removeprefix(b"/").decode("ascii")
    return PlainPath(text, text)


def _nothing(*_: object) -> None:
    return None


GUARD = gateway.edge.guard
VERIFY = gateway.dialects.s3.verify
FAULTS = {
    "the first of several tokens": Fault("head", _any_token(_first_token)),
    "a token as Python reads numbers": Fault("token", _any_token(_python_number)),
    "a signature as it came": Fault("token", _any_token(_any_proof)),
    "trailer fields": Fault("head", _put(StrictProtocol, "on_header", _trailers)),
    "the last segment of a target": Fault("head", _put(StrictProtocol, "on_url", _last_segment)),
    "several codings": Fault("head", _put(GUARD, "_framing", _last_coding)),
    "two Host fields": Fault("head", _put(GUARD, "_check_host", _nothing)),
    "Connection names a fence field": Fault("head", _put(GUARD, "_check_connection", _nothing)),
    "underscores for hyphens": Fault("head", _put(GUARD, "complaint_about", _nothing)),
    "escapes that are none": Fault("head", _put(GUARD, "_check_target", _nothing)),
    "dots in plain paths": Fault("target", _put(targets, "plain_path", _plain_as_it_is)),
    "object keys as they came": Fault(
        "target", _put(gateway.dialects.s3.target, "encode_path", _same)
    ),
    "paths as they came": Fault("pattern", _path_as_it_is),
    "scopes without a bound": Fault("pattern", _no_bound),
    "mistakes without a place": Fault("policy", _put(PolicyError, "__init__", _one_line)),
    "a signature that is not compared": Fault(
        "credentials", _put(VERIFY.hmac, "compare_digest", lambda *_: True)
    ),
    "a query that is not signed": Fault(
        "signature", _put(VERIFY, "canonical_query", lambda pairs: b"")
    ),
    "fields that are not signed": Fault(
        "signature",
        _put(
            VERIFY,
            "_signed_fields",
            lambda presented, request: [
                (name, b",".join(b" ".join(v.split()) for v in request.values(name)))
                for name in presented.signed
            ],
        ),
    ),
    "a time that is not looked at": Fault("signature", _put(VERIFY, "_check_time", _nothing)),
}
