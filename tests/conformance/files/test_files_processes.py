"""Several processes on one root: locks hold between them, pauses and kills included."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.model.conditions import NO_CONDITIONS
from gateway.model.object_action import GetObject
from gateway.model.operation import Kind, Operation
from gateway.model.reply import ObjectFound
from gateway.model.resource import Resource
from gateway.ports.store import ReadDone
from gateway.stores.files import BucketStore, TreeStore
from gateway.testing.store_contract import Effect
from gateway.testing.store_subject import bytes_of
from tests.conformance.files.files_subjects import IndexJournal
from tests.conformance.files.kernel_journal import KernelJournal

LAYOUTS = ["tree", "buckets"]
CHILD = Path(__file__).with_name("files_child.py")


class Child:
    """A process that obeys orders, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.uploads = Path()

    async def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line, "the child ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def send(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    async def do(self, **order: Any) -> dict[str, Any]:
        self.send(**order)
        return await self.read()

    async def stopped(self, where: str) -> None:
        """Wait until it has really stopped."""
        assert await self.read() == {"stopped": where}
        _, status = await asyncio.to_thread(os.waitpid, self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        self.process.kill()
        await asyncio.to_thread(self.process.wait)


@asynccontextmanager
async def children(
    layout: str, root: Path, number: int = 2, timeout_ms: int = 300
) -> AsyncIterator[list[Child]]:
    command = [sys.executable, str(CHILD), layout, str(root), str(timeout_ms)]
    started = [
        Child(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            )
        )
        for _ in range(number)
    ]
    try:
        for child in started:
            child.uploads = Path((await child.read())["uploads"])
        yield started
    finally:
        for child in started:
            child.process.kill()
            child.process.wait()
            for pipe in (child.process.stdin, child.process.stdout):
                assert pipe is not None
                pipe.close()


def put(token: int, key: str = "x", **more: Any) -> dict[str, Any]:
    return {"do": "put", "token": token, "key": key, "write_id": f"w{token}{key}"} | more


def store_at(layout: str, root: Path) -> TreeStore | BucketStore:
    return TreeStore("files", root) if layout == "tree" else BucketStore("files", root, ["kit"])


async def content(layout: str, root: Path, key: str = "x") -> tuple[bytes, str] | None:
    """The object as a fresh process would read it: bytes and tag."""
    store = store_at(layout, root)
    try:
        action = GetObject("kit", key)
        operation = Operation(
            Resource("files", key), "/", Kind.READ, "GET", action, conditions=NO_CONDITIONS
        )
        result = await store.read(operation)
        if not isinstance(result, ReadDone) or not isinstance(result.reply, ObjectFound):
            return None
        return await bytes_of(result.reply), result.reply.meta.etag
    finally:
        await store.aclose()


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_raise_waits_for_a_writer_stopped_at_its_gate(layout: str, tmp_path: Path) -> None:
    """While a process stands between gate and effect, no raise is answered; then it is, in order.

    The raise gives up after the lock time-out, and what was not carried cannot be written under.
    """
    async with children(layout, tmp_path) as (a, b):
        assert (await a.do(do="carry", token=1))["result"] == "Carried"
        a.send(**put(1, stop="gate", data="from a"))
        await a.stopped("gate")
        failed = await b.do(do="carry", token=2)
        assert failed["result"] == "CarryFailed"
        assert "stopped" in failed["text"]
        assert (await b.do(**put(2)))["result"] == "BehindRegistry"
        a.resume()
        assert (await a.read())["result"] == "Written"
        assert (await b.do(do="carry", token=2)) == {"result": "Carried", "above": None}
        assert (await a.do(**put(1)))["result"] == "FencedByStore"
        assert (await a.do(do="carry", token=1))["above"] == 2
        assert (await b.do(**put(2, data="from b")))["result"] == "Written"
    seen = await content(layout, tmp_path)
    assert seen is not None
    assert seen[0] == b"from b"


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_writer_stopped_before_its_lock_is_refused(layout: str, tmp_path: Path) -> None:
    """A process that sleeps through a raise in the middle of its body lands nothing afterwards."""
    async with children(layout, tmp_path) as (a, b):
        await a.do(do="carry", token=1)
        a.send(**put(1, stop="body", data="from a"))
        await a.stopped("body")
        assert (await b.do(do="carry", token=2))["result"] == "Carried"
        assert (await b.do(**put(2, data="from b")))["result"] == "Written"
        a.resume()
        assert (await a.read())["result"] == "FencedByStore"
        assert (await a.do(**put(1, "y")))["result"] == "FencedByStore"
        assert list(a.uploads.iterdir()) == []
    seen = await content(layout, tmp_path)
    assert seen is not None
    assert seen[0] == b"from b"


@pytest.mark.parametrize("where", ["gate", "body"])
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_killed_writer_frees_its_lock_and_leaves_nothing(
    layout: str, where: str, tmp_path: Path
) -> None:
    """A kill between check and effect changes nothing; the next start clears what it left."""
    async with children(layout, tmp_path) as (a, b):
        await a.do(do="carry", token=1)
        assert (await a.do(**put(1, data="old")))["result"] == "Written"
        a.send(**put(1, stop=where, data="new", times=200_000))
        await a.stopped(where)
        await a.kill()
        assert (await b.do(do="carry", token=2))["result"] == "Carried"
        left = list(a.uploads.iterdir())
        assert left, "nothing to clear: the test shows nothing"
    seen = await content(layout, tmp_path)
    assert seen is not None
    assert seen[0] == b"old"
    assert not a.uploads.exists()
    if layout == "buckets":
        blobs = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
        assert len(blobs) == 1, "the killed writer's bytes are still there"


