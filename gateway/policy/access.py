"""What the worker's grant adds to a decision: methods and scopes it does not cover are refused.

Fail closed: a grant that is limited to scopes lets nothing pass that has no scope, such as a
request under a rule with mode "off", and no listing. Pure.
"""

from __future__ import annotations

from gateway.model.object_action import ListBuckets, ListObjects
from gateway.model.operation import Operation
from gateway.model.origin_request import OriginRequest
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
    if isinstance(decided, Problem):
        return decided
    if grant.scopes is not None and _lists(operation):
        text = (
            f"the key {grant.worker} is limited to `scopes`, and a listing tells the names of what"
            " lies in others too: give a worker that lists a key without `scopes`"
        )
        return Problem(Code.ACCESS_DENIED, text)
    if grant.covers(decided.scope):
        return decided
    if decided.scope is None:
        text = f"the key {grant.worker} is limited to `scopes`, and this request has none"
    else:
        text = f"the key {grant.worker} does not cover the scope {decided.scope}; see its `scopes`"
    return Problem(Code.ACCESS_DENIED, text)


def _lists(operation: Operation) -> bool:
    """True for what names other resources than its own, whatever scope a rule gives its path."""
    match operation.action:
        case ListObjects() | ListBuckets():
            return True
        case OriginRequest(method="PROPFIND", fields=fields):  # RFC 4918, section 9.1
            return [value for name, value in fields if name == b"depth"] != [b"0"]
        case _:
            return False
