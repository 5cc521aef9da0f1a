"""The whole matrix, registries x stores x faults, as a table: `make chaos` (about 25 minutes).

python -m tests.chaos [--seconds S] [--only TEXT] [--every N] [--write FILE]

Then strikes: at every await between admission and answer (`failpoints.py`) a replica is killed, or
stands still. A point that no call reaches is a fault of the run, unless `AWAY` says why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.campaign import FAULTS, MEMBER_TTL_MS, SETTLE_MS, Campaign, Report
from tests.chaos.failpoints import between_admission_and_answer, points_of
from tests.chaos.stores import CampaignStore, Objects, Rows
from tests.chaos.strikes import AWAY, Strikes
from tests.services.etcd import Etcd
from tests.services.gateway_process import GatewayProcess
from tests.services.postgres import PostgresServer
from tests.services.registries import SharedEtcd, SharedPostgres, SharedRedis, SharedRegistry
from tests.services.valkey import Valkey

_CAMPAIGNS = ("<!-- campaigns -->", "<!-- end of campaigns -->")
_STRIKES = ("<!-- strikes -->", "<!-- end of strikes -->")
_COLUMNS = (
    *("registry", "store", "fault", "operations", "/s", "faults", "takeovers"),
    *("applied", "refused", "unknown", "violations"),
)


def head(columns: tuple[str, ...]) -> str:
    """The head of a table."""
    return f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|\n"


@contextmanager
def campaign(registry: str, store: str) -> Iterator[Campaign]:
    """A campaign on servers of its own."""
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="chaos-") as home:
        directory = Path(home)
        yield Campaign(
            directory,
            _registry(registry, directory, stack),
            _store(store, directory, stack),
            _gateways(directory, stack),
        )


def _registry(kind: str, home: Path, stack: ExitStack) -> SharedRegistry:
    if kind == "postgres":
        return SharedPostgres(_postgres(stack))
    directory = home / kind
    directory.mkdir()
    if kind == "etcd":
        etcd = Etcd(directory)
        etcd.process.start()
        stack.callback(etcd.process.kill)
        return SharedEtcd(etcd)
    valkey = Valkey(directory, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
    valkey.process.start()
    stack.callback(valkey.process.kill)
    return SharedRedis(valkey)


def _postgres(stack: ExitStack) -> PostgresServer:
    server = PostgresServer()
    stack.callback(server.close)
    return server


def _store(kind: str, home: Path, stack: ExitStack) -> CampaignStore:
    made: CampaignStore = (
        Objects(SETTLE_MS)
        if kind == "objects"
        else Rows(_postgres(stack), lambda policy: migrate(policy, home))
    )
    stack.callback(made.close)
    return made


def migrate(policy: str, directory: Path) -> None:
    """Make the fence tables of the store `data`."""
    path = directory / "migrate.toml"
    path.write_text(policy)
    command = [sys.executable, "-m", "gateway", "migrate", "data", "--policy", path]
    subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=directory)


def _gateways(home: Path, stack: ExitStack) -> Callable[..., GatewayProcess]:
    started: list[GatewayProcess] = []

    def start(document: str, **options: Any) -> GatewayProcess:
        directory = home / f"gateway-{len(started)}"
        directory.mkdir()
        gateway = GatewayProcess(document, directory, **options)
        started.append(gateway)
        stack.callback(lambda: gateway.process.running() and gateway.kill())
        return gateway.start()

    return start


def row(names: tuple[str, str, str], report: Report) -> str:
    """One line of the table."""
    numbers = (
        report.operations,
        f"{report.per_second:.0f}" + (" (void)" if report.void else ""),
        report.turns,
        report.takeovers,
        *(report.outcomes[outcome] for outcome in ("applied", "refused", "unknown")),
        len(report.violations),
    )
    return f"| {' | '.join(map(str, (*names, *numbers)))} |"


def campaigns(only: str, seconds: float) -> tuple[list[str], int]:
    """Run all campaigns whose names have that text. Returns the table and how many were broken."""
    rows, broken = [], 0
    for registry in ("redis", "postgres", "etcd"):
        for store in ("objects", "rows"):
            for name, fault in FAULTS.items():
                names = (registry, store, name)
                if only not in " ".join(names):
                    continue
                with campaign(registry, store) as one:
                    report = one.run(fault, seconds)
                rows.append(_shown(row(names, report), report))
                broken += bool(report.violations or report.void)
    return rows, broken


def strikes(only: str, every: int) -> tuple[list[str], int]:
    """Strike at every await, or every so many-th. Returns the table and how many were broken."""
    rows, broken = [], 0
    for kind, store in (("objects", "s3"), ("rows", "postgres")):
        points = points_of(between_admission_and_answer(store))[::every]
        for action in ("stop", "kill"):
            names = ("redis", kind, f"{action} at awaits")
            if only not in " ".join(names):
                continue
            with campaign("redis", kind) as one:
                strike = Strikes(one.directory, store, points, kill=action == "kill")
                one.start_gateway = partial(one.start_gateway, env=strike.env)
                report = one.run(strike, 0, len(points))
            reached = len(points) - len(strike.missed)
            rows.append(_shown(f"{row(names, report)} {reached} of {len(points)} |", report))
            unexplained = [point for point in strike.missed if not point.startswith(AWAY)]
            for point in unexplained:
                print("     never reached:", point)
            broken += bool(report.violations or unexplained)
    return rows, broken


def _shown(line: str, report: Report) -> str:
    print(line, flush=True)
    for violation in report.violations:
        print("    ", violation)
    return line


def _written(text: str, marks: tuple[str, str], told: str, rows: list[str]) -> str:
    begin, end = marks
    before, _, rest = text.partition(begin)
    table = "\n".join(rows)
    return f"{before}{begin}\n{told}{table}\n\n{end}{rest.partition(end)[2]}"


def main() -> int:
    """Run, print, and write the table. The exit code counts cells with violations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    rows, broken = campaigns(asked.only, asked.seconds)
    struck, missed = strikes(asked.only, asked.every)
    if asked.write is not None:
        text = asked.write.read_text()
        told = (
            f"\nEach for {asked.seconds:g} s, member_ttl_ms = {MEMBER_TTL_MS},"
            f" settle_ms = {SETTLE_MS}:\n"
        )
        text = _written(text, _CAMPAIGNS, told + head(_COLUMNS), rows)
        text = _written(text, _STRIKES, head((*_COLUMNS, "points")), struck)
        asked.write.write_text(text)
    return broken + missed


if __name__ == "__main__":
    raise SystemExit(main())
