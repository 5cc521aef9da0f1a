"""Owns SQL text: what may become part of it, and what may only be an argument.

Text of the type `Sql` comes from two places: literals of this package, and names that PostgreSQL
quoted itself (`catalogue`). Whatever a request says goes into `Arguments` and comes back as `$n`,
so nothing of a request can become SQL text (tests/unit/stores_postgres_sql_test holds that).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NewType

Sql = NewType("Sql", str)
"""Text that is safe to send."""

Argument = str | int | bool | None | list[str]
"""Values whose PostgreSQL types (text, bigint, boolean, text[]) this package always names."""

NOTHING: Final = Sql("")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, and the values of its parameters in order."""

    text: Sql
    arguments: tuple[Argument, ...] = ()


def compose(template: str, **parts: Sql) -> Sql:
    """Fill a literal template. Parts are inserted as they are, never read as templates."""
    return Sql(template.format_map(parts))


def join(separator: str, parts: Iterable[Sql]) -> Sql:
    """Put parts in a row."""
    return Sql(separator.join(parts))


class Arguments:
    """Collects the values of one statement; each answers the placeholder that stands for it."""

    def __init__(self) -> None:
        self._values: list[Argument] = []

    def text(self, value: str | None) -> Sql:
        """Pass a text. NUL cannot be stored by PostgreSQL, which then refuses the value (22021)."""
        return self._add(value, "text")

    def texts(self, values: Sequence[str]) -> Sql:
        """Pass a list of texts as one array, so that its length does not change the statement."""
        return self._add(list(values), "text[]")

    def number(self, value: int | None) -> Sql:
        """Pass an integer below 2^63."""
        return self._add(value, "bigint")

    def truth(self, value: bool) -> Sql:
        """Pass a boolean."""
        return self._add(value, "boolean")

    def _add(self, value: Argument, type_name: str) -> Sql:
        self._values.append(value)
        return Sql(f"${len(self._values)}::{type_name}")

    def statement(self, text: Sql) -> Statement:
        """The finished statement."""
        return Statement(text, tuple(self._values))
