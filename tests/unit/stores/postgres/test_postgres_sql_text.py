"""SQL text: nothing of a request becomes part of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gateway.stores.postgres
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.row_action import (
    Comparison,
    DeleteRows,
    Filter,
    InsertRows,
    Member,
    Order,
    RowWrite,
    Selected,
    SelectRows,
    Step,
    UpdateRows,
)
from gateway.stores.postgres.catalogue import ColumnShape, Shape
from gateway.stores.postgres.predicates import UnknownColumn
from gateway.stores.postgres.reads import build_read
from gateway.stores.postgres.sql import Arguments, Sql, compose, join
from gateway.stores.postgres.writes import WriteContext, build_write

PACKAGE = Path(gateway.stores.postgres.__file__).parent
SQL_MAKERS = {"sql.py", "catalogue.py", "schema.py"}
"""Where text becomes `Sql`: the type's own module, names that PostgreSQL quoted, shipped files."""
QUOTED_BY_POSTGRES = {"table_sql", "column_sql", "record_type", "cast_type", "default_sql"}


def test_parts_are_inserted_as_they_are() -> None:
    """A part that looks like a template is text, not a template."""
    assert compose("a {x} b", x=Sql("{y} %s {0}")) == "a {y} %s {0} b"
    assert join(", ", [Sql("{a}"), Sql("b")]) == "{a}, b"


def test_arguments_are_numbered_and_typed() -> None:
    """Every value becomes a placeholder with its type."""
    arguments = Arguments()
    places = [
        arguments.text("x"),
        arguments.texts(("a", "b")),
        arguments.number(3),
        arguments.truth(True),
    ]
    assert places == ["$1::text", "$2::text[]", "$3::bigint", "$4::boolean"]
    assert arguments.statement(Sql("s")).arguments == ("x", ["a", "b"], 3, True)


def unsafe_sql(path: str, source: str) -> list[str]:
    """Places in a module where something else than a literal could become SQL text."""
    module = ast.parse(source)
    literals = set(_literal_names(module))
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in {"compose", "join"} and not _is_literal(node.args[0], literals):
            found.append(f"{path}:{node.lineno}: a template that is no literal")
        if (
            node.func.id in {"Sql", "cast"}
            and path not in SQL_MAKERS
            and not _is_literal(node.args[0], literals)
        ):
            found.append(f"{path}:{node.lineno}: {node.func.id} of what is no literal")
    return found


def _literal_names(module: ast.Module) -> Iterator[str]:
    """Names of module constants that are plain string literals."""
    for node in module.body:
        is_named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if is_named and isinstance(node.value, ast.Constant):
            yield node.target.id
    for node in ast.walk(module):  # a template chosen between literals inside a function
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _is_literal(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_literal(node.body, names) and _is_literal(node.orelse, names)
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Constant)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_only_literals_become_sql_text(path: Path) -> None:
    """Templates are literals; parts are `Sql` by type, and `Sql` is made of literals elsewhere too.

    With mypy strict over the package, no `str` of a request fits where SQL text is put together.
    """
    assert unsafe_sql(path.name, path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "Sql(action.table)",
        'Sql(f"SELECT {x}")',
        'Sql("a" + name)',
        'compose(f"{x}", y=z)',
        "compose(action.body)",
        "join(name, parts)",
        "cast(Sql, name)",
        'Sql("%s" % x)',
    ],
)
def test_the_law_catches_a_planted_leak(line: str) -> None:
    """Negative control: each way to put a request's text into SQL is seen."""
    assert unsafe_sql("writes.py", f"def f(x, z, name, parts, action):\n    return {line}\n")


def test_the_makers_take_names_from_postgresql_alone() -> None:
    """In the catalogue, `Sql` is made of what quote_ident and format_type answered, or a file."""
    module = ast.parse((PACKAGE / "catalogue.py").read_text("utf-8"))
    made = [
        node.args[0]
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Sql"
    ]
    columns = {
        node.slice.value
        for node in made
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    }
    files = [node for node in made if isinstance(node, ast.Call)]
    assert columns == QUOTED_BY_POSTGRES
    assert len(files) == 1
    assert len(made) == len(QUOTED_BY_POSTGRES) + 1
    query = (PACKAGE / "catalogue.sql").read_text("utf-8")
    assert "quote_ident(c.relname) AS table_sql" in query
    assert "quote_ident(a.attname) AS column_sql" in query


