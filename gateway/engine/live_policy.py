"""The policy in force: decided by, exchanged whole at SIGHUP, and remembered over a restart.

A request is decided once, so that it goes by one policy to its end. What cannot be used changes
nothing. What scopes were derived from is kept in the data directory, so that a restart cannot
un-fence in silence either.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from gateway.model.mark import Scope
from gateway.model.operation import Operation
from gateway.model.problem import Problem
from gateway.policy.changed_keys import changed_keys
from gateway.policy.decide import Decider, Permit
from gateway.policy.document import PolicySet
from gateway.policy.rescope import changed_rules, derivation, needs_start, rescoped
from gateway.ports.registry import Registry

_KEPT: Final = "scopes.json"
_PAGE: Final = 100


class RescopeRefused(Exception):
    """The policy would give resources other scopes while marks exist; the text says what to do."""


class ReloadRefused(Exception):
    """A running gateway cannot take this policy; the text says what to do."""


Prepare = Callable[[PolicySet], Awaitable[Callable[[], None]]]
"""Makes ready for a policy, or raises; what it gives back puts it in force and cannot fail."""


async def _nothing(policy: PolicySet) -> Callable[[], None]:
    del policy
    return lambda: None


class LivePolicy:
    """Decides by the policy in force. `read` reads the policy's files again."""

    def __init__(
        self,
        policy: PolicySet,
        registry: Registry,
        read: Callable[[], PolicySet],
        *,
        accept_rescope: bool = False,
    ) -> None:
        self._policy = policy
        self._decider = Decider.compile(policy)
        self._registry = registry
        self._read = read
        self._prepare: Prepare = _nothing
        self._accept_rescope = accept_rescope

    def with_access(self, prepare: Prepare) -> None:
        """Let a reload exchange these keys too, together with the rules or not at all."""
        self._prepare = prepare

    def decide(self, operation: Operation) -> Permit | Problem:
        """See `Decider.decide`."""
        return self._decider.decide(operation)

    def reach(self, scope: Scope) -> frozenset[str]:
        """See `Decider.reach`."""
        return self._decider.reach(scope)

    def meets(self, scope: Scope) -> frozenset[str]:
        """See `Decider.meets`."""
        return self._decider.meets(scope)

    def digest(self) -> str:
        """What tells policies apart that derive scopes differently."""
        return self._policy.digest

    async def start(self) -> None:
        """Compare with what the last start derived scopes from. Raises `RescopeRefused`.

        Raises `RegistryUnavailable` and OSError too.
        """
        path = self._policy.data(Path(_KEPT))
        try:
            old = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            old = None
        if old is not None:
            await self._refuse_rescope(rescoped(old, self._derivation(self._policy)))
        self._accept_rescope = False  # it was for this start, not for every reload behind it
        self._keep(self._policy)

    async def reload(self) -> str:
        """Read the files again and go by them from now on; tell what changed.

        Raises `PolicyError`, `ReloadRefused`, `RescopeRefused`, `RegistryUnavailable`, and what
        keys that cannot be used raise: nothing has changed then.
        """
        new = await asyncio.to_thread(self._read)
        sections = needs_start(self._policy, new)
        if sections:
            raise ReloadRefused(f"{', '.join(sections)} changed, which needs a restart")
        old, decider = self._policy, Decider.compile(new)
        await self._refuse_rescope(rescoped(self._derivation(old), self._derivation(new)))
        commit = await self._prepare(new)
        self._keep(new)
        self._policy, self._decider = new, decider
        commit()
        changes = "; ".join((*changed_rules(old, new), *changed_keys(old, new)))
        changes = changes or "no rule and no key changed"
        return f"{changes}; digest {new.digest}"

    def _derivation(self, policy: PolicySet) -> dict[str, object]:
        return derivation(policy.stores, policy.rules)

    def _keep(self, policy: PolicySet) -> None:
        path = policy.data(Path(_KEPT))
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{_KEPT}.{os.getpid()}")
        beside.write_text(json.dumps(self._derivation(policy)))
        beside.replace(path)

    async def _refuse_rescope(self, changes: tuple[str, ...]) -> None:
        if not changes or self._accept_rescope or not await self._has_marks():
            return
        raise RescopeRefused(
            f"{'; '.join(changes)}: resources would get other scopes, and the marks that exist "
            "would no longer fence them. Seal what must stay shut, then start with --accept-rescope"
        )

    async def _has_marks(self) -> bool:
        after: str | None = None
        while True:
            page = await self._registry.scopes(after, _PAGE)
            if any(row.mark.token > 0 for row in page.rows):
                return True
            if page.next is None:
                return False
            after = page.next
