"""Laws of a request's journey: stages are found wherever it is worked for, and end with it."""

from __future__ import annotations

import asyncio
import re
from itertools import count
from pathlib import Path

from gateway.model.stage import Stage
from gateway.ports.journey import Journey, current, stage
from gateway.telemetry.log_lines import STAGES

GATEWAY = Path(__file__).parents[3] / "gateway"


def ticking() -> Journey:
    """A journey whose clock goes on by a second each time that it is read."""
    seconds = count()
    return Journey(lambda: float(next(seconds)), None, None)


def test_a_stage_is_measured() -> None:
    """A stage lasts from the begin of its block to its end; the gate is noted in `upstream`."""
    journey = ticking()
    entered = journey.enter()
    with stage("parse"):
        pass
    with stage("upstream"), stage("claim"):
        journey.passed_gate()
    journey.leave(entered)
    assert journey.stages == [
        Stage("parse", 0.0, 1.0),
        Stage("claim", 3.0, 5.0),
        Stage("upstream", 2.0, 6.0, gated_s=4.0),
    ]


def test_a_request_that_nobody_observes_has_no_stages() -> None:
    """Without a journey a stage is nothing, and the same nothing each time."""
    assert current() is None
    assert stage("parse") is stage("claim")


async def test_a_task_that_a_request_began_works_for_it() -> None:
    """What a request leaves to another task of its own is a stage of its journey."""

    async def claim() -> None:
        with stage("claim"):
            await asyncio.sleep(0)

    journey = ticking()
    entered = journey.enter()
    await asyncio.create_task(claim())
    journey.leave(entered)
    assert [s.name for s in journey.stages] == ["claim"]
    assert current() is None


async def test_what_outlives_the_request_is_no_part_of_it() -> None:
    """A stage that is open at the end ends with the request, and none begins after it."""
    done, started = asyncio.Event(), asyncio.Event()

    async def late() -> None:
        with stage("drain"):
            started.set()
            await done.wait()
        with stage("claim"):
            pass

    journey = ticking()
    entered = journey.enter()
    task = asyncio.create_task(late())
    await started.wait()
    journey.leave(entered)
    done.set()
    await task
    assert journey.stages == [Stage("drain", 0.0, 1.0)]


def test_every_stage_is_in_the_reference() -> None:
    """Whatever opens a stage names one of the reference, and each of those is opened somewhere."""
    opened = {"gate"}  # the first part of `upstream`
    for path in GATEWAY.rglob("*.py"):
        opened.update(re.findall(r'\bstage\("(\w+)"\)', path.read_text()))
    assert opened == set(STAGES)
