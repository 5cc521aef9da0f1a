"""Puts the rows of a decision table to a shipped policy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.model.object_action import DeleteObject, GetObject, PutObject
from gateway.model.operation import Action, Kind, Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.row_action import DeleteRows, InsertRows, SelectRows
from gateway.model.token import Token
from gateway.policy.decide import Decider
from gateway.policy.document import PolicySet

POLICIES: Final = Path(__file__).parents[2] / "policies"

_OBJECTS: Final[dict[str, tuple[Kind, Action]]] = {
    "PUT": (Kind.WRITE, PutObject("", "", 0)),
    "DELETE": (Kind.DELETE, DeleteObject("", "")),
    "GET": (Kind.READ, GetObject("", "")),
    "POST": (Kind.WRITE, OriginRequest("POST", b"/", b"")),
    "MKCOL": (Kind.WRITE, OriginRequest("MKCOL", b"/", b"")),
}
_ROWS: Final[dict[str, tuple[Kind, Action]]] = {
    "POST": (Kind.WRITE, InsertRows("", ())),
    "DELETE": (Kind.DELETE, DeleteRows("", ())),
    "GET": (Kind.READ, SelectRows("")),
}


def answer(policy: PolicySet, line: str, token: int | None, *, exact: bool = True) -> str:
    """Decide `store METHOD route`: the mode and scope, or the code of the refusal."""
    store, method, route = line.split(" ")
    actions = _ROWS if policy.stores[store].dialect == "rows" else _OBJECTS
    kind, action = actions[method]
    path = route.removeprefix(policy.stores[store].mount or "").removeprefix("/")
    number = None if token is None else Token(token)
    operation = Operation(Resource(store, path, exact), route, kind, method, action, number)
    decided = Decider.compile(policy).decide(operation)
    if isinstance(decided, Problem):
        return decided.code.value
    told = f"{decided.mode.value} {decided.scope or '-'}"
    return told if decided.would_be is None else f"{told}, else {decided.would_be.code.value}"
