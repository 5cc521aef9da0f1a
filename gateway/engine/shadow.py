"""Shadow mode: would-be rejections by marks kept apart, in the memory of this process.

Nothing here awaits or can fail a request. A process that restarts, or that sees only a part of the
traffic, counts too few rejections, never too many.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, assert_never

from gateway.engine.refusals import refusal
from gateway.machines import shadow
from gateway.machines.fence_state import Why
from gateway.model.mark import NO_MARK, Mark, Scope
from gateway.model.operation import Operation
from gateway.model.token import Token
from gateway.policy.decide import Permit
from gateway.policy.rule_settings import Reads

_MOST_SCOPES: Final = 100_000


class ShadowMarks:
    """The marks of scopes whose rule has mode "shadow"; those used least recently are forgotten."""

    def __init__(self, most_scopes: int = _MOST_SCOPES) -> None:
        self._most_scopes = most_scopes
        self._marks: OrderedDict[Scope, Mark] = OrderedDict()

    def reason(self, operation: Operation, permit: Permit) -> str | None:
        """What the operation would be refused for, as in `Problem.reason`; None: it would pass."""
        if permit.would_be is not None:
            return permit.would_be.reason
        scope, token = permit.scope, operation.token
        if scope is None or token is None:
            return None
        why = self._compare(operation, permit, scope, token)
        if why is None:
            return None
        return refusal(why, scope, token, self._marks[scope], 1.0).reason

    def _compare(
        self, operation: Operation, permit: Permit, scope: Scope, token: Token
    ) -> Why | None:
        mark = self._marks.get(scope, NO_MARK)
        if not operation.kind.mutates:
            match permit.reads:
                case Reads.IGNORE:
                    return None
                case Reads.CHECK:
                    return shadow.look(mark, token)
                case Reads.SEAL:
                    pass
                case _:
                    assert_never(permit.reads)
        judged = shadow.judge(mark, token, operation.holder, permit.max_jump)
        self._marks[scope] = judged.mark
        self._marks.move_to_end(scope)
        if len(self._marks) > self._most_scopes:
            self._marks.popitem(last=False)
        return judged.why
