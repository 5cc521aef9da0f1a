"""Comma-separated values as PostgREST answers them, for engines that leave the writing to us."""

from __future__ import annotations

from typing import Final

_QUOTED: Final = frozenset('"\\(), \t\n\r\v\f')


def csv_name(name: str) -> str:
    """A column's name in the first line (RFC 4180, section 2)."""
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"\r\n') else name


def csv_text(text: str) -> str:
    """A value as PostgreSQL writes it into a record (its manual, 8.16.6)."""
    if text and not _QUOTED.intersection(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
