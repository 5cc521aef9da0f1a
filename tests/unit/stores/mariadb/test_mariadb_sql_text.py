"""SQL text: whatever a request says stands in it as digits of a literal, or not at all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gateway.stores.mariadb
from gateway.dialects.rows.problems import RequestError
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.reply import Rows
from gateway.model.row_action import (
    Comparison,
    Conflict,
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
from gateway.model.token import Holder
from gateway.stores.mariadb import fence, sql
from gateway.stores.mariadb.catalogue import Shape, catalogue_query
from gateway.stores.mariadb.changes import change
from gateway.stores.mariadb.readout import readout
from gateway.stores.mariadb.reads import build_read
from gateway.stores.mariadb.sql import Sql, compose, join

PACKAGE = Path(gateway.stores.mariadb.__file__).parent
SQL_MAKERS = {"sql.py", "schema.py"}
"""Where text becomes `Sql`: the type's own module, and the files that are shipped."""
FRAME = re.compile(r"_utf8mb4 X'[0-9a-f]*'|X'[0-9a-f]*'")

ID = Column("id", "int", ColumnKind.INTEGER)
NAME = Column("na`me'; --", "varchar(9)", ColumnKind.TEXT)
VERSION = Column("v", "int", ColumnKind.INTEGER)
TABLE = Table("jo`bs", (ID, NAME, VERSION), ("id",), "v")
SHAPE = Shape(TABLE, ID)
ADMITS = fence.admits(Scope("s"), Mark(Era(1), 2))


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
    """Names of module constants that are put together of plain string literals."""
    known: set[str] = set()
    for node in module.body:
        is_named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if is_named and node.value is not None and _is_literal(node.value, known):
            known.add(node.target.id)
    yield from known
    for node in ast.walk(module):  # a template chosen between literals inside a function
        if isinstance(node, ast.Assign) and _is_literal(node.value, known):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _is_literal(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_literal(node.body, names) and _is_literal(node.orelse, names)
    if isinstance(node, ast.BinOp):
        return _is_literal(node.left, names) and _is_literal(node.right, names)
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
    assert unsafe_sql("changes.py", f"def f(x, z, name, parts, action):\n    return {line}\n")


def test_parts_are_inserted_as_they_are() -> None:
    """A part that looks like a template is text, not a template."""
    assert compose("a {x} b", x=Sql("{y} %s {0}")) == "a {y} %s {0} b"
    assert join(", ", [Sql("{a}"), Sql("b")]) == "{a}, b"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(texts, st.binary(max_size=9), st.integers(), st.floats(allow_nan=False))
def test_literals_have_one_form(text: str, octets: bytes, number: int, real: float) -> None:
    """Hexadecimal digits in a fixed frame, or a number: nothing ends a literal but its end."""
    assert FRAME.fullmatch(sql.text(text))
    assert bytes.fromhex(sql.text(text)[11:-1]).decode() == text
    assert FRAME.fullmatch(sql.octets(octets))
    assert re.fullmatch(r"-?[0-9]+", sql.number(number))
    if abs(real) != float("inf"):
        written = sql.real(real)
        assert re.fullmatch(r"-?[0-9.]+e[+-]?[0-9]+", written)
        assert float(written) == real


@given(st.booleans(), st.integers(0, 10**70), st.integers(0, 40))
def test_a_decimal_keeps_its_digits(negative: bool, digits: int, places: int) -> None:
    """The point moves, and no digit is lost."""
    written = sql.decimal(negative, digits, places)
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", written)
    assert int(written.lstrip("-").replace(".", "")) == digits
    assert written.startswith("-") == negative
    assert len(written.partition(".")[2]) == places


def blanked(statement: str) -> str:
    """A statement without what its literals say."""
    return re.sub(r"\b[0-9]+\b", "N", FRAME.sub("L", statement))


def batches(action: RowWrite, conditions: Conditions = NO_CONDITIONS) -> list[Sql]:
    """The first batch of a mutation."""
    return next(change(SHAPE, action, conditions, ADMITS))


@given(texts, texts, st.integers(-(2**63), 2**63 - 1))
def test_the_statements_depend_on_the_shape_alone(one: str, other: str, number: int) -> None:
    """Whatever values a write has, what is left without its literals is the same."""
    value = {"x": one, "y": other}

    def write(kind: str, text: str) -> RowWrite:
        filters = (
            Filter("id", Comparison.EQ, (str(number),)),
            Filter(NAME.name, Comparison.IN, (text, value["x"])),
            Filter(NAME.name, Comparison.ILIKE, (text.replace("\\", ""),)),
        )
        member = Member(NAME.name, f'"{sql.text(text)[11:-1]}"')
        if kind == "insert":
            conflict = Conflict(("id",), merge=True)
            return InsertRows(TABLE.name, ((Member("id", "1"), member),), (), conflict=conflict)
        if kind == "update":
            return UpdateRows(TABLE.name, (member,), filters, ())
        return DeleteRows(TABLE.name, filters, ())

    for kind in ("insert", "update", "delete"):
        first, second = (batches(write(kind, text)) for text in value.values())
        assert list(map(blanked, first)) == list(map(blanked, second))
        assert all(
            ";" not in blanked(statement).replace("`na``me'; --`", "") for statement in first
        )


@given(texts, texts)
def test_the_fence_and_reads_hold_no_text(one: str, other: str) -> None:
    """Scopes, holders, write ids, bodies, paths and table names are literals too."""
    statements = [
        fence.locked(Scope(one)),
        fence.admits(Scope(one), Mark(Era(1), 1, holder=Holder(other))),
        fence.raised(Scope(one), Mark(Era(1), 1, holder=Holder(other)), new=True),
        fence.record(one, other, Rows(json=other, count=1, etag=other)),
        fence.recall(other),
        *fence.settle(one),
        catalogue_query([one, other]),
    ]
    for statement in statements:
        rest = FRAME.sub("L", statement)
        assert ";" not in rest
        for word in (one, other):
            assert not set(word) & set('"\\;#') & set(rest)


def test_names_are_quoted() -> None:
    """A name in backticks is a name and nothing else, also with a backtick in it."""
    assert sql.table_name(TABLE) == "`jo``bs`"
    assert sql.column_name(TABLE, NAME) == "`jo``bs`.`na``me'; --`"


def test_every_statement_that_writes_carries_the_fence() -> None:
    """UPDATE and DELETE join the fence row, INSERT selects from it, and none does without."""
    where = (Filter("id", Comparison.EQ, ("1",)),)
    row = (Member("id", "1"),)
    for action in (
        InsertRows(TABLE.name, (row,), None),
        InsertRows(TABLE.name, (row,), None, conflict=Conflict(("id",), merge=True)),
        InsertRows(TABLE.name, (row,), None, conflict=Conflict(("id",), merge=False)),
        UpdateRows(TABLE.name, (Member(NAME.name, '"a"'),), where),
        UpdateRows(TABLE.name, (Member(NAME.name, '"a"'),), where, ()),
        DeleteRows(TABLE.name, where),
        DeleteRows(TABLE.name, where, ()),
    ):
        writing = [one for one in batches(action) if not one.startswith("SELECT")]
        assert writing
        assert all(ADMITS in one for one in writing), writing
    joined = batches(UpdateRows(TABLE.name, (Member(NAME.name, '"a"'),), where))[0]
    assert joined.startswith(f"UPDATE `jo``bs` JOIN fencegate_fence ON {ADMITS} SET")
    assert "COALESCE(`jo``bs`.`v`, 0) + 1" in joined


def test_conditions_are_predicates_of_the_statement() -> None:
    """If-Match is decided by the row that is written, not by one read before."""
    where = (Filter("id", Comparison.EQ, ("1",)),)
    conditions = Conditions(if_match=('"3"', '"x"'), if_none_match=('W/"5"',))
    update = batches(UpdateRows(TABLE.name, (Member(NAME.name, '"a"'),), where), conditions)[0]
    assert "COALESCE(`jo``bs`.`v`, 0) IN (3)" in update
    assert "NOT (COALESCE(`jo``bs`.`v`, 0) IN (5))" in update
    none = batches(DeleteRows(TABLE.name, where), Conditions(if_match=('"x"',)))[0]
    assert "(1 = 0)" in none


def test_order_and_pages() -> None:
    """NULLs are placed by a term of their own; a page without an end has the largest limit."""
    action = SelectRows(TABLE.name, order=(Order("id"), Order("v", True, True)), offset=3)
    read = build_read(TABLE, action, readout(TABLE, (Selected("id"),)))
    assert read == [
        "SELECT `jo``bs`.`id`, `jo``bs`.`v` FROM `jo``bs` WHERE 1 = 1 ORDER BY "
        "(`jo``bs`.`id` IS NULL) ASC, `jo``bs`.`id` ASC, (`jo``bs`.`v` IS NULL) DESC, "
        "`jo``bs`.`v` DESC LIMIT 18446744073709551615 OFFSET 3"
    ]


@pytest.mark.parametrize(
    "one, native",
    [
        (Filter("nope", Comparison.EQ, ("1",)), "42703"),
        (Filter("id", Comparison.IS, ("true",)), "42804"),
        (Filter("id", Comparison.LIKE, ("1",)), "42883"),
        (Filter("id", Comparison.EQ, ("1",), path=(Step("a"),)), "42883"),
        (Filter(NAME.name, Comparison.LIKE, ("a\\",)), "22025"),
        (Filter(NAME.name, Comparison.FTS, ("a",)), None),
        (Filter(NAME.name, Comparison.MATCH, ("a",)), None),
        (Filter(NAME.name, Comparison.CONTAINS, ("{}",)), None),
        (Filter(NAME.name, Comparison.EQ, ("1",), path=(Step('a"b'),)), None),
    ],
)
def test_what_cannot_be_evaluated_is_refused(one: Filter, native: str | None) -> None:
    """By name, before anything is sent; never ignored."""
    with pytest.raises(RequestError) as refused:
        build_read(TABLE, SelectRows(TABLE.name, filters=(one,)), readout(TABLE, None))
    assert refused.value.problem.native == native
    if native is None:
        assert refused.value.problem.code.value == "operation_not_fenced"
