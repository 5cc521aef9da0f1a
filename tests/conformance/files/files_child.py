"""One process beside others on the same root: each line of its input is an order, answered by one.

Run as `python files_child.py LAYOUT ROOT LOCK_TIMEOUT_MS`. Its first line names its uploads.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway.model.conditions import Conditions
from gateway.model.mark import Era, Mark, Scope
from gateway.model.object_action import PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.version import NotLooked
from gateway.ports.store import CarryFailed, WriteFence, Written
from gateway.stores.files import BucketStore, TreeStore

Store = TreeStore | BucketStore


def stop_here(where: str) -> None:
    """Tell that we stop, and stop: whoever watches continues or kills us."""
    say({"stopped": where})
    os.kill(os.getpid(), signal.SIGSTOP)


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


class Body:
    """Two halves of a body, with a stop between them if asked for."""

    def __init__(self, data: bytes, stop: bool) -> None:
        self.length = len(data)
        self._data, self._stop = data, stop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        half = len(self._data) // 2
        yield self._data[:half]
        if self._stop:
            stop_here("body")
        yield self._data[half:]


async def put(store: Store, order: dict[str, Any]) -> dict[str, Any]:
    """Write under a token, with no fence but the store's own."""
    data = order.get("data", f"{order['write_id']}\n").encode() * order.get("times", 1)
    tags = {name: tuple(order[name]) for name in ("if_match", "if_none_match") if name in order}
    operation = Operation(
        resource=Resource(store.name, order["key"]),
        route="/",
        kind=Kind.WRITE,
        method="PUT",
        action=PutObject("kit", order["key"], len(data)),
        conditions=Conditions(**tags),
    )

    def gate() -> Problem | None:
        if order.get("stop") == "gate":
            stop_here("gate")
        return None

    fence = WriteFence(
        Scope(order.get("scope", "s")),
        Mark(Era(1), order["token"]),
        order["write_id"],
        NotLooked(),
        gate,
        order.get("previous"),
    )
    result = await store.write(operation, Body(data, order.get("stop") == "body"), fence)
    answer: dict[str, Any] = {"result": type(result).__name__, "write_id": order["write_id"]}
    if isinstance(result, Written):
        answer["etag"] = result.reply.etag  # type: ignore[union-attr]
    elif isinstance(problem := getattr(result, "problem", None), Problem):
        answer["code"] = problem.code.value
    return answer


async def carry(store: Store, order: dict[str, Any]) -> dict[str, Any]:
    try:
        above = await store.carry(Scope(order.get("scope", "s")), Mark(Era(1), order["token"]))
    except CarryFailed as failed:
        return {"result": "CarryFailed", "text": str(failed)}
    return {"result": "Carried", "above": above.token if above is not None else None}


async def obey(store: Store, order: dict[str, Any]) -> dict[str, Any]:
    match order["do"]:
        case "put":
            return await put(store, order)
        case "carry":
            return await carry(store, order)
        case "storm":
            return {"results": await asyncio.gather(*(obey(store, o) for o in order["orders"]))}
        case "sequence":
            return {"results": [await obey(store, inner) for inner in order["orders"]]}
        case other:
            raise ValueError(other)


async def main() -> None:
    layout, root, timeout_ms = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    store: Store
    if layout == "tree":
        store = TreeStore("files", root, lock_timeout_ms=timeout_ms)
    else:
        store = BucketStore("files", root, ["kit"], lock_timeout_ms=timeout_ms)
    await store.probe()
    say({"uploads": str(store._incoming.directory)})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        say(await obey(store, json.loads(line)))
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
