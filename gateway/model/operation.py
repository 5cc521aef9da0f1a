"""The operation: what one request asks for, after parsing. Behind it nobody sees a header."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.model.conditions import NO_CONDITIONS, Conditions
from gateway.model.object_action import ObjectRead, ObjectWrite
from gateway.model.origin_request import OriginRequest
from gateway.model.resource import Resource
from gateway.model.row_action import RowRead, RowWrite
from gateway.model.token import Holder, Token
from gateway.model.worker import Grant

Action = ObjectRead | ObjectWrite | OriginRequest | RowRead | RowWrite


class Kind(StrEnum):
    """What an operation does to the store; a label of the metrics."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    LIST = "list"

    @property
    def mutates(self) -> bool:
        """True when the operation can change the store, and so needs a token."""
        return self is Kind.WRITE or self is Kind.DELETE


@dataclass(frozen=True, slots=True)
class Operation:
    """One request, understood.

    `route` is the path as policy rules match it (with the mount, without query). `retry_key` is
    the client's own id of the logical request: `amz-sdk-invocation-id` or `Idempotency-Key`.
    `grant` is what its sender may do, None without authentication. `unnamed` says why the rows are
    not known by their key, where naming the key would not help; else empty. `routes` are those of
    the rows that it touches, when they are known and more than one.
    """

    resource: Resource
    route: str
    kind: Kind
    method: str
    action: Action
    token: Token | None = None
    holder: Holder | None = None
    conditions: Conditions = NO_CONDITIONS
    retry_key: str | None = None
    request_id: str = ""
    grant: Grant | None = None
    unnamed: str = ""
    routes: tuple[str, ...] = ()

    @property
    def worker(self) -> str | None:
        """Who sent it, None without authentication."""
        return None if self.grant is None else self.grant.worker
