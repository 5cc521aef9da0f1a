"""Values between JSON text and MariaDB, typed by the declared type of the column.

MariaDB itself would round 1.5 to fit an integer column and cut numbers out of texts that it
compares with; the rows dialect promises PostgreSQL's answers, so both are refused here.
"""

from __future__ import annotations

import json
import re
from typing import Final

from gateway.dialects.rows.canonical import uuid_of
from gateway.dialects.rows.csv_text import csv_text
from gateway.dialects.rows.problems import RequestError, unsupported
from gateway.dialects.rows.typed_text import (
    DECIMAL,
    boolean,
    integer,
    invalid,
    is_json,
    no_equality,
    octets,
    out_of_range,
    real,
)
from gateway.model.catalogue import Column, ColumnKind
from gateway.model.row_action import Member
from gateway.stores.mariadb import sql
from gateway.stores.mariadb.sql import Sql

Cell = str | bytes | None
"""What the text protocol brings of one value: its text, or the bytes of a binary column."""

MAX_DIGITS: Final = 65
"""Of MariaDB's DECIMAL (its manual, "DECIMAL")."""
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


def member_sql(column: Column, member: Member) -> Sql:
    """The value to store for one member of a row's body. Raises RequestError."""
    text = member.text
    if text is None:
        return sql.NULL
    if column.kind is ColumnKind.JSON:
        return sql.text(member.json)
    return value_sql(column, text)


def value_sql(column: Column, text: str) -> Sql:
    """The value that a text stands for in a column of this type. Raises RequestError."""
    match column.kind:
        case ColumnKind.INTEGER:
            return sql.number(integer(column, text))
        case ColumnKind.REAL:
            return sql.real(real(column, text))
        case ColumnKind.NUMERIC:
            return _numeric(column, text)
        case ColumnKind.BOOLEAN:
            return sql.number(boolean(column, text))
        case ColumnKind.UUID:
            found = uuid_of(text)
            if found is None:
                raise invalid(column, text)
            return sql.text(found)
        case ColumnKind.BINARY:
            return sql.octets(octets(column, text))
        case ColumnKind.JSON:
            raise no_equality(column)
        case _:
            return sql.text(text)


def stored_sql(column: Column, cell: Cell) -> Sql:
    """The value that was read from a column, to find it there again."""
    if cell is None:
        return sql.NULL
    if isinstance(cell, bytes):
        return sql.octets(cell)
    match column.kind:
        case ColumnKind.BOOLEAN:  # a tinyint holds more than truth values
            return sql.number(int(cell))
        case ColumnKind.JSON | ColumnKind.BINARY:
            return sql.text(cell)
        case _:
            return value_sql(column, cell)


def json_text(column: Column, cell: Cell) -> str:
    """Write a value that was read as JSON text."""
    if cell is None:
        return "null"
    if isinstance(cell, bytes):
        return json.dumps("\\x" + cell.hex())
    match column.kind:
        case ColumnKind.BOOLEAN if cell in ("0", "1"):
            return "true" if cell == "1" else "false"
        case ColumnKind.BOOLEAN | ColumnKind.INTEGER | ColumnKind.NUMERIC | ColumnKind.REAL:
            # ZEROFILL puts zeros in front, which no JSON number has.
            return cell if _JSON_NUMBER.fullmatch(cell) else _unfilled(cell)
        case ColumnKind.JSON if is_json(cell):
            return cell
        case _:
            return json.dumps(cell, ensure_ascii=False)


def csv_value(column: Column, cell: Cell) -> str:
    """Write a value that was read as PostgreSQL writes it into a record."""
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return csv_text("\\x" + cell.hex())
    if column.kind is ColumnKind.BOOLEAN and cell in ("0", "1"):
        return "t" if cell == "1" else "f"
    return csv_text(cell)


def no_operator(operator: str) -> RequestError:
    """The refusal of an operator that MariaDB has no equal of."""
    return RequestError(unsupported(f'the operator "{operator}" on MariaDB', mutates=True))


def no_cast(name: str) -> RequestError:
    """The refusal of a cast that MariaDB has no equal of."""
    return RequestError(unsupported(f'the cast to "{name}" on MariaDB', mutates=True))


def _numeric(column: Column, text: str) -> Sql:
    """Keep every digit of a decimal number; an exponent only moves its point."""
    match = DECIMAL.fullmatch(text)
    if match is None:
        raise invalid(column, text)
    whole, _, part = match[1].partition(".")
    digits, places = (whole + part).lstrip("0"), len(part) - int((match[2] or "e0")[1:])
    if len(digits) - min(places, 0) > MAX_DIGITS or places > MAX_DIGITS:
        raise out_of_range(column, text)
    if places < 0:
        digits, places = digits + "0" * -places, 0
    return sql.decimal(text.strip().startswith("-"), int(digits or "0"), places)


def _unfilled(cell: str) -> str:
    found = cell.lstrip("0")
    return found if found[:1].isdigit() else "0" + found
