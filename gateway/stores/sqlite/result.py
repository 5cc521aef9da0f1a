"""The rows that a statement gives back, counted and written as text while they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.rows.csv_text import csv_name, csv_text
from gateway.dialects.rows.problems import RequestError
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.problem import Code, Problem
from gateway.model.row_action import Selected, Selection
from gateway.stores.sqlite.predicates import Piece, joined, quoted, shown_value
from gateway.stores.sqlite.values import json_text

MAX_RESULT_CHARS: Final = 16_777_216
"""No answer is larger: it is built in memory."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came back: how many rows, the version of the first, and the text where it was wanted."""

    count: int
    version: object
    text: str | None


@dataclass(frozen=True, slots=True)
class Readout:
    """What a statement gives back of each row: the values shown, then the version if there is one.

    `names` is None where nothing is shown and rows are only counted.
    """

    pieces: tuple[Piece, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...] | None
    versioned: bool
    csv: bool

    @property
    def piece(self) -> Piece:
        """The expressions of SELECT or RETURNING."""
        return joined(list(self.pieces), ", ")


def readout(table: Table, wanted: Selection | None, *, csv: bool = False) -> Readout:
    """Prepare what is shown of a table's rows; None shows nothing. Raises RequestError."""
    items = tuple(Selected(column.name) for column in table.columns) if wanted == () else wanted
    shown = [shown_value(table, item) for item in items or ()]
    pieces = [value.piece for value in shown]
    columns = [value.column for value in shown]
    version = None if table.version_column is None else table.column(table.version_column)
    if version is not None:
        pieces.append(Piece(quoted(version)))
    return Readout(
        tuple(pieces or [Piece("1")]),
        tuple(columns),
        None if items is None else tuple(item.name for item in items),
        version is not None,
        csv,
    )


def collect(rows: Iterable[tuple[Any, ...]], what: Readout) -> Found:
    """Read all rows. Raises RequestError when the text would be too large to hold."""
    count, size, version, parts = 0, 0, None, list[str]()
    heads = [json.dumps(name, ensure_ascii=False) for name in what.names or ()]
    for row in rows:
        if count == 0 and what.versioned:
            version = row[-1]
        count += 1
        if what.names is not None:
            values = zip(what.columns, row, strict=False)
            if what.csv:
                parts.append(",".join(_csv_value(column, value) for column, value in values))
            else:
                texts = (json_text(column, value) for column, value in values)
                members = map("{}:{}".format, heads, texts)
                parts.append("{" + ",".join(members) + "}")
            size += len(parts[-1])
        if size > MAX_RESULT_CHARS:
            raise RequestError(_too_large())
    if what.names is None:
        return Found(count, version, None)
    text = "[" + ",".join(parts) + "]"
    if what.csv:
        text = "\n".join([",".join(map(csv_name, what.names)), *parts])
    return Found(count, version, text)


def nothing_found(what: Readout) -> Found:
    """No rows, in the form that was wanted."""
    return collect((), what)


def _csv_value(column: Column, value: Any) -> str:
    """A value as PostgreSQL writes it into a record (its manual, 8.16.6)."""
    if value is None:
        return ""
    if column.kind is ColumnKind.BOOLEAN and value in (0, 1):
        return "t" if value else "f"
    text = value if isinstance(value, str) else json_text(column, value)
    if isinstance(value, bytes):
        text = "\\x" + value.hex()
    return csv_text(text)


def _too_large() -> Problem:
    message = f"the answer is larger than {MAX_RESULT_CHARS} characters; ask for fewer rows"
    return Problem(Code.REQUEST_MALFORMED, message, native="54000")