def shape(version: str | None = "version") -> Shape:
    """A table as the catalogue would give it."""
    names = ("id", "name", "version")
    table = Table(
        "jobs",
        tuple(Column(name, "pg_catalog.text", ColumnKind.TEXT) for name in names),
        ("id",),
        version,
    )
    columns = {
        name: ColumnShape(Sql(f'"{name}"'), Sql("text"), Sql("pg_catalog.text"), False)
        for name in names
    }
    return Shape(
        table, Sql('public."jobs"'), columns, None if version is None else Sql('"version"')
    )


RENAMED = (Selected("name", (Step("k"),), "text", "an alias; --"), Selected("id"))
texts = st.text(max_size=30)
comparisons = st.sampled_from([c for c in Comparison if c not in (Comparison.IS, Comparison.IN)])


paths = st.sampled_from([(), (Step("k"),), (Step("k"), Step(0, as_text=True))])


@st.composite
def twin_writes(draw: st.DrawFn) -> tuple[RowWrite, RowWrite]:
    """Two writes that ask for the same thing with other values."""
    kind = draw(st.sampled_from([InsertRows, UpdateRows, DeleteRows]))
    columns = draw(st.lists(st.sampled_from(["id", "name"]), unique=True, max_size=2))
    wanted = draw(
        st.lists(st.tuples(st.sampled_from(["id", "name"]), comparisons, paths), max_size=3)
    )
    returning = draw(
        st.sampled_from([None, (), (Selected("name"),), (Selected("name", alias="x"),)])
    )

    def one() -> RowWrite:
        members = tuple(Member(column, draw(texts)) for column in columns)
        filters = tuple(
            Filter(column, how, (draw(texts),), path=path) for column, how, path in wanted
        )
        filters += (Filter("id", Comparison.IN, tuple(draw(st.lists(texts, max_size=4)))),)
        if kind is InsertRows:
            return InsertRows("jobs", (members,), returning)
        if kind is UpdateRows:
            return UpdateRows("jobs", members, filters, returning)
        return DeleteRows("jobs", filters, returning)

    return one(), one()


@given(twin_writes(), texts, texts)
def test_the_statement_depends_on_the_shape_alone(
    twins: tuple[RowWrite, RowWrite], scope: str, write_id: str
) -> None:
    """Whatever values, scopes and ids a write has, its SQL text is the same: they are arguments."""
    conditions = NO_CONDITIONS if isinstance(twins[0], InsertRows) else Conditions(('"1"',), None)
    built = [
        build_write(
            shape(),
            twin,
            conditions,
            WriteContext(Scope(name), Mark(Era(1), number), name, name),
            exact=True,
        ).statement
        for twin, name, number in ((twins[0], scope, 1), (twins[1], write_id, 99))
    ]
    assert built[0].text == built[1].text
    assert len(built[0].arguments) == len(built[1].arguments)


@given(st.lists(texts, min_size=1, max_size=3), st.integers(0, 2**70))
def test_a_read_depends_on_its_shape_alone(values: list[str], number: int) -> None:
    """The same of reads; limits beyond a bigint are the largest bigint."""

    def read(filler: list[str], page: int) -> SelectRows:
        filters = tuple(Filter("name", Comparison.EQ, (value,)) for value in filler)
        return SelectRows(
            "jobs", (Selected("id"),), filters, (Order("id"),), limit=page, offset=page
        )

    statement = build_read(shape(), read(values, number))
    assert statement.text == build_read(shape(), read(["x"] * len(values), 0)).text
    assert all(one <= 2**63 - 1 for one in statement.arguments if isinstance(one, int))


@pytest.mark.parametrize("name", ["nope", 'id"; --', "ID", ""])
def test_an_unknown_name_never_reaches_the_text(name: str) -> None:
    """A column is looked up by its exact name, or there is no statement."""
    with pytest.raises(UnknownColumn):
        build_read(shape(), SelectRows("jobs", (Selected(name),)))
    with pytest.raises(UnknownColumn):
        build_read(shape(), SelectRows("jobs", order=(Order(name),)))


def test_a_version_that_no_bigint_holds_is_compared_as_text() -> None:
    """A tag may carry any number; it matches no row, and breaks no statement."""
    context = WriteContext(Scope("s"), Mark(Era(1), 1), "w", None)
    tag = '"9999999999999999999"'
    built = build_write(
        shape(), DeleteRows("jobs", ()), Conditions((tag,), None), context, exact=True
    )
    assert ["9999999999999999999"] in built.statement.arguments


def test_a_condition_without_a_version_column_is_an_error_of_ours() -> None:
    """Dialects refuse such conditions by name; ignoring one here would be silent."""
    context = WriteContext(Scope("s"), Mark(Era(1), 1), "w", None)
    with pytest.raises(ValueError, match="no version column"):
        build_write(
            shape(None), DeleteRows("jobs", ()), Conditions(('"1"',), None), context, exact=True
        )