async def test_a_stopped_writer_holds_up_its_scope_and_resource_only(tmp_path: Path) -> None:
    """In the tree a process stopped at its gate delays nobody in another scope."""
    async with children("tree", tmp_path) as (a, b):
        await a.do(do="carry", token=1)
        await b.do(do="carry", token=1, scope="other")
        a.send(**put(1, stop="gate"))
        await a.stopped("gate")
        assert (await b.do(**put(1, "elsewhere", scope="other")))["result"] == "Written"
        assert (await b.do(**put(1, "beside")))["result"] == "Written"
        busy = await b.do(**put(1))
        assert (busy["result"], busy["code"]) == ("NotWritten", "busy")


async def test_a_stopped_writer_holds_up_the_index(tmp_path: Path) -> None:
    """In the bucket layout it holds the one index: others are told `busy`, and lose nothing."""
    async with children("buckets", tmp_path) as (a, b):
        await a.do(do="carry", token=1)
        await b.do(do="carry", token=1, scope="other")
        a.send(**put(1, stop="gate"))
        await a.stopped("gate")
        busy = await b.do(**put(1, "elsewhere", scope="other"))
        assert (busy["result"], busy["code"]) == ("NotWritten", "busy")
        a.resume()
        assert (await a.read())["result"] == "Written"
        assert (await b.do(**put(1, "elsewhere", scope="other")))["result"] == "Written"


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_processes_may_start_at_once(layout: str, tmp_path: Path) -> None:
    """Several processes that open a fresh root in the same moment all open it."""
    for number in range(3):
        async with children(layout, tmp_path / str(number), number=4) as started:
            assert len({child.uploads for child in started}) == 4


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_races_between_processes_have_one_winner(layout: str, tmp_path: Path) -> None:
    """Of 16 writers in two processes with one condition, exactly one wins, create and replace."""
    async with children(layout, tmp_path, timeout_ms=5000) as both:
        await both[0].do(do="carry", token=1)
        condition: dict[str, Any] = {"if_none_match": ["*"]}
        for number in range(5):
            for name, child in zip("ab", both, strict=True):
                orders = [put(1, write_id=f"{name}{number}{n}", **condition) for n in range(8)]
                child.send(do="storm", orders=orders)
            results = [r for child in both for r in (await child.read())["results"]]
            won = [r for r in results if r["result"] == "Written"]
            assert len(won) == 1
            assert {r["code"] for r in results if r not in won} == {"precondition_failed"}
            condition = {"if_match": [won[0]["etag"]]}
            seen = await content(layout, tmp_path)
            assert seen == (f"{won[0]['write_id']}\n".encode(), won[0]["etag"])


def tokens_in_order(effects: Sequence[Effect]) -> bool:
    tokens = [int(effect.write_id.partition("-")[0]) for effect in effects]
    return tokens == sorted(tokens)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_effects_of_two_processes_are_in_order(layout: str, tmp_path: Path) -> None:
    """Two processes raise and write against each other: the real order never goes back.

    Each carries its next token and then writes under it, three objects at a time.
    """
    async with children(layout, tmp_path, timeout_ms=5000) as both:
        journals: list[Any] = []
        if layout == "tree":
            journals.append(KernelJournal([child.uploads for child in both], tmp_path))
        else:
            journals.append(IndexJournal(tmp_path / "index.sqlite"))
        answers = []
        for round_ in range(40):
            names = "ab" if round_ % 2 else "ba"  # the higher token is the other one's each time
            for token, name in enumerate(names, start=2 * round_ + 1):
                keys = [put(token, key, write_id=f"{token}-{name}-{key}") for key in "xyz"]
                orders = [{"do": "carry", "token": token}, {"do": "storm", "orders": keys}]
                both["ab".index(name)].send(do="sequence", orders=orders)
            answers += [(await child.read())["results"][1] for child in both]
        effects = await journals[0]()
        if layout == "tree":
            journals[0].close()
    assert tokens_in_order(effects)
    assert len({effect.write_id.split("-")[1] for effect in effects}) == 2
    results = [result for storm in answers for result in storm["results"]]
    written = {r["write_id"] for r in results if r["result"] == "Written"}
    assert written == {effect.write_id for effect in effects}
    assert {r["result"] for r in results} == {"Written", "FencedByStore"}, "no contest at all"


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_kills_lose_no_answered_write(layout: str, tmp_path: Path) -> None:
    """After a kill at any moment the object is one whole version, no older than the last answer."""
    for round_ in range(6):
        async with children(layout, tmp_path, number=1) as (child,):
            await child.do(do="carry", token=1)
            answered = -1
            for number in range(20):
                child.send(**put(1, write_id=f"r{round_}n{number}", times=3000))
                if number == 2 + round_:
                    with contextlib.suppress(TimeoutError):  # another moment of the write each time
                        await asyncio.wait_for(asyncio.Event().wait(), round_ * 0.002)
                    await child.kill()
                    break
                assert (await child.read())["result"] == "Written"
                answered = number
        seen = await content(layout, tmp_path)
        assert seen is not None
        lines = seen[0].decode().splitlines()
        assert len(lines) == 3000
        assert len(set(lines)) == 1
        assert lines[0] in {f"r{round_}n{answered}", f"r{round_}n{answered + 1}"}
        assert seen[1].startswith('"w'), "the record of the version is lost"
