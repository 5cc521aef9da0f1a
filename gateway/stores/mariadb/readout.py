"""What a statement shows of rows, and the text that is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.dialects.rows.csv_text import csv_name
from gateway.dialects.rows.problems import RequestError
from gateway.model.catalogue import Column, Table
from gateway.model.problem import Code, Problem
from gateway.model.row_action import Selected, Selection
from gateway.stores.mariadb.predicates import shown_value, version_of
from gateway.stores.mariadb.sql import Sql, column_name, join
from gateway.stores.mariadb.values import Cell, csv_value, json_text

MAX_RESULT_CHARS: Final = 16_777_216
"""No answer is larger: it is built in memory."""

Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What came back: how many rows, the version of the first, and the text where it was wanted."""

    count: int
    version: int | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Readout:
    """What a statement gives back of each row: the values shown, then the version if there is one.

    `names` is None where nothing is shown and rows are only counted.
    """

    sql: Sql
    columns: tuple[Column, ...]
    names: tuple[str, ...] | None
    versioned: bool
    csv: bool

    def collect(self, rows: Iterable[Row]) -> Found:
        """Read all rows. Raises RequestError when the text would be too large to hold."""
        count, size, version, parts = 0, 0, None, list[str]()
        heads = [json.dumps(name, ensure_ascii=False) for name in self.names or ()]
        for row in rows:
            if count == 0 and self.versioned:
                cell = row[-1]
                version = 0 if cell is None else int(cell)
            count += 1
            if self.names is not None:
                parts.append(self._line(row) if self.csv else self._object(heads, row))
                size += len(parts[-1])
            if size > MAX_RESULT_CHARS:
                raise RequestError(_too_large())
        return Found(count, version, self._text(parts))

    def _object(self, heads: list[str], row: Row) -> str:
        texts = (json_text(column, cell) for column, cell in zip(self.columns, row, strict=False))
        return "{" + ",".join(map("{}:{}".format, heads, texts)) + "}"

    def _line(self, row: Row) -> str:
        values = zip(self.columns, row, strict=False)
        return ",".join(csv_value(column, cell) for column, cell in values)

    def _text(self, parts: list[str]) -> str | None:
        if self.names is None:
            return None
        if self.csv:
            return "\n".join([",".join(map(csv_name, self.names)), *parts])
        return "[" + ",".join(parts) + "]"


def readout(table: Table, wanted: Selection | None, *, csv: bool = False) -> Readout:
    """Prepare what is shown of a table's rows; None shows nothing. Raises RequestError."""
    items = tuple(Selected(column.name) for column in table.columns) if wanted == () else wanted
    shown = [shown_value(table, item) for item in items or ()]
    pieces = [value.sql for value in shown]
    version = version_of(table)
    if version is not None:
        pieces.append(column_name(table, version))
    return Readout(
        join(", ", pieces) or Sql("1"),
        tuple(value.column for value in shown),
        None if items is None else tuple(item.name for item in items),
        version is not None,
        csv,
    )


def _too_large() -> Problem:
    message = f"the answer is larger than {MAX_RESULT_CHARS} characters; ask for fewer rows"
    return Problem(Code.REQUEST_MALFORMED, message, native="54000")
