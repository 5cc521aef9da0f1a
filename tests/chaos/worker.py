"""A worker process of a campaign: takes leases over, writes through any replica, notes what it saw.

    python -m tests.chaos.worker CONFIG OUTPUT

CONFIG is a JSON object (see `Campaign`); OUTPUT gets one JSON line for each call that ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

import httpx

_THREADS = 4
_TAKEOVER = 0.06
_STALE = 0.25  # of the calls, with a token that somebody has taken over from
_KEYED = 0.3  # of the calls carry a key of their own, and are sent again after a lost answer
_BIG = 0.05  # of the calls have a body that does not fit into one piece
_PADDING = " " * 400_000


def next_token(path: Path) -> int:
    """The next token of a scope, as a lease service would issue it."""
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        token = int(file.read() or 0) + 1
        file.truncate(0)
        file.write(str(token))
        return token


def current_token(path: Path) -> int:
    """The token of the present holder of a scope."""
    return int(path.read_text() or 1)


class Writer:
    """One thread's loop of calls."""

    def __init__(self, config: dict[str, Any], output: TextIO, lock: threading.Lock) -> None:
        self._config = config
        self._output = output
        self._lock = lock
        self._chance = random.Random(os.urandom(8))
        self._held: dict[str, int] = {}
        self.stopped = False

    def run(self) -> None:
        """Write until told to stop."""
        number = 0
        with httpx.Client(timeout=4) as client:
            while not self.stopped:
                number += 1
                self._call(client, f"{os.getpid()}-{threading.get_ident()}-{number}")

    def _call(self, client: httpx.Client, name: str) -> None:
        scope = self._chance.choice(self._config["scopes"])
        token = self._token(scope)
        body = self._config["body"].replace("{call}", name)
        if self._chance.random() < _BIG:
            body += _PADDING if self._config["padding"] else ""
        url = self._chance.choice(self._config["urls"]).replace("{scope}", scope)
        url = url.replace("{item}", str(self._chance.randrange(3)))
        headers = {"X-Fence-Token": str(token), **self._config["headers"]}
        keyed = self._chance.random() < _KEYED
        if keyed:
            headers[self._config["key"]] = name
        invoked_s = time.monotonic()
        outcome, code = self._ask(client, url, headers, body)
        if keyed and outcome == "unknown" and self._config["retries"]:
            outcome, code = self._ask(client, self._elsewhere(url), headers, body)
        line = {
            "call": name,
            "scope": scope,
            "token": token,
            "invoked_s": invoked_s,
            "completed_s": time.monotonic(),
            "outcome": outcome,
            "code": code,
        }
        with self._lock:
            self._output.write(json.dumps(line) + "\n")

    def _ask(
        self, client: httpx.Client, url: str, headers: dict[str, str], body: str
    ) -> tuple[str, str]:
        try:
            answer = client.request(self._config["method"], url, headers=headers, content=body)
        except httpx.HTTPError as error:
            return "unknown", type(error).__name__
        return answer.headers.get("X-Fence-Outcome", "unknown"), str(answer.status_code)

    def _elsewhere(self, url: str) -> str:
        """The same resource through another replica, or the same one."""
        old, new = self._chance.sample(self._config["bases"], 2)
        return url.replace(old, new) if self._chance.random() < 0.5 else url

    def _token(self, scope: str) -> int:
        path = Path(self._config["leases"]) / scope
        if self._chance.random() < _TAKEOVER:
            self._held[scope] = next_token(path)
        elif scope not in self._held or self._chance.random() > _STALE:
            self._held[scope] = current_token(path)
        return self._held[scope]


def main() -> None:
    """Run the writers until SIGTERM."""
    config = json.loads(Path(sys.argv[1]).read_text())
    with Path(sys.argv[2]).open("w", buffering=1) as output:
        lock = threading.Lock()
        writers = [Writer(config, output, lock) for _ in range(_THREADS)]
        threads = [threading.Thread(target=writer.run) for writer in writers]
        for thread in threads:
            thread.start()
        signal.sigwait({signal.SIGTERM})
        for writer in writers:
            writer.stopped = True
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main()
