"""PostgREST's own cases, on every engine that has the types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.policy.document import TableSettings
from gateway.testing.rows_subject import Client, RowsStore, mark
from tests.conformance.rows.engines import ENGINES, open_engine
from tests.conformance.rows.postgrest_cases import CASES, LEFT_OUT, TABLES, TYPES, Case

MARKS = {"mariadb": pytest.mark.extra}
OpenClient = Callable[[str], Awaitable[Client]]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def open_client(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> AsyncIterator[OpenClient]:
    """Makes a client of a new store with one of the cases' tables."""
    opened: list[RowsStore] = []

    async def open_one(table: str) -> Client:
        statements = [sql.format_map(TYPES[engine]) for sql in TABLES[table]]
        settings = {table: TableSettings()}
        store = await open_engine(engine, request, tmp_path, statements, settings)
        opened.append(store)
        return await Client(store, mark(1)).ready()

    yield open_one
    for store in opened:
        await store.aclose()


@pytest.mark.parametrize(
    "engine, case",
    [
        pytest.param(engine, case, id=f"{engine}-{name}", marks=MARKS.get(engine, ()))
        for name, case in CASES.items()
        for engine in TYPES
        if case.only in ("", engine)
    ],
    indirect=["engine"],
)
async def test_case(case: Case, engine: str, open_client: OpenClient) -> None:
    """The answer is PostgREST's: status, body, and the fields that the case names."""
    client = await open_client(case.table)
    answer = await client.send(case.method, case.target, case.body, **case.headers)
    if engine in case.refused_by:
        assert (answer.status, answer.code) == (501, "operation_not_fenced")
        return
    assert answer.status == case.status, answer.json
    if case.answer is not ...:
        assert answer.json == case.answer
    for name, value in case.fields.items():
        assert answer.field(name) == value
    for name in case.absent:
        assert answer.field(name) is None
    if case.then is not None:
        target, found = case.then
        assert (await client.get(target)).json == found


@pytest.mark.parametrize("case", LEFT_OUT.values(), ids=LEFT_OUT)
async def test_left_out(case: Case, open_client: OpenClient) -> None:
    """What is outside the subset is refused whole: 501, and the rows are as they were."""
    client = await open_client(case.table)
    before = (await client.get(f"/{case.table}")).json
    answer = await client.send(case.method, case.target, case.body, **case.headers)
    assert (answer.status, answer.code) == (501, "operation_not_fenced")
    assert (await client.get(f"/{case.table}")).json == before


async def test_length_of_an_error(open_client: OpenClient) -> None:
    """Error bodies are compact JSON: to the byte what PostgREST sends."""
    client = await open_client("simple_pk")
    answer = await client.post("/simple_pk", b"")
    assert isinstance(answer.reply.body, bytes)
    assert len(answer.reply.body) == 80
