"""What the worker's grant adds to a decision: methods and scopes it does not cover are refused.

Fail closed: a grant that is limited to scopes lets nothing pass that has no scope, such as a
listing or a request under a rule with mode "off". Pure.
"""

from __future__ import annotations

from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.policy.decide import Permit


def granted(operation: Operation, decided: Permit | Problem) -> Permit | Problem:
    """The decision, or the refusal of what the worker's grant does not cover."""
    grant = operation.grant
    if grant is None:
        return decided
    if not grant.allows(operation.method):
        listed = ", ".join(sorted(grant.methods or ()))
        text = f"the key {grant.worker} does not cover {operation.method}; its `methods`: {listed}"
        return Problem(Code.ACCESS_DENIED, text)
    if isinstance(decided, Problem) or grant.covers(decided.scope):
        return decided
    if decided.scope is None:
        text = f"the key {grant.worker} is limited to `scopes`, and this request has none"
    else:
        text = f"the key {grant.worker} does not cover the scope {decided.scope}; see its `scopes`"
    return Problem(Code.ACCESS_DENIED, text)
