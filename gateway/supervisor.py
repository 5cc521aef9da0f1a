"""The supervisor: several worker processes on the same sockets, each a replica of its own.

It holds the listening sockets, so that no connection is refused while a worker is replaced, starts
a worker again when one ends, and stops all in good order at SIGTERM and SIGINT. It alone reads the
policy's files, at the start and at SIGHUP, and hands their texts to the workers over a line each:
all go by one policy, and a worker whose line ends knows that its supervisor is gone. It serves
nothing itself. uvicorn's supervisor is not used, because it
takes SIGHUP for a restart (decisions, "Reload").
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final

from prometheus_client.multiprocess import mark_process_dead

from gateway.edge.server import bind
from gateway.policy.document import PolicySet
from gateway.policy.offers import Offers
from gateway.policy.texts import Texts, line_of
from gateway.settings import METRICS_DIR_VARIABLE, admin_key, environment
from gateway.system_clock import SystemClock

ACCEPT_RESCOPE: Final = "--accept-rescope"
_SOON_S: Final = 2.0
_START_S: Final = 30.0
_PAUSES_S: Final = (0.0, 0.2, 1.0, 5.0)
_KILL_AFTER_S: Final = 15.0
_PASSED_ON: Final = (signal.SIGUSR1,)


def supervise(policy: PolicySet, texts: Texts, arguments: Sequence[str], count: int) -> int:
    """Run `count` workers until SIGTERM or SIGINT. Returns the exit code.

    `texts` are those that `policy` was read from, `arguments` those of `fencegate serve`, for each
    worker. Raises `CannotListen`, `UnusableSecret` and OSError.
    """
    return asyncio.run(Supervisor(policy, texts, arguments, count).run())


class Supervisor:
    """Keeps the workers running until it is told to stop. One use only."""

    def __init__(
        self, policy: PolicySet, texts: Texts, arguments: Sequence[str], count: int
    ) -> None:
        admin_key(policy, environment())  # made once, before the workers look for it
        addresses = (policy.server.listen, *(s.listen for s in policy.listening()))
        self._sockets = [bind(a.host, a.port) for a in addresses if a is not None]
        self._metrics_dir = policy.server.data_dir / "metrics"
        shutil.rmtree(self._metrics_dir, ignore_errors=True)
        self._metrics_dir.mkdir(parents=True)
        self._paths = policy.sources
        self._offers = Offers(texts)
        self._lines: dict[int, asyncio.StreamWriter] = {}
        self._arguments = tuple(arguments)
        self._count = count
        self._begun: set[int] = set()
        self._clock = SystemClock()
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stop = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Start, look after, and stop the workers."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        for number in _PASSED_ON:
            loop.add_signal_handler(number, self._signal, number)
        try:
            await asyncio.gather(*(self._keep(index) for index in range(self._count)))
        finally:
            for taken in self._sockets:
                taken.close()
        return self._code

    async def _keep(self, index: int) -> None:
        """One worker after the other, until the stop; a start that fails again and again ends all.

        The first life that ends early is a start that cannot succeed: it has said why.
        """
        short = lives = 0
        while not self._stop.is_set():
            began_s = self._clock.boottime_s()
            code = await self._live(index)
            lives += 1
            if self._stop.is_set():
                self._code = self._code or max(code, 0)
                return
            soon = self._clock.boottime_s() - began_s < _SOON_S
            if code > 0 and lives == 1 and self._clock.boottime_s() - began_s < _START_S:
                self._code = code
                self._stop.set()
                return
            short = short + 1 if soon else 0
            sys.stderr.write(f"fencegate: worker {index} ended with {code}; starting it again\n")
            with contextlib.suppress(TimeoutError):
                pause_s = _PAUSES_S[min(short, len(_PAUSES_S) - 1)]
                await asyncio.wait_for(self._stop.wait(), pause_s)

    async def _live(self, index: int) -> int:
        """Start a worker and wait for its end, or end it. Returns its exit code."""
        mine, theirs = socket.socketpair()
        fds = [*(taken.fileno() for taken in self._sockets), theirs.fileno()]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "serve", *self._arguments_of(index)),
            *("--worker", ",".join(map(str, (index, *fds)))),
            pass_fds=fds,
            env={**environment(), METRICS_DIR_VARIABLE: str(self._metrics_dir.absolute())},
            start_new_session=True,  # a terminal's Ctrl-C reaches the supervisor alone
        )
        theirs.close()
        self._running[index] = process
        reader, self._lines[index] = await asyncio.open_unix_connection(sock=mine)
        for number, texts in self._offers.joined(index):
            self._lines[index].write(line_of(number, texts))
        answers = asyncio.create_task(self._listen(index, reader))
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            await self._end(process, ended)
        del self._running[index]
        self._lines.pop(index).close()
        answers.cancel()
        self._offers.left(index)
        mark_process_dead(process.pid, str(self._metrics_dir))  # type: ignore[no-untyped-call]
        return await ended

    async def _listen(self, index: int, reader: asyncio.StreamReader) -> None:
        """Hear what a worker says to each offer."""
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                number, verdict = line.split()
                self._offers.answered(index, int(number), taken=verdict == b"taken")

    def _reload(self) -> None:
        """Read the files again, and let every worker judge them."""
        texts = Texts.of(self._paths)
        number = self._offers.offer(texts, self._lines)
        for line in self._lines.values():
            line.write(line_of(number, texts))

    def _arguments_of(self, index: int) -> tuple[str, ...]:
        """A rescope was accepted for the start, not for whatever the file says later."""
        again = index in self._begun
        self._begun.add(index)
        return tuple(a for a in self._arguments if not (again and a == ACCEPT_RESCOPE))

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.wait({ended}, timeout=_KILL_AFTER_S)
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def _signal(self, number: signal.Signals) -> None:
        for process in tuple(self._running.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
