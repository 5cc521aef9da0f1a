"""The dialect of a store by the policy in force: a change of keys exchanges it whole."""

from __future__ import annotations

from gateway.model.outcome import Outcome
from gateway.model.problem import Problem
from gateway.ports.dialect import Dialect, Parsed, RawRequest, Reply


class LiveDialect:
    """Speaks as the dialect that it was given last. Requests under way keep what they were told."""

    def __init__(self, dialect: Dialect) -> None:
        self.name = dialect.name
        self._dialect = dialect

    def take(self, dialect: Dialect) -> None:
        """Speak as this one from now on."""
        self._dialect = dialect

    async def parse(self, request: RawRequest) -> Parsed | Problem | Reply:
        """See `Dialect.parse`."""
        return await self._dialect.parse(request)

    def render(self, request: RawRequest, parsed: Parsed | None, outcome: Outcome) -> Reply:
        """See `Dialect.render`."""
        return self._dialect.render(request, parsed, outcome)
