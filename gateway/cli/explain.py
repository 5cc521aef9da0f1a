"""What the gateway would do with a request: store, rule, scope, answer, promise.

Asks the same dialects and the same decision as the data plane, without a server or a store. The
primary keys of tables are not known here: `column=eq.value` filters are taken for the whole key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from gateway.cli.explain_access import admitted
from gateway.cli.promise import promise
from gateway.dialects.fence_fields import fence_fields
from gateway.dialects.http import HttpDialect
from gateway.dialects.origin import OriginDialect
from gateway.dialects.s3.dialect import S3Dialect
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.row_action import DeleteRows, InsertRows, SelectRows
from gateway.model.token import Token
from gateway.policy.access import granted
from gateway.policy.complaint import nearest
from gateway.policy.decide import Decider, Permit
from gateway.policy.document import (
    HttpSettings,
    Mode,
    OnMissingToken,
    PolicySet,
    Reads,
    StoreSettings,
)
from gateway.policy.fit import RESERVED_MOUNTS
from gateway.ports.dialect import Dialect, Parsed, RawRequest, Reply
from gateway.system_clock import wall_s

_READS: Final = {
    Reads.CHECK: "check: refused when the token is known to be stale; nothing is raised",
    Reads.SEAL: "seal: raises the mark and drains before it reads",
    Reads.IGNORE: "ignore: a token on a read is not looked at",
}

_ROW_KINDS: Final = {
    "GET": Kind.READ,
    "HEAD": Kind.READ,
    "POST": Kind.WRITE,
    "PATCH": Kind.WRITE,
    "DELETE": Kind.DELETE,
}


class NotServed(Exception):
    """No store answers a URL; the text says which ones there are."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request as an operator writes it. `token` is the text of X-Fence-Token, if any.

    `fields` are further header fields, names in lower case.
    """

    method: str
    url: str
    token: str | None
    fields: tuple[tuple[bytes, bytes], ...] = ()

    def header(self) -> tuple[tuple[bytes, bytes], ...]:
        """All fields, as a dialect takes them."""
        given = {name for name, _ in self.fields}
        always = ((b"host", b"localhost"), (b"content-length", b"0"))
        token = () if self.token is None else ((b"x-fence-token", self.token.encode()),)
        return (*(f for f in always if f[0] not in given), *token, *self.fields)


def explain(policy: PolicySet, question: Question) -> Iterator[tuple[str, str]]:
    """Yield (name, text) lines. Raises `NotServed`."""
    store, path, query = _locate(policy, question.url)
    yield "request", f"{question.method} {path}" + (f"?{query}" if query else "")
    yield "store", f"{store.name} (type {store.type}, dialect {store.dialect})"
    request = _raw(question, path, query)
    access = admitted(policy, store, request)
    if isinstance(access, Problem):
        yield "answer", _problem(access)
        return
    said, grant = access
    if said:
        yield "key", said
    understood = _understand(store, question, request)
    if isinstance(understood, Reply):
        yield "answer", f"{understood.status} by the gateway itself; no store is asked"
    elif isinstance(understood, Problem):
        yield "answer", _problem(understood)
    else:
        yield from _decided(policy, store, replace(understood, grant=grant))


def _decided(
    policy: PolicySet, store: StoreSettings, operation: Operation
) -> Iterator[tuple[str, str]]:
    decider = Decider.compile(policy)
    decided = granted(operation, decider.decide(operation))
    if isinstance(decided, Problem):
        if isinstance(operation.action, InsertRows) and decided.code is Code.SCOPE_UNDETERMINED:
            yield (
                "answer",
                f"depends on the body. Without its whole primary key: {_problem(decided)}",
            )
            yield "answer", "with it, as for its row; KEY stands for its key in what follows"
            yield from _decided(policy, store, _row(operation))
            return
        yield "answer", _problem(decided)
        if decided.code is Code.ACCESS_DENIED:
            return
        # Without a token, rule and scope are still worth knowing: those that one would meet.
        decided = granted(operation, decider.decide(replace(operation, token=Token(1))))
        if isinstance(decided, Problem):
            if decided.code is Code.ACCESS_DENIED:
                yield "answer", f"with a token {_problem(decided)}"
            return
    if store.dialect == "rows" and operation.resource.exact:
        yield "row", f"{operation.resource.path}, if that is its whole primary key"
    yield from _decision(operation, decided)
    if decided.mode is Mode.SHADOW:
        yield "promise", "none: a shadow rule watches, and refuses nothing"
    elif decided.scope is not None:
        reach = sorted(decider.reach(decided.scope) | {store.name})
        promised = promise([policy.stores[name] for name in reach], policy.registry)
        unfenced = operation.kind.mutates and operation.token is None and _may_lack(decided)
        less = "none for this request, which passes unfenced; with a token " if unfenced else ""
        yield "promise", less + promised.text
        for gap in (*_rule_gaps(decided), *promised.not_covered):
            yield "not covered", gap


def _decision(operation: Operation, permit: Permit) -> Iterator[tuple[str, str]]:
    rule = permit.rule
    yield "rule", "none matches" if rule is None else f'{rule.where}: match = "{rule.match}"'
    if permit.mode is Mode.OFF:
        yield "scope", "none"
        yield "answer", "passed on unfenced: the rule's mode is off"
        return
    if permit.mode is Mode.SHADOW:
        yield from _shadowed(operation, permit)
        return
    if permit.scope is None:
        yield "scope", "none: it may touch rows of several scopes, so there is nothing to compare"
        yield "answer", "answered without a look at the token"
        return
    own = "" if rule is not None and rule.scope is not None else " (its own: no rule names another)"
    yield "scope", permit.scope + own
    if operation.kind.mutates and operation.token is not None:
        stale = f"412 fence_token_stale when the scope's mark is above {operation.token}"
        if permit.max_jump is not None:
            stale += f", 403 fence_token_implausible when it is below {operation.token} by more "
            stale += f"than max_jump = {permit.max_jump} (a scope's first token may be any)"
        yield "answer", f"{stale}, else carried out"
    elif not operation.kind.mutates:
        yield "reads", _READS[permit.reads]
    elif rule is not None and rule.on_missing_token is OnMissingToken.ALLOW_AND_COUNT:
        yield "answer", "passed on unfenced and counted: the rule's on_missing_token allows it"


def _shadowed(operation: Operation, permit: Permit) -> Iterator[tuple[str, str]]:
    yield "scope", permit.scope or "none: it may touch rows of several scopes"
    if permit.would_be is not None:
        would_be = f"{permit.would_be.status} {permit.would_be.code.value}"
    elif operation.kind.mutates or permit.reads is not Reads.IGNORE:
        would_be = "412 fence_token_stale when the token is below one that this process has seen"
    else:
        would_be = "nothing"
    yield (
        "answer",
        "passed on unfenced, whatever its token: the rule's mode is shadow; counted and told in "
        f"X-Fence-Shadow as refused if it enforced: {would_be}",
    )


def _rule_gaps(permit: Permit) -> Iterator[str]:
    if _may_lack(permit):
        yield (
            "writes without a token: the rule lets them pass unfenced, also while a holder writes "
            "(fencegate_tokens_missing_total counts them)"
        )


def _may_lack(permit: Permit) -> bool:
    rule = permit.rule
    return rule is not None and rule.on_missing_token is OnMissingToken.ALLOW_AND_COUNT


def _row(operation: Operation) -> Operation:
    """The same insert, with a body that holds the primary key."""
    resource = operation.resource
    row = Resource(resource.store, f"{resource.path}/KEY", exact=True)
    return replace(operation, resource=row, route=f"{operation.route}/KEY")


def _problem(problem: Problem) -> str:
    hint = f" {problem.hint}" if problem.hint else ""
    return f"{problem.status} {problem.code.value}: {problem.message}.{hint}"


def _locate(policy: PolicySet, url: str) -> tuple[StoreSettings, str, str]:
    """Find the store that answers a URL or a path. Raises `NotServed`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NotServed(f"{url} is no URL: {error}") from None
    path, query = _escaped(parts.path) or "/", _escaped(parts.query)
    if parts.netloc and port != policy.server.listen.port:
        for store in policy.listening():
            if store.listen is not None and store.listen.port == port:
                return store, path, query
        raise NotServed(f"nothing listens at {parts.netloc}; {_served(policy)}")
    for reserved in RESERVED_MOUNTS:
        if path == reserved or path.startswith(f"{reserved}/"):
            raise NotServed(f"{path} belongs to the gateway itself, not to a store")
    for store in policy.mounted():
        if path == store.mount or path.startswith(f"{store.mount}/"):
            return store, path, query
    mounts = [store.mount for store in policy.mounted() if store.mount is not None]
    guess = nearest("/" + path.split("/")[1], mounts)
    raise NotServed(f"no store answers {path}; {guess or _served(policy)}")


