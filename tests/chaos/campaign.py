"""A campaign: workers write through two replicas while something breaks; then it is judged."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gateway.testing.history import Call, Violation, check
from tests.chaos.stores import SCOPES, CampaignStore
from tests.services.gateway_process import GatewayProcess
from tests.services.registries import SharedRegistry
from tests.services.server_process import ServerProcess, wait_until

MEMBER_TTL_MS = 1_500
SETTLE_MS = 400
_WORKERS = 4
_ENOUGH_PER_S = 50
_UNREACHED = "ConnectError"

POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
{registry}
[limits]
member_ttl_ms = {ttl}
registry_timeout_ms = 600
lock_timeout_ms = 1_500
drain_timeout_ms = 2_000
{store}
"""


@dataclass
class Place:
    """Where a campaign happens."""

    gateways: tuple[GatewayProcess, ...]
    registry: SharedRegistry
    store: CampaignStore
    made: Callable[[], int]
    """How many calls have ended so far, those aside that reached no gateway."""

    def until(self, more: int, within_s: float = 60) -> None:
        """Wait for so many more calls to end."""
        target = self.made() + more
        wait_until(lambda: self.made() >= target, within_s, f"{more} calls more")

    def for_(self, seconds: float) -> None:
        """Let that much time go by: what is paused is to be paused for so long."""
        end_s = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end_s, seconds + 5, "time goes by")


Fault = Callable[[Place, int], None]
"""Breaks something and heals it again; told how often it was called before."""


def nothing(place: Place, turn: int) -> None:
    """The control: nothing breaks."""
    del turn
    place.until(100)


def kill_a_replica(place: Place, turn: int) -> None:
    """SIGKILL wherever it is, and a new start."""
    gateway = place.gateways[turn % 2]
    gateway.kill()
    place.until(40)
    gateway.start()


def pause_a_replica(place: Place, turn: int) -> None:
    """SIGSTOP for less and for more than a membership."""
    gateway = place.gateways[turn % 2]
    gateway.pause()
    place.for_((0.1, 0.5, 1.2)[turn % 3] * MEMBER_TTL_MS / 1000)
    gateway.resume()
    place.until(30)


def restart_in_turn(place: Place, turn: int) -> None:
    """A rolling restart: SIGTERM, and a new start."""
    gateway = place.gateways[turn % 2]
    gateway.stop()
    gateway.start()
    place.until(30)


def pause_the_registry(place: Place, turn: int) -> None:
    """It answers nobody, for less and for more than a membership."""
    place.registry.pause()
    place.for_((0.3, 1.5)[turn % 2] * MEMBER_TTL_MS / 1000)
    place.registry.resume()
    place.until(60)


def crash_the_registry(place: Place, turn: int) -> None:
    """It is killed, and started again."""
    del turn
    place.registry.crash()
    place.until(60)


def empty_the_registry(place: Place, turn: int) -> None:
    """It is killed, and started again with nothing in it."""
    del turn
    place.registry.crash(empty=True)
    place.until(60)


def break_the_store(place: Place, turn: int) -> None:
    """It is slow, errs and loses answers."""
    del turn
    place.store.break_it(broken=True)
    place.until(60)
    place.store.break_it(broken=False)
    place.until(20)


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        nothing,
        kill_a_replica,
        pause_a_replica,
        restart_in_turn,
        pause_the_registry,
        crash_the_registry,
        empty_the_registry,
        break_the_store,
    )
}


class Report(NamedTuple):
    """What came of a campaign."""

    operations: int
    per_second: float
    turns: int
    takeovers: int
    outcomes: Counter[str]
    codes: Counter[str]
    violations: list[Violation]

    @property
    def void(self) -> bool:
        """Too little happened for the absence of violations to mean anything."""
        return self.per_second < _ENOUGH_PER_S or not self.takeovers


@dataclass
class Campaign:
    """Two replicas over one registry and one store, and the workers."""

    directory: Path
    registry: SharedRegistry
    store: CampaignStore
    start_gateway: Callable[..., GatewayProcess]
    _outputs: list[Path] = field(default_factory=list)

    def run(self, fault: Fault, seconds: float, at_least: int = 0) -> Report:
        """Break and heal for that long, and so many times, then judge the history."""
        gateways = self._gateways()
        workers = list(self._workers(gateways))
        place = Place(gateways, self.registry, self.store, self._made)
        try:
            wait_until(self._applied, 60, "a first write is applied")
            began_s, before, turns = time.monotonic(), self._made(), 0
            while time.monotonic() < began_s + seconds or turns < at_least:
                fault(place, turns)
                turns += 1
            took_s = time.monotonic() - began_s
            made = self._made() - before
        finally:
            for worker in workers:
                worker.stop(30)
        return self._report(made / took_s, turns)

    def _gateways(self) -> tuple[GatewayProcess, ...]:
        document = POLICY.format(
            registry=self.registry.settings, ttl=MEMBER_TTL_MS, store=self.store.policy
        )
        return tuple(self.start_gateway(document) for _ in range(2))

    def _workers(self, gateways: tuple[GatewayProcess, ...]) -> Iterator[ServerProcess]:
        leases = self.directory / "leases"
        leases.mkdir()
        for scope in SCOPES:
            (leases / scope).write_text("1")
        config = self.directory / "workers.json"
        config.write_text(
            json.dumps(
                {
                    "scopes": SCOPES,
                    "urls": [self.store.path(one.store_url("data")) for one in gateways],
                    "leases": str(leases),
                    "method": self.store.method,
                    "body": self.store.body,
                    "headers": self.store.headers,
                    "key": self.store.key,
                    "retries": self.store.retries,
                    "padding": self.store.padding,
                    "bases": [one.store_url("data") for one in gateways],
                }
            )
        )
        for number in range(_WORKERS):
            output = self.directory / f"worker-{number}.jsonl"
            self._outputs.append(output)
            worker = ServerProcess(
                f"worker-{number}",
                [sys.executable, "-m", "tests.chaos.worker", config, output],
                directory=self.directory,
                env={"PYTHONPATH": str(Path(__file__).parents[2])},
                ready=output.exists,
            )
            worker.start()
            yield worker

    def _lines(self) -> Iterator[dict[str, object]]:
        for output in self._outputs:
            for line in output.read_text().splitlines():
                yield json.loads(line)

    def _made(self) -> int:
        texts = [output.read_text() for output in self._outputs]
        return sum(text.count("\n") - text.count(f'"{_UNREACHED}"') for text in texts)

    def _applied(self) -> bool:
        return any('"outcome": "applied"' in one.read_text() for one in self._outputs)

    def _report(self, per_second: float, turns: int) -> Report:
        lines = list(self._lines())
        unreached = {line["call"] for line in lines if line["code"] == _UNREACHED}
        calls = [
            Call(
                str(line["call"]),
                str(line["scope"]),
                int(str(line["token"])),
                float(str(line["invoked_s"])),
                float(str(line["completed_s"])),
                str(line["outcome"]),  # type: ignore[arg-type]
            )
            for line in lines
        ]
        answered = [call for call in calls if call.id not in unreached]
        return Report(
            operations=len(answered),
            per_second=per_second,
            turns=turns,
            takeovers=len(
                {(call.scope, call.token) for call in calls if call.outcome == "applied"}
            ),
            outcomes=Counter(call.outcome for call in answered),
            codes=Counter(str(line["code"]) for line in lines),
            violations=check(calls, self.store.effects()),
        )
