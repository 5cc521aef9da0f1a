"""The law of filters: the engine finds the rows that a plain evaluation in Python finds.

NULL follows SQL's three-valued logic: a test of it is neither true nor false, and a row is found
only when all tests are true.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from gateway.testing.rows_subject import RowsHarness, client

_SEED: Final = 20240501
_ROUNDS: Final = 150
_INTEGERS: Final = (None, -3, 0, 7, 10, 2**31 - 1)
_TEXTS: Final = (None, "", "a", "a,b", 'q"t', "back\\slash", "(p)", "not.eq.x", " b ", "é%20")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Sample:
    """One filter: its wire form, and what it says of a row (None: unknown)."""

    wire: str
    test: Any


async def check_filters(harness: RowsHarness) -> None:
    """eq, neq, gt, gte, lt, lte, in, is and not. agree with their meaning on random rows."""
    chance = random.Random(_SEED)  # noqa: S311 - repeatable examples, no secret
    worker = await client(harness)
    rows: list[Row] = []
    for number in range(40):
        row = {
            "id": number,
            "size": chance.choice([v for v in _INTEGERS if v is None or v >= 0]),
            "code": None if number % 5 == 0 else f"{chance.choice(_TEXTS)}~{number}",
            "flag": chance.choice((None, True, False)),
        }
        assert (await worker.post("/kinds", row)).status == 201
        rows.append(row)
    for _ in range(_ROUNDS):
        samples = [_sample(chance, rows) for _ in range(chance.randint(1, 3))]
        query = "&".join(sample.wire for sample in samples)
        expected = [row["id"] for row in rows if all(s.test(row) is True for s in samples)]
        answer = await worker.get(f"/kinds?select=id&order=id&{query}")
        assert answer.status == 200, (query, answer.json)
        assert [row["id"] for row in answer.json] == expected, query


def _sample(chance: random.Random, rows: list[Row]) -> _Sample:
    column = chance.choice(("id", "size", "code", "flag"))
    if chance.random() < 0.25:
        return _negated(chance, column, *_truth(chance, column))
    values = [row[column] for row in rows if row[column] is not None]
    if chance.random() < 0.4:
        found = chance.sample(values, chance.randint(0, 4))
        return _negated(chance, column, f"in.({','.join(map(_element, found))})", _in(found))
    operators = ("eq", "neq") if column in ("code", "flag") else tuple(_COMPARE)
    operator, value = chance.choice(operators), chance.choice(values)
    return _negated(chance, column, f"{operator}.{_plain(value)}", _compare(operator, value))


def _negated(chance: random.Random, column: str, wire: str, test: Any) -> _Sample:
    """Put `not.` before the filter, or not, and let the test see the row's value."""
    if chance.random() < 0.3:
        return _Sample(_wire(column, f"not.{wire}"), lambda row: _not(test(row[column])))
    return _Sample(_wire(column, wire), lambda row: test(row[column]))


def _wire(column: str, text: str) -> str:
    return f"{column}={quote(text, safe='')}"


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _truth(chance: random.Random, column: str) -> tuple[str, Any]:
    words = ("null", "not_null", "true", "false", "unknown") if column == "flag" else ("null",)
    word = chance.choice(words)
    tests = {
        "null": lambda value: value is None,
        "not_null": lambda value: value is not None,
        "true": lambda value: value is True,
        "false": lambda value: value is False,
        "unknown": lambda value: value is None,
    }
    return f"is.{word}", tests[word]


def _in(found: list[Any]) -> Any:
    # An empty list is false for every value, NULL included.
    return lambda value: False if not found else None if value is None else value in found


def _compare(operator: str, other: Any) -> Any:
    return lambda value: None if value is None else _COMPARE[operator](value, other)


_COMPARE: Final[dict[str, Any]] = {
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
}


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _element(value: Any) -> str:
    text = _plain(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
