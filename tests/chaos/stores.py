"""The stores of campaigns, each with its own true order of effects."""

from __future__ import annotations

import asyncio
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.testing.numbering_origin import Asked, NumberingOrigin
from tests.conformance.postgres.journal import CommitJournal
from tests.services.postgres import PostgresServer

SCOPES = ["t0", "t1", "t2", "t3"]


class CampaignStore(ABC):
    """What a campaign needs of a store."""

    policy: str
    """The policy's tables for the store `data`, and its rules."""

    method: str
    body: str
    headers: dict[str, str]
    key: str
    """The field that carries a request's own key."""

    retries: bool
    """Whether a lost answer can always be found out: a call that is sent again happens once.

    An object remembers its last write alone (docs/explanation/three-answers.md).
    """

    padding: bool
    """Whether blanks behind the body change nothing."""

    @abstractmethod
    def path(self, store_url: str) -> str:
        """Where a call goes, with `{scope}` and `{item}` in it."""

    @abstractmethod
    def effects(self) -> list[str]:
        """The calls that took effect, in their true order."""

    @abstractmethod
    def break_it(self, *, broken: bool) -> None:
        """Begin or end to be slow, to fail, and to lose answers."""

    @abstractmethod
    def close(self) -> None:
        """End what was started."""


class Rows(CampaignStore):
    """Tables of PostgreSQL, one scope each; the order is that of commits in the log."""

    method = "PATCH"
    body = '{"result": "{call}"}'

    def __init__(self, server: PostgresServer, migrate: Callable[[str], None]) -> None:
        self._server = server
        self._dsn = server.dsn()
        self.headers = {"Content-Type": "application/json"}
        self.key, self.retries, self.padding = "Idempotency-Key", True, False
        tables = "\n".join(f"[stores.data.tables.{scope}]" for scope in SCOPES)
        self.policy = (
            f'[stores.data]\ntype = "postgres"\ndsn = "{self._dsn}"\n{tables}\n'
            '[[rules]]\nstore = "data"\nmatch = "/data/{table}"\nscope = "{table}"\n'
        )
        for scope in SCOPES:
            server.psql(f"CREATE TABLE {scope} (id int PRIMARY KEY, result text)")
            server.psql(f"INSERT INTO {scope} SELECT i, '' FROM generate_series(0, 2) i")
        migrate(self.policy)
        self._runner = asyncio.Runner()
        self._journal = self._runner.run(CommitJournal.start(self._dsn))

    def path(self, store_url: str) -> str:
        return store_url + "/{scope}?id=eq.{item}"

    def effects(self) -> list[str]:
        found = self._runner.run(self._journal.transactions())
        return [
            name
            for transaction in found
            for change in transaction.changes
            if change.table.removeprefix("public.") in SCOPES
            for name in [change.text("result")]
            if name
        ]

    def break_it(self, *, broken: bool) -> None:
        """All sessions are ended: statements are cut off before or after their commit."""
        if broken:
            self._server.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'fencegate%' AND pid <> pg_backend_pid()"
            )

    def close(self) -> None:
        self._runner.run(self._journal.aclose())
        self._runner.close()


class _Recording(NumberingOrigin):
    """Also keeps the bodies that took effect, in their order."""

    def __init__(self) -> None:
        super().__init__(buckets=frozenset({"kit"}))
        self.bodies: list[str] = []

    def _mutate(self, asked: Asked, key: str, body: bytes) -> Any:
        before = len(self.effects)
        answer = super()._mutate(asked, key, body)
        if len(self.effects) > before and body.startswith(b"call "):
            self.bodies.append(body.decode().removeprefix("call ").strip())
        return answer


class Objects(CampaignStore):
    """An S3 server that numbers its effects, honours conditions, is slow and loses answers."""

    method = "PUT"
    body = "call {call}"

    def __init__(self, settle_ms: int) -> None:
        self._origin = _Recording()
        self.headers = {}
        self.key, self.retries, self.padding = "amz-sdk-invocation-id", False, True
        self._settle_s = settle_ms / 1000
        self._chance = random.Random(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self._origin.start())
        self.policy = (
            f'[stores.data]\ntype = "s3"\ndialect = "s3"\nlisten = "127.0.0.1:9000"\n'
            f'endpoint = "{self._origin.url}"\nregion = "us-east-1"\naccess_key_id = "k"\n'
            f'secret_access_key = "secret-of-it"\nprobe_bucket = "kit"\nsettle_ms = {settle_ms}\n'
            'stamp_key = "one-for-all-replicas"\n'
            '[[rules]]\nstore = "data"\nmatch = "/kit/{scope}/{item}"\nscope = "{scope}"\n'
        )

    def path(self, store_url: str) -> str:
        return store_url + "/kit/{scope}/{item}"

    def effects(self) -> list[str]:
        return list(self._origin.bodies)

    def break_it(self, *, broken: bool) -> None:
        """Effects come late, though within `settle_ms`; answers are lost, or are errors."""
        faults = self._origin.faults
        faults.before_effect = self._late if broken else None
        faults.swallow_replies = 3 if broken else 0
        faults.fail_after_commit = 3 if broken else 0
        faults.fail_before_commit = 3 if broken else 0

    async def _late(self, asked: Asked) -> None:
        del asked
        if self._chance.random() < 0.2:
            await asyncio.sleep(self._chance.random() * self._settle_s * 0.8)

    def _run(self, work: Awaitable[None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)  # type: ignore[arg-type]

    def close(self) -> None:
        self._run(self._origin.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
