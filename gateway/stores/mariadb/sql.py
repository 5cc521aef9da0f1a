"""Owns SQL text: what may become part of it, and in which form.

The text protocol carries values inside the statement, so a value enters it as a literal whose
text holds digits, signs and a fixed frame only: a text is `_utf8mb4 X'…'`, whatever it says
(MariaDB, "Hexadecimal Literals"). Names come from the catalogue, in backticks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NewType

from gateway.model.catalogue import Column, Table

Sql = NewType("Sql", str)
"""Text that is safe to send."""

NOTHING: Final = Sql("")
NULL: Final = Sql("NULL")


def compose(template: str, **parts: Sql) -> Sql:
    """Fill a literal template. Parts are inserted as they are, never read as templates."""
    return Sql(template.format_map(parts))


def join(separator: str, parts: Iterable[Sql]) -> Sql:
    """Put parts in a row."""
    return Sql(separator.join(parts))


def text(value: str | None) -> Sql:
    """A text, or NULL."""
    return NULL if value is None else Sql(f"_utf8mb4 X'{value.encode().hex()}'")


def octets(value: bytes) -> Sql:
    """Bytes of no character set."""
    return Sql(f"X'{value.hex()}'")


def number(value: int | None) -> Sql:
    """An integer of any size, or NULL."""
    return NULL if value is None else Sql(str(int(value)))


def decimal(negative: bool, digits: int, places: int) -> Sql:
    """A decimal number: these digits, the last `places` of them behind the point."""
    figures = str(int(digits)).rjust(int(places) + 1, "0")
    whole, part = figures[: len(figures) - places], figures[len(figures) - places :]
    return Sql(("-" if negative else "") + whole + ("." + part if part else ""))


def real(value: float) -> Sql:
    """A finite double, with the digits that tell it from every other."""
    figures = repr(float(value))
    return Sql(figures if "e" in figures else figures + "e0")


def table_name(table: Table) -> Sql:
    """The name of a table of the catalogue."""
    return _quoted(table.name)


def bare_name(column: Column) -> Sql:
    """The name of a column where no other table's can stand."""
    return _quoted(column.name)


def column_name(table: Table, column: Column) -> Sql:
    """The name of a column, with its table's: the fence has columns too."""
    return join(".", (_quoted(table.name), _quoted(column.name)))


def _quoted(name: str) -> Sql:
    return Sql("`" + name.replace("`", "``") + "`")
