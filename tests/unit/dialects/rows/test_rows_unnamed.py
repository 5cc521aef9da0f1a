"""Laws of rows without a name: a request that did name its key is told what is in the way."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.rows.dialect import RowsDialect
from gateway.model.catalogue import Catalogue, Column, ColumnKind, Table
from gateway.model.problem import Code, Problem
from gateway.policy.decide import Decider
from gateway.policy.load import loads
from gateway.ports.dialect import Parsed
from tests.unit.dialects.rows.rows_requests import request

POLICY = loads(
    """
[stores.db]
type = "sqlite"
path = "db.sqlite"
tables = { t = {} }
"""
)


def table(kind: ColumnKind, type_name: str, **more: Any) -> Table:
    """A table with a key of a kind."""
    key = Column("k", type_name, kind, **more)
    return Table("t", (key, Column("v", "text", ColumnKind.TEXT)), ("k",))


TEXT = table(ColumnKind.TEXT, "text")
NUMBER = table(ColumnKind.INTEGER, "integer")


async def refusal(known: Table, method: str, target: str, body: bytes = b"") -> Problem:
    """What the rules say to a request for a table."""
    dialect = RowsDialect("db", "/db", lambda: Catalogue({"t": known}), None)
    raw = request(method, target, body, **{"x-fence-token": "7"})
    parsed = await dialect.parse(raw)
    assert isinstance(parsed, Parsed)
    decided = Decider.compile(POLICY).decide(parsed.operation)
    assert isinstance(decided, Problem)
    assert decided.code is Code.SCOPE_UNDETERMINED
    return decided


@pytest.mark.parametrize(
    "known, method, target, body, why",
    [
        (table(ColumnKind.REAL, "real"), "DELETE", "/t?k=eq.1.5", b"", '"k" (real) has values of'),
        (table(ColumnKind.NUMERIC, "numeric"), "PATCH", "/t?k=eq.1", b'{"v":"x"}', "(numeric)"),
        (table(ColumnKind.BINARY, "blob"), "DELETE", "/t?k=eq.x", b"", "(blob)"),
        (table(ColumnKind.OTHER, "date"), "POST", "/t", b'{"k":"2020-01-01"}', "(date)"),
        (table(ColumnKind.OTHER, ""), "DELETE", "/t?k=eq.x", b"", "(untyped)"),
        (table(ColumnKind.TEXT, "text", collated=True), "DELETE", "/t?k=eq.x", b"", "collation"),
        (Table("t", TEXT.columns), "DELETE", "/t?k=eq.x", b"", "has no primary key"),
        (TEXT, "DELETE", "/t?k=eq.", b"", '"k" is an empty text'),
        (TEXT, "POST", "/t", b'{"k":""}', '"k" is an empty text'),
        (NUMBER, "DELETE", "/t?k=eq.0x1f", b"", "has no certain spelling as integer"),
        (TEXT, "PATCH", "/t?k=eq.a", b'{"k":"b"}', "the body may change the primary key"),
    ],
)
async def test_who_named_the_key_is_told_what_is_in_the_way(
    known: Table, method: str, target: str, body: bytes, why: str
) -> None:
    """Naming the key once more would not help, so that is not the advice."""
    told = await refusal(known, method, target, body)
    assert why in told.message
    assert "Name the whole primary key" not in (told.hint or "")
    assert "one scope with a rule" in (told.hint or "")


@pytest.mark.parametrize(
    "method, target, body",
    [
        ("DELETE", "/t?v=eq.x", b""),
        ("PATCH", "/t?k=gt.a", b'{"v":"x"}'),
        ("POST", "/t", b'{"v":"x"}'),
    ],
)
async def test_who_did_not_name_the_key_is_told_to(method: str, target: str, body: bytes) -> None:
    """Where the key would be a name, it is what to send."""
    told = await refusal(TEXT, method, target, body)
    assert (told.hint or "").startswith("Name the whole primary key")