def _served(policy: PolicySet) -> str:
    base = f"http://{policy.server.listen}"
    places = [f"{base}{store.mount} ({store.name})" for store in policy.mounted()]
    places += [f"http://{store.listen} ({store.name})" for store in policy.listening()]
    return f"served are {', '.join(places)}"


def _escaped(text: str) -> str:
    """Escape what a client's library would; what is escaped already stays."""
    return quote(text, safe="/%!$&'()*+,;=:@~?")


class _NoBody:
    length: int | None = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        return
        yield


def _raw(question: Question, path: str, query: str) -> RawRequest:
    return RawRequest(
        method=question.method,
        path=path.encode("ascii"),
        query=query.encode("ascii"),
        fields=question.header(),
        request_id="explain",
        host="localhost",
        https=False,
        arrived_s=wall_s(),
        body=_NoBody(),
    )


def _understand(
    store: StoreSettings, question: Question, request: RawRequest
) -> Operation | Problem | Reply:
    if store.dialect == "rows":
        path, query = request.path.decode("ascii"), request.query.decode("ascii")
        return _rows_operation(store, question, path, query)
    dialect: Dialect
    if isinstance(store, HttpSettings):
        dialect = OriginDialect(store.name, store.mount or "", None)
    elif store.dialect == "http":
        dialect = HttpDialect(store.name, store.mount or "", None)
    else:
        dialect = S3Dialect(store.name, None)
    parsed = asyncio.run(dialect.parse(request))
    return parsed.operation if isinstance(parsed, Parsed) else parsed


