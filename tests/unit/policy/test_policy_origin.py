"""Laws of an `http` store's settings, and of what its rules decide."""

from __future__ import annotations

import pytest

from gateway.model.operation import Kind, Operation
from gateway.model.origin_request import OriginRequest
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.policy.decide import Decider
from gateway.policy.document import HttpSettings
from gateway.policy.load import PolicyError, loads

SECRET = "Basic hidden-secret"
GOOD = '[stores.couch]\ntype = "http"\nendpoint = "http://127.0.0.1:5984"\n'


def mistakes(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        loads(text, name="p.toml", environ={"COUCH": SECRET})
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_defaults() -> None:
    """A generic origin is trusted with nothing: no conditions, mounted under the store's name."""
    store = loads(GOOD, name="p.toml", environ={}).stores["couch"]
    assert isinstance(store, HttpSettings)
    assert (store.mount, store.conditions, store.settle_ms) == ("/couch", "none", 10_000)
    assert (store.authorization, store.probe_path) == (None, None)


@pytest.mark.parametrize(
    "text, told",
    [
        (
            GOOD.replace("endpoint", "endpont"),
            "p.toml:3: stores.couch.endpont: there is no such key here (did you mean endpoint?)",
        ),
        (
            GOOD.replace("http://", "ftp://"),
            "p.toml:3: stores.couch.endpoint: expected address of the origin",
        ),
        (GOOD.replace(":5984", "/a?b=c"), "p.toml:3: stores.couch.endpoint: expected address"),
        (GOOD.replace(":5984", "/a/../b"), "p.toml:3: stores.couch.endpoint: the path of an"),
        (GOOD.replace(":5984", ":99999"), "p.toml:3: stores.couch.endpoint: its port must be"),
        (
            GOOD + 'conditions = "etags"\n',
            'p.toml:4: stores.couch.conditions: expected "etag" or "none", found "etags" '
            "(did you mean etag?)",
        ),
        (
            GOOD + 'probe_path = "/probe"\n',
            "p.toml:4: stores.couch.probe_path: there is nothing to prove",
        ),
        (
            GOOD + 'conditions = "etag"\nprobe_path = "probe"\n',
            "p.toml:5: stores.couch.probe_path: expected path below endpoint",
        ),
        (GOOD + 'authorization = "${COUCH}\\n"\n', "p.toml:4: stores.couch.authorization"),
        (
            GOOD + '[stores.b]\ntype = "http"\nendpoint = "http://127.0.0.1:5984/db"\n',
            "p.toml:6: stores.b.endpoint: reaches what store couch reaches",
        ),
        (GOOD + 'listen = "127.0.0.1:1"\n', "stores.couch.listen: there is no such key here"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_where_and_what(text: str, told: str) -> None:
    """File, line, key, and the nearest valid name; never a secret."""
    assert told in mistakes(text)


RULES = (
    GOOD
    + """
[[rules]]
match = "/couch/orders/{customer}/{rest*}"
scope = "orders/{customer}"

[[rules]]
match = "/couch/logs/{rest*}"
scope = "logs/{rest}"

[[rules]]
match = "/couch/tmp/{rest*}"
mode = "off"
"""
)


@pytest.mark.parametrize(
    "route, answer",
    [
        ("/couch/orders/acme/", "orders/acme"),
        ("/couch/orders/acme/2026/", "orders/acme"),
        ("/couch/orders/", "fence_scope_undetermined"),
        ("/couch/logs/", "fence_scope_undetermined"),
        ("/couch/other/", "fence_scope_undetermined"),
        ("/couch/", "fence_scope_undetermined"),
        ("/couch/tmp/", None),
    ],
)
def test_a_deleted_tree_has_one_scope_or_none(route: str, answer: str | None) -> None:
    """DELETE of a collection passes only where one rule gives all below it one scope."""
    policy = loads(RULES, name="p.toml", environ={})
    operation = Operation(
        Resource("couch", route.removeprefix("/couch/"), exact=False),
        route,
        Kind.DELETE,
        "DELETE",
        OriginRequest("DELETE", b"/", b""),
        Token(2),
    )
    decided = Decider.compile(policy).decide(operation)
    assert (decided.code if isinstance(decided, Problem) else decided.scope) == answer


def test_a_path_may_end_in_a_slash() -> None:
    """A seal of such a path, or of the origin's root, is no misspelling; others stay one."""
    decider = Decider.compile(loads(GOOD, name="p.toml", environ={}))
    for path in ("db/", "", "db/a"):
        assert decider.meets(f"couch:{path}") == {"couch"}  # type: ignore[arg-type]
    for path in ("db//", "a//b", ".."):
        assert not decider.meets(f"couch:{path}")  # type: ignore[arg-type]


def test_a_rule_that_ends_above_a_tree_says_nothing_of_it() -> None:
    """A rule of too few segments is passed over; one that could match below it is not."""
    above = '[[rules]]\nmatch = "/couch/{db}"\nscope = "{db}"\n'
    below = '[[rules]]\nmatch = "/couch/{db}/_security"\nscope = "admin"\n'
    rest = '[[rules]]\nmatch = "/couch/{db}/{rest*}"\nscope = "{db}"\n'
    for rules, answer in ((above + rest, "a"), (below + rest, "fence_scope_undetermined")):
        policy = loads(GOOD + rules, name="p.toml", environ={})
        action = OriginRequest("DELETE", b"/a/", b"")
        resource = Resource("couch", "a/", exact=False)
        operation = Operation(resource, "/couch/a/", Kind.DELETE, "DELETE", action, Token(2))
        decided = Decider.compile(policy).decide(operation)
        assert (decided.code if isinstance(decided, Problem) else decided.scope) == answer
