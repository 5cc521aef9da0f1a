"""The grammar of filters: `column=op.value`, `not.`, `(any)`, and the trees of `and` and `or`.

Source: PostgREST reference, "Horizontal Filtering", "Logical Operators" and "Operator Modifiers".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.dialects.rows.names import QUOTED, field_of, unquoted
from gateway.dialects.rows.problems import RequestError, unreadable
from gateway.model.row_action import (
    QUANTIFIABLE,
    TEXT_SEARCHES,
    Comparison,
    Filter,
    Group,
    Predicate,
    Quantifier,
    Truth,
)

LOGIC: Final = frozenset({"and", "or", "not.and", "not.or"})
"""The keys of a query string whose value is a tree of filters."""

_KNOWN: Final = {comparison.value: comparison for comparison in Comparison}
_TRUTHS: Final = {truth.value: truth for truth in Truth}
_QUANTIFIERS: Final = {quantifier.value: quantifier for quantifier in Quantifier}
_TEST: Final = re.compile(r"(not\.)?([a-z]+)(?:\(([^()]*)\))?\.")
_TREE: Final = re.compile(r"(not\.)?(and|or)(?=\()")
_LANGUAGE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_BARE: Final = re.compile(r"[^,)]*")
_ARRAY: Final = re.compile(r"\{[^{}]*\}")
_BLANK: Final = " \t"
_DEEPEST: Final = 16


def parse_filter(key: str, value: str, *, mutates: bool) -> Predicate:
    """Read one `key=value` of the query string as a filter. Raises RequestError."""
    if key in LOGIC:
        return _whole_tree(key, value, mutates)
    column, path = field_of(key, mutates=mutates)
    test = _test(f"{key}={value}", value, 0)
    if test.comparison is Comparison.IN:
        operand = value[test.end :].strip(_BLANK)
        values, end = _list(value, operand, 0)
        if end != len(operand):
            raise RequestError(unreadable(value, "something follows the list of in"))
    else:
        values = (value[test.end :],)
    return test.on(column, values, path=path, told=value)


class _Test(NamedTuple):
    """What stands before the value, and where the value begins."""

    negated: bool
    comparison: Comparison
    quantifier: Quantifier | None
    language: str | None
    end: int

    def on(self, column: str, values: tuple[str, ...], *, path: object, told: str) -> Filter:
        if self.comparison is Comparison.IS:
            truth = _TRUTHS.get(values[0].lower())
            if truth is None:
                raise RequestError(unreadable(told, f"is takes one of {', '.join(_TRUTHS)}"))
            values = (truth,)
        return Filter(
            column,
            self.comparison,
            values,
            self.negated,
            path=path,  # type: ignore[arg-type]
            quantifier=self.quantifier,
            language=self.language,
        )


def _test(told: str, text: str, at: int) -> _Test:
    match = _TEST.match(text, at)
    comparison = None if match is None else _KNOWN.get(match[2])
    if match is None or comparison is None:
        why = f"expected one of {', '.join(_KNOWN)}, then a dot and a value"
        raise RequestError(unreadable(told, why))
    quantifier, language, argument = None, None, match[3]
    if argument is not None:
        quantifier = _QUANTIFIERS.get(argument) if comparison in QUANTIFIABLE else None
        if comparison in TEXT_SEARCHES and _LANGUAGE.fullmatch(argument):
            language = argument
        if quantifier is None and language is None:
            why = f"({argument}) does not go with {comparison.value}; (any) and (all) go with "
            why += f"{', '.join(sorted(QUANTIFIABLE))}, a language with {_searches()}"
            raise RequestError(unreadable(told, why))
    return _Test(match[1] is not None, comparison, quantifier, language, match.end())


def _searches() -> str:
    return ", ".join(sorted(TEXT_SEARCHES))


def _whole_tree(key: str, value: str, mutates: bool) -> Group:
    reader = _Tree(value, mutates)
    group, end = reader.group(0, key.removeprefix("not.") == "or", key.startswith("not."), 1)
    if end != len(value):
        raise RequestError(unreadable(f"{key}={value}", "something follows the last parenthesis"))
    return group


@dataclass(frozen=True, slots=True)
class _Tree:
    """Reads `(a.eq.1,not.and(b.gt.2,c.is.null))`; each part answers where it ends."""

    text: str
    mutates: bool

    def group(self, at: int, any_of: bool, negated: bool, depth: int) -> tuple[Group, int]:
        """Read from the opening parenthesis to behind the closing one."""
        if depth > _DEEPEST:
            raise self.unreadable(f"conditions are nested in at most {_DEEPEST} levels")
        at = self.expect(at, "(")
        parts: list[Predicate] = []
        while True:
            part, at = self.part(self.skip(at), depth)
            parts.append(part)
            at = self.skip(at)
            if self.text[at : at + 1] == ")":
                return Group(any_of, tuple(parts), negated), at + 1
            at = self.expect(at, ",")

    def part(self, at: int, depth: int) -> tuple[Predicate, int]:
        """Read one member of a group."""
        if tree := _TREE.match(self.text, at):
            return self.group(tree.end(), tree[2] == "or", tree[1] is not None, depth + 1)
        column, path, at = self.field(at)
        test = _test(self.text[at:], self.text, at)
        if test.comparison is Comparison.IN:
            values, end = _list(self.text, self.text, test.end)
        else:
            value, end = self.value(test.end)
            values = (value,)
        return test.on(column, values, path=path, told=self.text), end

    def field(self, at: int) -> tuple[str, object, int]:
        """Read a column and its path, up to behind the dot that ends them."""
        end = at
        while end < len(self.text) and self.text[end] not in ".,()":
            quoted = QUOTED.match(self.text, end)
            end = quoted.end() if quoted else end + 1
        if self.text[end : end + 1] != ".":
            raise self.unreadable("expected column.operator.value")
        column, path = field_of(self.text[at:end], mutates=self.mutates)
        return column, path, end + 1

    def value(self, at: int) -> tuple[str, int]:
        """Read a value: in quotes, an array literal, or all up to a comma or parenthesis."""
        quoted = QUOTED.match(self.text, at)
        if quoted and self.text[quoted.end() : quoted.end() + 1] in (",", ")", ""):
            return unquoted(quoted[1]), quoted.end()
        array = _ARRAY.match(self.text, at)
        if array and self.text[array.end() : array.end() + 1] in (",", ")", ""):
            return array[0], array.end()
        bare = _BARE.match(self.text, at)
        assert bare is not None  # it matches the empty text too
        return bare[0], bare.end()

    def skip(self, at: int) -> int:
        """Pass blanks."""
        return _skip_blank(self.text, at)

    def expect(self, at: int, character: str) -> int:
        """Pass one character."""
        if self.text[at : at + 1] != character:
            raise self.unreadable(f"expected {character} at character {at + 1}")
        return at + 1

    def unreadable(self, why: str) -> RequestError:
        """The refusal of the whole tree."""
        return RequestError(unreadable(self.text, why))


def _list(told: str, text: str, at: int) -> tuple[tuple[str, ...], int]:
    """Read `(a,"b,c")`; answers where it ends. What is not properly quoted is taken as it is."""
    if text[at : at + 1] != "(":
        raise RequestError(unreadable(told, "in takes a list in parentheses"))
    begin = at
    found: list[str] = []
    at = _skip_blank(text, at + 1)
    while True:
        element, at = _element(text, at)
        found.append(element)
        if at >= len(text):
            raise RequestError(unreadable(told, "the list of in has no closing parenthesis"))
        at += 1
        if text[at - 1] == ")":
            break
    empty = found == [""] and text[begin:at].replace(" ", "") == "()"
    return (() if empty else tuple(found)), at


def _element(text: str, at: int) -> tuple[str, int]:
    match = QUOTED.match(text, at)
    if match is not None and text[match.end() : match.end() + 1] in (",", ")", ""):
        return unquoted(match[1]), match.end()
    bare = _BARE.match(text, at)
    assert bare is not None  # it matches the empty text too
    return bare[0], bare.end()


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at