def _rows_operation(
    store: StoreSettings, question: Question, path: str, query: str
) -> Operation | Problem:
    """Understand a request for rows without its database."""
    fence = fence_fields(question.header())
    if isinstance(fence, Problem):
        return fence
    table, _, key = path.removeprefix(store.mount or "").removeprefix("/").partition("/")
    tables = getattr(store, "tables", {})
    if table not in tables:
        hint = nearest(table, tables)
        return Problem(Code.NOT_FOUND, f'the policy names no table "{table}"', hint=hint)
    if not key and question.method != "POST":
        pinned = [value for name, value in parse_qsl(query) if value.startswith("eq.")]
        key = ",".join(quote(value.removeprefix("eq."), safe="") for value in pinned)
    kind = _ROW_KINDS.get(question.method)
    if kind is None:
        text = f"{question.method} is not a method of rows; {', '.join(_ROW_KINDS)} are"
        return Problem(Code.METHOD_NOT_ALLOWED, text)
    resource = Resource(store.name, f"{table}/{key}" if key else table, exact=bool(key))
    route = f"{store.mount}/{resource.path}"
    # A decision does not look at the action, only at what kind it is of.
    action: InsertRows | DeleteRows | SelectRows
    if question.method == "POST":
        action = InsertRows(table, ())
    else:
        action = DeleteRows(table, ()) if kind.mutates else SelectRows(table)
    return Operation(resource, route, kind, question.method, action, *fence[:2])
