"""The grammar of filters: `column=op.value`, `not.`, and the lists of `in.(…)`.

Source: PostgREST reference, "Horizontal Filtering" and its list of reserved characters.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.rows.problems import RequestError, unreadable, unsupported
from gateway.model.row_action import Comparison, Filter, Truth

_KNOWN: Final = {comparison.value: comparison for comparison in Comparison}
_TRUTHS: Final = {truth.value: truth for truth in Truth}
_ELSEWHERE: Final = frozenset(
    {"like", "ilike", "match", "imatch", "isdistinct", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl"}
    | {"adj", "fts", "plfts", "phfts", "wfts"}
)
_LOGIC: Final = frozenset({"and", "or", "not.and", "not.or"})

_BLANK: Final = " \t"
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_BARE: Final = re.compile(r"[^,)]*")


def column_name(text: str, *, mutates: bool) -> str:
    """Read a column name, bare or in double quotes. Raises RequestError for a path or embedding.

    In quotes, `\\"` and `\\\\` stand for the characters themselves.
    """
    if match := _QUOTED.fullmatch(text):
        return _ESCAPE.sub(r"\1", match[1])
    if "->" in text:
        raise RequestError(unsupported(f'the JSON path "{text}"', mutates=mutates))
    if "." in text or "(" in text:
        raise RequestError(unsupported(f'the embedded resource "{text}"', mutates=mutates))
    if not text or '"' in text:
        raise RequestError(unreadable(text, "a column name is missing or its quotes do not match"))
    return text


def parse_filter(key: str, value: str, *, mutates: bool) -> Filter:
    """Read one `key=value` of the query string as a filter. Raises RequestError."""
    if key in _LOGIC:
        raise RequestError(unsupported(f'the logical operator "{key}"', mutates=mutates))
    column = column_name(key, mutates=mutates)
    negated = value.startswith("not.")
    operator, dot, operand = value.removeprefix("not.").partition(".")
    comparison = _comparison(key, value, operator, bool(dot), mutates)
    if comparison is Comparison.IN:
        return Filter(column, comparison, _list(value, operand), negated)
    if comparison is Comparison.IS:
        return Filter(column, comparison, (_truth(value, operand),), negated)
    return Filter(column, comparison, (operand,), negated)


def _comparison(key: str, value: str, operator: str, dotted: bool, mutates: bool) -> Comparison:
    name = operator.partition("(")[0]
    if dotted and (name in _ELSEWHERE or (name != operator and name in _KNOWN)):
        raise RequestError(unsupported(f'the operator "{operator}"', mutates=mutates))
    comparison = _KNOWN.get(operator)
    if comparison is None or not dotted:
        why = f"expected one of {', '.join(_KNOWN)}, then a dot and a value"
        raise RequestError(unreadable(f"{key}={value}", why))
    return comparison


def _truth(value: str, operand: str) -> Truth:
    truth = _TRUTHS.get(operand.lower())
    if truth is None:
        raise RequestError(unreadable(value, f"is takes one of {', '.join(_TRUTHS)}"))
    return truth


def _list(value: str, operand: str) -> tuple[str, ...]:
    """Read `(a,"b,c")`. An element that is not properly quoted is taken as it stands."""
    text = operand.strip(_BLANK)
    if not text.startswith("("):
        raise RequestError(unreadable(value, "in takes a list in parentheses"))
    found: list[str] = []
    at = _skip_blank(text, 1)
    while True:
        element, at = _element(text, at)
        found.append(element)
        if at >= len(text):
            raise RequestError(unreadable(value, "the list of in has no closing parenthesis"))
        at += 1
        if text[at - 1] == ")":
            break
    if at != len(text):
        raise RequestError(unreadable(value, "something follows the list of in"))
    return () if found == [""] and text.replace(" ", "") == "()" else tuple(found)


def _element(text: str, at: int) -> tuple[str, int]:
    match = _QUOTED.match(text, at)
    if match is not None and text[match.end() : match.end() + 1] in (",", ")", ""):
        return _ESCAPE.sub(r"\1", match[1]), match.end()
    bare = _BARE.match(text, at)
    assert bare is not None  # it matches the empty text too
    return bare[0], bare.end()


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at
