"""`serve --workers`: several processes on the same sockets, one truth, one set of metrics."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until

QUICKSTART = (Path(__file__).parents[2] / "policies" / "quickstart.toml").read_text()
POLICY = QUICKSTART.replace("[registry]", "[limits]\nmember_ttl_ms = 3_000\n\n[registry]")
Start = Callable[..., GatewayProcess]


@pytest.fixture
def gateway(gateway_process: Start) -> GatewayProcess:
    return gateway_process(POLICY, arguments=("--workers", "2"))


def workers(gateway: GatewayProcess) -> list[int]:
    """The pids of the supervisor's children."""
    path = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def put(gateway: GatewayProcess, token: int, name: str = "x") -> httpx.Response:
    """A write on a connection of its own: any worker may take it."""
    url = f"{gateway.store_url('files')}/reports/eu/{name}"
    return httpx.put(url, headers={"X-Fence-Token": str(token)}, content=b"x", timeout=10)


def requests_total(gateway: GatewayProcess) -> float:
    return sum(
        value
        for name, value in gateway.metrics().items()
        if name.startswith("fencegate_requests_total") and 'store="files"' in name
    )


def test_workers_fence_as_one(gateway: GatewayProcess) -> None:
    """Whichever worker answers, a token below one that another has admitted is refused."""
    assert len(workers(gateway)) == 2
    for token in range(2, 20):
        assert put(gateway, token).is_success
        assert put(gateway, token - 1).status_code == 412


def test_the_totals_are_the_same_whichever_worker_answers(gateway: GatewayProcess) -> None:
    """Counters add up over workers, and those of a killed worker are not lost."""
    for _ in range(40):
        put(gateway, 2)
    assert {requests_total(gateway) for _ in range(8)} == {40}
    killed = workers(gateway)[0]
    os.kill(killed, signal.SIGKILL)
    wait_until(
        lambda: len(workers(gateway)) == 2 and killed not in workers(gateway), 20, "a new worker"
    )
    wait_until(gateway.ready, 20, "ready")
    assert {requests_total(gateway) for _ in range(8)} == {40}
    assert "starting it again" in gateway.process.output()


def test_a_worker_that_leaves_in_good_order_costs_no_write(gateway: GatewayProcess) -> None:
    """Workers are replaced one after the other under load: every write is answered and applied."""
    stop = threading.Event()
    answers: list[int | str] = []

    def load() -> None:
        url = f"{gateway.store_url('files')}/reports/eu/load"
        headers = {"X-Fence-Token": "5", "Connection": "close"}
        while not stop.is_set():
            try:
                answer = httpx.put(url, headers=headers, content=b"x", timeout=10)
                answers.append(answer.status_code)
            except httpx.HTTPError as error:
                answers.append(repr(error))

    def twenty_more() -> None:
        enough = len(answers) + 20
        wait_until(lambda: len(answers) >= enough, 20, "load")

    def replaced(pid: int) -> None:
        wait_until(lambda: pid not in workers(gateway), 20, "the old one's end")
        wait_until(lambda: len(workers(gateway)) == 2, 20, "a new worker")

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for old in workers(gateway):
            twenty_more()
            os.kill(old, signal.SIGTERM)
            replaced(old)
        twenty_more()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(answers) <= {201, 204}, [a for a in answers if a not in {201, 204}]


def test_sigterm_stops_all_of_them(gateway: GatewayProcess) -> None:
    """The supervisor ends with 0 behind its workers, and a start afterwards needs no wait."""
    assert put(gateway, 5).is_success
    pids = workers(gateway)
    assert gateway.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    gateway.start()
    assert put(gateway, 4).status_code == 412
    assert put(gateway, 6).is_success


def test_workers_end_with_their_supervisor(gateway: GatewayProcess) -> None:
    """Killed, it stops nobody: each worker sees it gone, and leaves in good order."""
    pids = workers(gateway)
    gateway.kill()
    wait_until(
        lambda: not any(_runs(pid) for pid in pids),
        20,
        "the workers' end",
    )
    gateway.start()
    assert put(gateway, 5).is_success


def _runs(pid: int) -> bool:
    """Whether it is more than an ended process that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_start_that_cannot_succeed_is_not_repeated(gateway_process: Start) -> None:
    """A worker that says what is wrong ends the supervisor with it."""
    broken = POLICY.replace('init = """', 'init = """ nonsense')
    with pytest.raises(RuntimeError, match="nonsense"):
        gateway_process(broken, arguments=("--workers", "2"))


def test_memory_is_one_process_alone(tmp_path: Path) -> None:
    """Marks in one process's memory are no truth for another."""
    path = tmp_path / "p.toml"
    path.write_text(POLICY.replace('type = "sqlite"             #', 'type = "memory"  #'))
    result = CliRunner().invoke(app, ["serve", str(path), "--workers", "2"])
    assert result.exit_code == 2
    assert "--workers 1" in result.output
