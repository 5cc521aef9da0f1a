"""Where a process stands among those that serve one policy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from gateway.edge.reloads import Reloads
from gateway.edge.supervised import SupervisorLine
from gateway.policy.source import read_file


@dataclass(frozen=True, slots=True)
class Place:
    """Where this process stands: alone, or as one of a supervisor's workers on its sockets."""

    sockets: tuple[int, ...] = ()
    index: int | None = None
    accept_rescope: bool = False
    line: SupervisorLine | None = None

    @property
    def alone(self) -> bool:
        """True without a supervisor."""
        return self.index is None

    @property
    def leads(self) -> bool:
        """True for the one process that says what all would say."""
        return not self.index

    def read(self, path: Path) -> str:
        """The text of a policy file: the supervisor's, or that of the file itself."""
        return read_file(path) if self.line is None else self.line.read(path)

    def follow(self, reloads: Reloads) -> None:
        """Reload at SIGHUP of the supervisor, and end with it."""

        async def reload() -> bool:
            return "policy" not in await reloads.run()

        if self.line is not None:
            reloads.meanwhile(self.line.follow(reload))

    def say(self, line: str) -> None:
        """Tell an operator, once for all workers."""
        if self.leads:
            sys.stdout.write(line)
