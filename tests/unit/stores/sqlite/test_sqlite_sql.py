"""SQL text: no value and no unknown name ever enters it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gateway.stores.sqlite
from gateway.dialects.rows.problems import RequestError
from gateway.model.catalogue import Column, ColumnKind, Table
from gateway.model.conditions import Conditions
from gateway.model.row_action import (
    Comparison,
    Conflict,
    DeleteRows,
    Filter,
    Member,
    Order,
    Selected,
    SelectRows,
    UpdateRows,
)
from gateway.stores.sqlite import predicates, sql
from gateway.stores.sqlite.result import readout

_ID = Column("id", "integer", ColumnKind.INTEGER)
_NAME = Column('na`me"; --', "text", ColumnKind.TEXT)
_VERSION = Column("v", "integer", ColumnKind.INTEGER)
_TABLE = Table("jo`bs", (_ID, _NAME, _VERSION), ("id",), "v")
_SHOWN = readout(_TABLE, (Selected("id"),))
_PIECE_CALLS = frozenset({"quoted", "_names", "marks"})
_TEXT_TABLES = frozenset(
    {*("BINARY_OPERATORS", "TRUTH_TESTS", "_AFFINITIES", "_DIRECTIONS", "_NULLS")}
)
_RUNS = frozenset({"execute", "executemany", "executescript"})


def foreign_parts(module: ast.Module) -> list[str]:
    """The parts of f-strings that are neither SQL pieces nor quoted names nor fixed tables."""
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.FormattedValue):
            continue
        part = node.value
        piece = isinstance(part, ast.Attribute) and part.attr == "sql"
        call = isinstance(part, ast.Call) and getattr(part.func, "id", "") in _PIECE_CALLS
        fixed = isinstance(part, ast.Subscript) and getattr(part.value, "id", "") in _TEXT_TABLES
        if not (piece or call or fixed) or node.format_spec is not None:
            found.append(f"{part.lineno}: {ast.unparse(part)}")
    return found


def foreign_statements(module: ast.Module) -> list[str]:
    """The statements run whose text is neither a constant nor a piece's."""
    found = []
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in _RUNS:
            continue
        text = node.args[0]
        constant = isinstance(text, ast.Constant)
        named = isinstance(text, ast.Name) and (text.id.isupper() or text.id == "statement")
        piece = isinstance(text, ast.Attribute) and text.attr == "sql"
        own = isinstance(text, ast.Attribute) and text.attr == "_init"  # the operator's own SQL
        if not (constant or named or piece or own):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def other_makers(module: ast.Module) -> list[str]:
    """Pieces whose text is built in another way than by an f-string, a constant or a join."""
    found = []
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Piece"):
            continue
        text = node.args[0]
        join = isinstance(text, ast.Call) and ast.unparse(text.func) == "between.join"
        if not (isinstance(text, ast.JoinedStr | ast.Constant) or join):
            found.append(f"{node.lineno}: {ast.unparse(text)}")
    return found


def _modules() -> list[Path]:
    return sorted(Path(gateway.stores.sqlite.__file__).parent.glob("*.py"))


def test_no_formatted_value_enters_sql_text() -> None:
    """What is interpolated into SQL is quoted by the catalogue's entry, or is SQL itself."""
    for module in (sql, predicates):
        text = Path(module.__file__).read_text()
        assert foreign_parts(ast.parse(text)) == []
        assert other_makers(ast.parse(text)) == []


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.name)
def test_only_pieces_and_constants_are_run(path: Path) -> None:
    """No module of the store runs text that it put together itself."""
    assert foreign_statements(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        'Piece(f"SELECT {column}")',
        'Piece(f"SELECT {member.text}")',
        'Piece(f"LIMIT {action.limit}")',
        'Piece("SELECT " + name)',
        'Piece("SELECT %s" % name)',
        'c.execute(f"SELECT {x}")',
        'c.execute("SELECT " + x)',
        "c.execute(text)",
        "c.execute(member.text)",
    ],
)
def test_the_check_catches(text: str) -> None:
    """Negative control: each way to get a value into SQL text is found."""
    module = ast.parse(text)
    assert foreign_parts(module) or foreign_statements(module) or other_makers(module)


@given(value=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_values_are_bound(value: str) -> None:
    """Whatever a value holds, the text of the statement is the same."""
    filters = (Filter(_NAME.name, Comparison.IN, (value, "x")),)
    action = SelectRows(_TABLE.name, filters=filters)
    piece = sql.select(_TABLE, action, _SHOWN)
    usual = sql.select(
        _TABLE,
        SelectRows(_TABLE.name, filters=(Filter(_NAME.name, Comparison.IN, ("a", "b")),)),
        _SHOWN,
    )
    assert piece.sql == usual.sql
    assert piece.values[:2] == (value, "x")


def test_names_are_quoted() -> None:
    """A name in backticks is a name and nothing else, also with a backtick in it."""
    assert predicates.quoted(_TABLE) == "`jo``bs`"
    assert predicates.quoted(_NAME) == '`na``me"; --`'


def test_statements() -> None:
    """The statements as they stand: version bumped, conditions inside, nulls placed."""
    where = (Filter("id", Comparison.EQ, ("1",)),)
    conditions = Conditions(if_match=('"3"', '"x"'), if_none_match=('W/"5"',))
    update = sql.update(
        _TABLE, UpdateRows("jo`bs", (Member("id", "2"),), where), conditions, _SHOWN
    )
    assert update.sql == (
        "UPDATE OR ABORT `jo``bs` SET `id` = ?, `v` = coalesce(`v`, 0) + 1"
        " WHERE `id` = ? AND `v` IN (?) AND `v` NOT IN (?) RETURNING `id`, `v`"
    )
    assert update.values == (2, 1, 3, 5)
    delete = sql.delete(_TABLE, DeleteRows("jo`bs", where), Conditions(if_match=("*",)), _SHOWN)
    assert delete.sql == "DELETE FROM `jo``bs` WHERE `id` = ? RETURNING `id`, `v`"
    insert = sql.insert(_TABLE, (Member("id", "1"),), _SHOWN, Conflict(("id",), merge=False))
    assert insert.sql == (
        "INSERT OR ABORT INTO `jo``bs` (`id`, `v`) VALUES (?, ?)"
        " ON CONFLICT (`id`) DO NOTHING RETURNING `id`, `v`"
    )
    assert insert.values == (1, 1)
    order = (Order("id"), Order("v", True, True))
    select = sql.select(_TABLE, SelectRows("jo`bs", order=order, limit=2), _SHOWN)
    assert "ORDER BY `id` ASC NULLS LAST, `v` DESC NULLS FIRST LIMIT ? OFFSET ?" in select.sql
    assert select.values == (2, 0)


def test_unknown_names_never_reach_sql() -> None:
    """A name that the catalogue lacks is refused here too, not only by the dialect."""
    unknown = (Filter("nope", Comparison.EQ, ("1",)),)
    with pytest.raises(RequestError) as caught:
        sql.select(_TABLE, SelectRows("jo`bs", filters=unknown), _SHOWN)
    assert caught.value.problem.native == "42703"


def test_is_true_needs_a_boolean() -> None:
    """IS TRUE of a number is refused as PostgreSQL does, not taken for a truth value."""
    truth = (Filter("id", Comparison.IS, ("true",)),)
    with pytest.raises(RequestError) as caught:
        sql.select(_TABLE, SelectRows("jo`bs", filters=truth), _SHOWN)
    assert caught.value.problem.native == "42804"
