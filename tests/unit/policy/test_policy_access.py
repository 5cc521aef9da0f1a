"""Laws of what a grant adds to a decision: what it does not cover is refused, also by default."""

from __future__ import annotations

import pytest

from gateway.model.mark import Scope
from gateway.model.object_action import DeleteObject, ListBuckets, ListObjects
from gateway.model.operation import Action, Kind, Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.scope_pattern import scope_pattern
from gateway.model.worker import Grant
from gateway.policy.access import granted
from gateway.policy.decide import Permit
from gateway.policy.document import Mode, Reads


def answer(grant: Grant | None, scope: str | None, method: str = "DELETE") -> Permit | Problem:
    operation = Operation(
        resource=Resource("files", "x"),
        route="/files/x",
        kind=Kind.DELETE,
        method=method,
        action=DeleteObject("", "x"),
        grant=grant,
    )
    permit = Permit(None if scope is None else Scope(scope), Mode.ENFORCE, Reads.CHECK, None)
    return granted(operation, permit)


@pytest.mark.parametrize(
    "pattern, covered, other",
    [
        ("reports/{team}/{rest*}", ["reports/eu/a", "reports/eu/a/b"], ["reports/eu", "x/eu/a"]),
        ("files:{rest*}", ["files:", "files:a/b"], ["file:a", "objects:a"]),
        ("jobs/{id}", ["jobs/1", "jobs/a%2Fb"], ["jobs/", "jobs/1/2", "jobs/1\n/2", "xjobs/1"]),
        ("a.b", ["a.b"], ["axb", "a.b/c"]),
        ("{tenant}-state", ["eu-state"], ["-state", "eu/x-state", "eu-state2"]),
    ],
)
def test_patterns(pattern: str, covered: list[str], other: list[str]) -> None:
    """`{x}` is some characters without a slash, `{x*}` the rest; all else is literal."""
    grant = Grant("w", scopes=(scope_pattern(pattern),))
    for scope in covered:
        assert isinstance(answer(grant, scope), Permit), scope
    for scope in other:
        refused = answer(grant, scope)
        assert isinstance(refused, Problem), scope
        assert (refused.code, refused.status) == (Code.ACCESS_DENIED, 403)


@pytest.mark.parametrize(
    "wrong", ["", "{a}{b}", "{a*}/b", "a*", "a}", "{A}", "x" * 513, "/".join("{a}" * 9)]
)
def test_a_pattern_that_cannot_be_read(wrong: str) -> None:
    """It is told, and never taken literally."""
    with pytest.raises(ValueError, match=r"expected|write|put|takes"):
        scope_pattern(wrong)


def test_limited_to_scopes_means_nothing_without_a_scope() -> None:
    """A listing or an unfenced request reaches further than any scope, so it fails closed."""
    limited = Grant("w", scopes=(scope_pattern("{x*}"),))
    refused = answer(limited, None)
    assert isinstance(refused, Problem)
    assert "limited to `scopes`" in refused.message
    assert isinstance(answer(Grant("w"), None), Permit)  # control: an unlimited one passes
    assert isinstance(answer(None, None), Permit)


@pytest.mark.parametrize(
    "action",
    [
        ListBuckets(),
        ListObjects("demo", 1),
        ListObjects("demo", 2),
        OriginRequest("PROPFIND", b"/demo", b""),
        OriginRequest("PROPFIND", b"/demo", b"", ((b"depth", b"1"),)),
        OriginRequest("PROPFIND", b"/demo", b"", ((b"depth", b"0"), (b"depth", b"1"))),
    ],
)
def test_limited_to_scopes_lists_nothing(action: Action) -> None:
    """The path that is listed may have a scope; what lies in it has scopes of its own."""
    plain = OriginRequest("PROPFIND", b"/demo", b"", ((b"depth", b"0"),))
    limited = Grant("w", scopes=(scope_pattern("{x*}"),))
    permit = Permit(Scope("objects:demo"), Mode.ENFORCE, Reads.CHECK, None)

    def asked(grant: Grant, what: Action) -> Permit | Problem:
        resource = Resource("objects", "demo")
        return granted(Operation(resource, "/demo", Kind.LIST, "GET", what, grant=grant), permit)

    refused = asked(limited, action)
    assert isinstance(refused, Problem)
    assert (refused.code, "listing" in refused.message) == (Code.ACCESS_DENIED, True)
    assert asked(Grant("w"), action) is permit  # control: a key without `scopes` lists
    assert asked(limited, plain) is permit  # control: it tells of its own path alone


def test_methods() -> None:
    """GET covers HEAD; a refusal names what is covered."""
    reader = Grant("w", methods=frozenset({"GET"}))
    assert isinstance(answer(reader, "a", "GET"), Permit)
    assert isinstance(answer(reader, "a", "HEAD"), Permit)
    refused = answer(reader, "a", "DELETE")
    assert isinstance(refused, Problem)
    assert "does not cover DELETE; its `methods`: GET" in refused.message


def test_a_refusal_stays_one() -> None:
    """A grant never turns a refused request into an admitted one."""
    problem = Problem(Code.TOKEN_REQUIRED, "no token")
    operation = Operation(
        resource=Resource("files", "x"),
        route="/files/x",
        kind=Kind.DELETE,
        method="DELETE",
        action=DeleteObject("", "x"),
        grant=Grant("w"),
    )
    assert granted(operation, problem) is problem
