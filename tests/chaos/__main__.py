"""The whole matrix, registries x stores x faults, as a table: `make chaos` (about 25 minutes).

python -m tests.chaos [--seconds S] [--only TEXT] [--write FILE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.campaign import FAULTS, MEMBER_TTL_MS, SETTLE_MS, Campaign, Report
from tests.chaos.stores import CampaignStore, Objects, Rows
from tests.services.etcd import Etcd
from tests.services.gateway_process import GatewayProcess
from tests.services.postgres import PostgresServer
from tests.services.registries import SharedEtcd, SharedPostgres, SharedRedis, SharedRegistry
from tests.services.valkey import Valkey

_BEGIN, _END = "<!-- campaigns -->", "<!-- end of campaigns -->"
_COLUMNS = (
    *("registry", "store", "fault", "operations", "/s", "faults", "takeovers"),
    *("applied", "refused", "unknown", "violations"),
)
_HEAD = f"\n| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|\n"


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


def _gateways(home: Path, stack: ExitStack) -> Callable[[str], GatewayProcess]:
    started: list[GatewayProcess] = []

    def start(document: str) -> GatewayProcess:
        directory = home / f"gateway-{len(started)}"
        directory.mkdir()
        gateway = GatewayProcess(document, directory)
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


def main() -> int:
    """Run, print, and write the table. The exit code counts cells with violations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    rows, broken = [], 0
    for registry in ("redis", "postgres", "etcd"):
        for store in ("objects", "rows"):
            for name, fault in FAULTS.items():
                names = (registry, store, name)
                if asked.only not in " ".join(names):
                    continue
                with campaign(registry, store) as one:
                    report = one.run(fault, asked.seconds)
                rows.append(row(names, report))
                print(rows[-1], flush=True)
                for violation in report.violations:
                    print("    ", violation)
                broken += bool(report.violations)
    if asked.write is not None:
        text = asked.write.read_text()
        before, _, rest = text.partition(_BEGIN)
        told = (
            f"\nEach for {asked.seconds:g} s, member_ttl_ms = {MEMBER_TTL_MS},"
            f" settle_ms = {SETTLE_MS}:\n"
        )
        table = f"{_BEGIN}\n{told}{_HEAD}" + "\n".join(rows) + f"\n\n{_END}"
        asked.write.write_text(before + table + rest.partition(_END)[2])
    return broken


if __name__ == "__main__":
    raise SystemExit(main())
