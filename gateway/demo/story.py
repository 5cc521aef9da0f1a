"""The demo's story: A holds token 1 and pauses, B takes over with token 2, A wakes and writes."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console

from gateway.demo.stage import Gateway, StageError, Worker, gateway
from gateway.demo.worker import FILE, ROW, stored_object
from gateway.system_clock import SystemClock

_NAMES: Final = {"file": FILE, "object": "s3://demo/july.txt", "row": "jobs id=1"}
_SHOWN: Final = ("fencegate_rejections_total", "fencegate_raises_total", "fencegate_requests_total")
_STALE: Final = "fence_token_stale"


class Timeline:
    """Prints what happens, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = SystemClock()
        self._began_s = self._clock.boottime_s()

    def say(self, who: str, text: str, style: str = "") -> None:
        """One line of the timeline."""
        stamp = f"{self._clock.boottime_s() - self._began_s:7.3f} s"
        self._console.print(
            f"[dim]{stamp}[/dim]  [bold]{who:<8}[/bold] [{style or 'default'}]{text}"
        )

    def wrote(self, who: str, event: dict[str, Any]) -> None:
        """One write and how it was answered."""
        name = _NAMES[event["target"]]
        if event["code"] is None:
            self.say(who, f"writes {name:<28} → {event['status']}", "green")
        else:
            self.say(who, f"writes {name:<28} → {event['status']} {event['code']}", "red")


def play() -> int:
    """Play the story. Returns the exit code: 0 only if no stale write landed."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="fencegate-demo-") as directory:
        try:
            return asyncio.run(_play(console, Path(directory)))
        except StageError as failed:
            console.print(f"[red]The demo could not be played: {failed}")
            return 1


async def _play(console: Console, directory: Path) -> int:
    async with gateway(directory) as at:
        timeline = Timeline(console)
        timeline.say("gateway", "serves files, objects and rows, with nothing but this machine")
        await _prepare(at)
        alice = await Worker.start("A", 1, at)
        workers = [alice]
        try:
            refused = await _takeover(timeline, at, alice, workers)
        finally:
            for worker in workers:
                await worker.end()
        return await _verdict(console, at, refused)


async def _prepare(at: Gateway) -> None:
    """Put the row there that both workers want to finish."""
    fence = {"X-Fence-Token": "1"}
    async with httpx.AsyncClient(base_url=at.http_url, headers=fence) as client:
        answer = await client.post("/db/jobs", json={"id": 1, "name": "july report"})
        answer.raise_for_status()


async def _takeover(
    timeline: Timeline, at: Gateway, alice: Worker, workers: list[Worker]
) -> list[dict[str, Any]]:
    timeline.say("A", "takes the lease: token 1")
    async for event in alice.events(until="computing"):
        timeline.wrote("A", event)
    alice.pause()
    timeline.say("A", "is paused by the machine (SIGSTOP) and does not know it", "yellow")
    timeline.say("lease", "A was not heard of: expired", "yellow")
    bob = await Worker.start("B", 2, at)
    workers.append(bob)
    timeline.say("B", "takes the lease: token 2")
    async for event in bob.events(until="computing"):
        timeline.wrote("B", event)
    bob.go_on()
    async for event in bob.events(until="ended"):
        timeline.wrote("B", event)
    alice.wake()
    timeline.say("A", "wakes (SIGCONT), still believes that it holds the lease", "yellow")
    late = [event async for event in alice.events(until="ended")]
    for event in late:
        timeline.wrote("A", event)
    return late


async def _verdict(console: Console, at: Gateway, late: list[dict[str, Any]]) -> int:
    async with httpx.AsyncClient(base_url=at.http_url) as client:
        text = (await client.get(FILE)).text
        row = (await client.get(ROW)).json()[0]["result"]
        blob = await stored_object(at.s3_url)
        metrics = (await client.get("/metrics")).text
    console.print()
    for line in metrics.splitlines():
        if line.startswith(_SHOWN) and not line.endswith(" 0.0"):
            console.print(f"  [dim]{line}")
    fenced = len(late) == len(_NAMES) and all(event["code"] == _STALE for event in late)
    intact = text == row == blob == "final text by B"
    console.print()
    if fenced and intact:
        console.print("[green]All 3 late writes of A were refused; what B wrote stands.")
        return 0
    console.print(
        f"[red]A stale write landed: the file says {text!r}, the object {blob!r}, the row {row!r}."
    )
    return 1
