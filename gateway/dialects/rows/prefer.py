"""Preferences of a request: what Prefer asks for, and what of it is honoured.

Source: RFC 7240 and PostgREST reference, "Prefer Header". The first value of a repeated
preference wins; one that is not honoured is ignored, or refused under handling=strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.dialects.rows.problems import RequestError, bad_preferences
from gateway.model.row_action import Count

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_HANDLING: Final = ("strict", "lenient")


class Returning(StrEnum):
    """How much of the rows written the answer holds."""

    MINIMAL = "minimal"
    HEADERS_ONLY = "headers-only"
    REPRESENTATION = "representation"


class Resolution(StrEnum):
    """What becomes of a row that stands there already."""

    MERGE = "merge-duplicates"
    IGNORE = "ignore-duplicates"


@dataclass(frozen=True, slots=True)
class Preferences:
    """What is honoured. `applied` is the value of Preference-Applied, empty for no such field.

    `max_affected` is set under handling=strict only. `missing_default`: columns that the body of a
    POST lacks get their default, although `columns` lists them.
    """

    resolution: Resolution | None = None
    count: Count | None = None

    returning: Returning = Returning.MINIMAL
    missing_default: bool = False
    max_affected: int | None = None
    applied: str = ""


def parse_prefer(values: list[bytes], method: str, *, resolvable: bool) -> Preferences:
    """Read all Prefer fields of a request. Raises RequestError.

    `resolvable`: the table has a primary key, or the request names what conflicts.
    """
    sent = _sent(values)
    honoured = _honoured(sent, method, resolvable)
    if sent.get("handling") == "strict":
        refused = [_written(name, sent) for name in sent if name not in honoured]
        if refused:
            raise RequestError(bad_preferences(refused))
    limit = sent["max-affected"] if "max-affected" in honoured else None
    return Preferences(
        returning=Returning(sent["return"]) if "return" in honoured else Returning.MINIMAL,
        missing_default="missing" in honoured,
        resolution=Resolution(sent["resolution"]) if "resolution" in honoured else None,
        count=Count(sent["count"]) if "count" in honoured else None,
        max_affected=None if limit is None else int(limit),
        applied=", ".join(_written(name, sent) for name in honoured),
    )


def _sent(values: list[bytes]) -> dict[str, str]:
    sent: dict[str, str] = {}
    for piece in b",".join(values).decode("latin-1").split(","):
        name, _, value = piece.partition(";")[0].partition("=")
        if name.strip():
            sent.setdefault(name.strip().lower(), value.strip().strip('"'))
    return sent


def _honoured(sent: Mapping[str, str], method: str, resolvable: bool) -> list[str]:
    """The names of what is honoured, in the order in which PostgREST lists them."""
    strict = sent.get("handling") == "strict"
    mutates = method not in ("GET", "HEAD")
    fit = {
        "resolution": method == "POST"
        and resolvable
        and sent.get("resolution") in tuple(Resolution),
        "missing": method == "POST" and sent.get("missing") == "default",
        "return": mutates and sent.get("return") in tuple(Returning),
        "count": sent.get("count") in tuple(Count),
        "handling": sent.get("handling") in _HANDLING,
        "max-affected": strict
        and method in ("PATCH", "DELETE")
        and _NUMBER.fullmatch(sent.get("max-affected", "")) is not None,
    }
    return [name for name, honoured in fit.items() if honoured]


def _written(name: str, sent: Mapping[str, str]) -> str:
    return f"{name}={sent[name]}" if sent[name] else name
