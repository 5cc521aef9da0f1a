"""The rows that a statement gives back, counted and written as JSON while they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.rows.problems import RequestError
from gateway.model.catalogue import Column, Table
from gateway.model.problem import Code, Problem
from gateway.stores.sqlite.values import json_text

MAX_RESULT_CHARS: Final = 16_777_216
"""No answer is larger: it is built in memory."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came back: how many rows, the first one, and the JSON array where it was wanted."""

    count: int
    first: tuple[Any, ...] | None
    json: str | None


def shown_columns(table: Table, names: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns wanted, in order; no names stand for all of the table's."""
    if not names:
        return table.columns
    found = (table.column(name) for name in names)
    return tuple(column for column in found if column is not None)


def collect(
    rows: Iterable[tuple[Any, ...]], read: tuple[Column, ...], shown: tuple[Column, ...] | None
) -> Found:
    """Read all rows. `read` are the statement's columns, `shown` those wanted, None for no JSON.

    Raises RequestError when the array would be too large to hold.
    """
    places = [(json.dumps(column.name), column, read.index(column)) for column in shown or ()]
    count, size, first, parts = 0, 0, None, list[str]()
    for row in rows:
        first = row if count == 0 else first
        count += 1
        if shown is not None:
            members = (f"{name}:{json_text(column, row[at])}" for name, column, at in places)
            parts.append("{" + ",".join(members) + "}")
            size += len(parts[-1])
        if size > MAX_RESULT_CHARS:
            raise RequestError(_too_large())
    return Found(count, first, None if shown is None else "[" + ",".join(parts) + "]")


def _too_large() -> Problem:
    message = f"the answer is larger than {MAX_RESULT_CHARS} characters; ask for fewer rows"
    return Problem(Code.REQUEST_MALFORMED, message, native="54000")
