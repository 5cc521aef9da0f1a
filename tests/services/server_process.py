"""A server that a test starts: one process on 127.0.0.1, waited for, ended by its pid."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LOOPBACK = "127.0.0.1"
POLL_INTERVAL_S = 0.02
FIRST_PORT, LAST_PORT = 12_000, 32_000

_chance = random.SystemRandom()
_given: set[int] = set()


def package_folder(package: str) -> Path:
    """Where an installed package lies, without importing it: some warn or write when imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed: make env")
    return Path(spec.submodule_search_locations[0])


def free_port() -> int:
    """A port of the loopback address that nobody has, at random, and never the same one twice.

    It lies below those that the kernel gives to outgoing connections (Linux: 32768 and above,
    ip-sysctl, "ip_local_port_range"), one of which could take it before its server listens.
    """
    while True:
        port = _chance.randrange(FIRST_PORT, LAST_PORT)
        if port in _given:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            _given.add(port)
            return port


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Polls `condition` until it holds; raises TimeoutError naming `what` after `deadline_s`."""
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{what}: not within {deadline_s} s")
        time.sleep(POLL_INTERVAL_S)


def accepts_connections(port: int) -> bool:
    """Whether something accepts TCP connections on this loopback port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


class ServerProcess:
    """One child process with its output in a file. `ready` is polled, never slept for."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        directory: Path,
        ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
        user: int | None = None,
        group: int | None = None,
    ) -> None:
        self.name = name
        self.directory = directory
        self.output_path = directory / f"{name}.log"
        self._argv = [str(part) for part in argv]
        self._env = {**os.environ, **(env or {})}
        self._ready = ready
        self._user = user
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid of the running process; raises RuntimeError when there is none."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    def start(self, deadline_s: float = 30) -> None:
        """Starts the process, returns once it is ready; raises with its output when it is not."""
        with self.output_path.open("ab") as output:
            self._process = subprocess.Popen(
                self._argv,
                cwd=self.directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self._user,
                group=self._group,
                extra_groups=None if self._user is None else [],
            )
        try:
            wait_until(self._ready_or_ended, deadline_s, f"{self.name} ready")
        except TimeoutError as error:
            self.kill()
            raise TimeoutError(f"{error}\n{self.output_tail()}") from None
        if self._process.poll() is not None:
            code = self._process.returncode
            self._process = None
            raise RuntimeError(f"{self.name} ended with {code} at its start\n{self.output_tail()}")

    def _ready_or_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None or self._ready()

    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self, deadline_s: float = 10, signal_number: int = signal.SIGTERM) -> int:
        """Asks the process to end and waits; kills it after the deadline. Returns its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal_number)
            self._process.send_signal(signal.SIGCONT)
        try:
            return self.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def wait(self, deadline_s: float = 10) -> int:
        """Waits until the process ends by itself; returns its exit code."""
        assert self._process is not None
        code = self._process.wait(deadline_s)
        self._process = None
        return code

    def kill(self) -> int:
        """SIGKILL: nothing of the process runs any more when this returns."""
        assert self._process is not None
        self._process.kill()
        return self.wait()

    def pause(self) -> None:
        """SIGSTOP: the process stays, and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def signal(self, signal_number: int) -> None:
        """Sends any other signal to this one process."""
        os.kill(self.pid, signal_number)

    def output(self) -> str:
        """Everything the process has written so far."""
        return self.output_path.read_text(errors="replace") if self.output_path.exists() else ""

    def output_tail(self, lines: int = 40) -> str:
        """The end of its output, for a failure's message."""
        return "\n".join(self.output().splitlines()[-lines:])
