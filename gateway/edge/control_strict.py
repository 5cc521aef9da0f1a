"""What the control API refuses before it understands it: whatever could be meant in two ways.

A member or a parameter that comes twice (RFC 8259, section 4), one that is not known, and text that
is no Unicode or holds a NUL: no scope, holder or reason does, and no registry could keep it.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.routing import APIRoute

from gateway.model.problem import Code, Problem

_NO_TEXT: Final = "must be Unicode text without surrogates and NUL"


class Malformed(Exception):
    """The request is refused; nothing of it was done."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(Code.REQUEST_MALFORMED, text)


class _Twice(ValueError):
    """A member of a JSON object comes twice; the argument is its name."""


async def strict(request: Request) -> None:
    """For every route of /v1. Raises `Malformed`."""
    fault = _query_fault(request)
    if fault is None and request.method == "POST":
        fault = body_fault(await request.body())
    if fault is not None:
        raise Malformed(fault)


def body_fault(body: bytes) -> str | None:
    """What is ambiguous in a JSON document; None as well for what is not JSON at all."""
    try:
        return _value_fault(json.loads(body, object_pairs_hook=_members), "body")
    except _Twice as twice:
        return f"body.{printable(str(twice))}: comes twice; send it once"
    except (ValueError, RecursionError):
        return None


def printable(text: str) -> str:
    """The text, with what is no Unicode as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _Twice(name)
        members[name] = value
    return members


def _value_fault(value: Any, where: str) -> str | None:
    match value:
        case str():
            return None if _is_text(value) else f"{where}: {_NO_TEXT}"
        case dict():
            for name, member in value.items():
                there = f"{where}.{printable(name)}"
                fault = _value_fault(name, there) or _value_fault(member, there)
                if fault is not None:
                    return fault
        case list():
            return next(filter(None, (_value_fault(item, where) for item in value)), None)
    return None


def _is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _query_fault(request: Request) -> str | None:
    raw = request.scope["query_string"].decode("latin-1")
    try:
        # Percent-encoded surrogates are no UTF-8 either, and would become U+FFFD unsaid.
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict")
    except ValueError:
        return f"query: {_NO_TEXT}, percent-encoded as UTF-8"
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = sorted(field.alias for field in route.dependant.query_params)
    seen: set[str] = set()
    for name, value in pairs:
        if name not in known:
            listed = ", ".join(known) or "none"
            return f"query.{printable(name)[:64]}: is not known here; known: {listed}"
        if name in seen:
            return f"query.{name}: comes twice; send it once"
        if not _is_text(value):
            return f"query.{name}: {_NO_TEXT}"
        seen.add(name)
    return None
