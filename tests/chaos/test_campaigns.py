"""Two replicas under faults, judged from outside: what clients saw, and the store's own order."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gateway.testing.history import Kind
from tests.chaos.__main__ import migrate
from tests.chaos.campaign import FAULTS, SETTLE_MS, Campaign, Report
from tests.chaos.failpoints import between_admission_and_answer, points_of, source_of
from tests.chaos.stores import CampaignStore, Objects, Rows
from tests.chaos.strikes import Strikes
from tests.services.gateway_process import GatewayProcess
from tests.services.postgres import PostgresServer
from tests.services.registries import SharedRegistry

_REDUCED = [
    ("redis", "objects", fault)
    for fault in FAULTS
    if fault not in {"crash_the_registry", "restart_in_turn"}
] + [
    ("postgres", "rows", "kill_a_replica"),
    ("postgres", "rows", "break_the_store"),
    ("postgres", "objects", "crash_the_registry"),
    ("etcd", "rows", "pause_a_replica"),
    ("etcd", "objects", "restart_in_turn"),
    ("etcd", "objects", "empty_the_registry"),
]


@pytest.fixture
def campaign(
    shared_registry: SharedRegistry,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    gateway_process: Callable[..., GatewayProcess],
    new_postgres: Callable[[], PostgresServer],
) -> Iterator[Campaign]:
    """A campaign over the registry and the store that the test names."""

    store: CampaignStore
    if request.getfixturevalue("store_kind") == "rows":
        store = Rows(new_postgres(), lambda policy: migrate(policy, tmp_path))
    else:
        store = Objects(SETTLE_MS)
    yield Campaign(tmp_path, shared_registry, store, gateway_process)
    store.close()


def told(report: Report) -> str:
    """A report for who reads the test's output."""
    return (
        f"{report.operations} operations ({report.per_second:.0f}/s), {report.turns} faults, "
        f"{report.takeovers} takeovers, {dict(report.outcomes)}, {report.codes.most_common(8)}"
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "shared_registry, store_kind, fault", _REDUCED, indirect=["shared_registry"]
)
def test_no_violation_under_faults(campaign: Campaign, fault: str, store_kind: str) -> None:
    """Whatever breaks, no stale write takes effect, and no answer is a lie."""
    report = campaign.run(FAULTS[fault], seconds=6)
    print(told(report))
    assert [str(one) for one in report.violations] == []
    assert report.outcomes["applied"] > 20
    assert report.takeovers > 5


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "shared_registry, store_kind", [("redis", "objects")], indirect=["shared_registry"]
)
def test_a_gateway_that_does_not_fence_is_caught(campaign: Campaign, store_kind: str) -> None:
    """Negative control: the same campaign without fencing is full of violations."""
    campaign.store.policy = re.sub(r'\nscope = ".*"', '\nmode = "off"', campaign.store.policy)
    report = campaign.run(FAULTS["nothing"], seconds=3, at_least=5)
    kinds = {violation.kind for violation in report.violations}
    assert {Kind.STALE_EFFECT, Kind.STALE_APPLIED} <= kinds, told(report)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "shared_registry, store_kind, kill",
    [("redis", "objects", False), ("redis", "rows", True)],
    indirect=["shared_registry"],
)
def test_no_violation_wherever_a_replica_is_struck(
    campaign: Campaign, store_kind: str, kill: bool
) -> None:
    """Killed, or standing still, at every twelfth await between admission and answer."""
    store = "s3" if store_kind == "objects" else "postgres"
    points = points_of(between_admission_and_answer(store))[::12]
    strikes = Strikes(campaign.directory, store, points, kill=kill)
    campaign.start_gateway = partial(campaign.start_gateway, env=strikes.env)
    report = campaign.run(strikes, seconds=0, at_least=len(points))
    print(told(report), strikes.missed)
    assert [str(one) for one in report.violations] == []
    assert len(points) - len(strikes.missed) >= 4, "hardly any point was reached"


def test_every_await_becomes_a_point() -> None:
    """Generated from the source: as many points as awaits, each with a name of its own."""
    modules = between_admission_and_answer("s3")
    points = points_of(modules)
    awaits = sum(
        isinstance(node, ast.Await)
        for module in modules
        for node in ast.walk(ast.parse(source_of(module).read_text()))
    )
    assert len(points) == len(set(points)) == awaits
    assert awaits > 100
