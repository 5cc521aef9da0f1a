"""The catalogue as read from the database's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.catalogue import ColumnKind
from gateway.stores.postgres.catalogue import CatalogueError, catalogue_query, read_shapes


def column(name: str, base: str = "int4", **more: Any) -> dict[str, Any]:
    """One record of the catalogue's query."""
    return {
        "table_name": "jobs",
        "relkind": "r",
        "table_sql": "public.jobs",
        "column_name": name,
        "column_sql": name,
        "record_type": base,
        "cast_type": f"pg_catalog.{base}",
        "is_array": False,
        "base_name": base,
        "is_builtin": True,
        "max_chars": None,
        "collated": False,
        "nullable": True,
        "has_default": False,
        "default_sql": None,
        "is_generated": False,
        "key_place": 0,
        **more,
    }


def test_tables_come_out_both_ways() -> None:
    """The dialect's view and the SQL view are the same table; keys keep the key's order."""
    records = [
        column("b", "text", key_place=2, column_sql='"b"'),
        column("a", key_place=1),
        column("version"),
    ]
    shapes = read_shapes("public", {"jobs": "version"}, records)
    table, shape = shapes.catalogue.tables["jobs"], shapes.by_name["jobs"]
    assert table.primary_key == ("a", "b")
    assert shape.key == ("a", '"b"')
    assert shape.version == "version"
    assert shape.table is table
    assert shapes.catalogue.schema == "public"


@pytest.mark.parametrize(
    "base, builtin, kind, collated",
    [
        ("int2", True, ColumnKind.INTEGER, False),
        ("int8", True, ColumnKind.INTEGER, False),
        ("float8", True, ColumnKind.REAL, False),
        ("numeric", True, ColumnKind.NUMERIC, False),
        ("varchar", True, ColumnKind.TEXT, False),
        ("bpchar", True, ColumnKind.TEXT, True),
        ("bool", True, ColumnKind.BOOLEAN, False),
        ("uuid", True, ColumnKind.UUID, False),
        ("jsonb", True, ColumnKind.JSON, False),
        ("bytea", True, ColumnKind.BINARY, False),
        ("timestamptz", True, ColumnKind.OTHER, False),
        ("citext", False, ColumnKind.OTHER, False),
        ("text", False, ColumnKind.OTHER, False),
    ],
)
def test_kinds(base: str, builtin: bool, kind: ColumnKind, collated: bool) -> None:
    """What can be a key by its text is known as such; a type that only has the name is not."""
    record = column("x", base, is_builtin=builtin)
    found = read_shapes("public", {"jobs": None}, [record]).catalogue.tables["jobs"].columns[0]
    assert (found.kind, found.collated) == (kind, collated)


@pytest.mark.parametrize(
    "records, version, words",
    [
        ([], None, 'no table "jobs" in schema "public": create it, or correct'),
        ([column("a", relkind="f")], None, "remove it from tables"),
        ([column("a", relkind="S")], None, "neither a table nor a view"),
        ([column("a", "text")], "a", 'no integer column "a"'),
        ([column("a")], "b", "tables.jobs.version_column"),
    ],
)
def test_what_cannot_be_used_is_refused(
    records: list[dict[str, Any]], version: str | None, words: str
) -> None:
    """The text names the table and the setting to change."""
    with pytest.raises(CatalogueError) as caught:
        read_shapes("public", {"jobs": version}, records)
    assert words in str(caught.value)


def test_the_query_asks_for_the_configured_tables_alone() -> None:
    """Names are arguments, sorted, so that the statement is one for all stores."""
    statement = catalogue_query("s", {"b": None, "a": None})
    assert statement.arguments == ("s", ["a", "b"])
