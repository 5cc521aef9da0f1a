"""The decision table of policies/container.toml: every store is covered by a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.object_action import PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.policy.decide import Decider
from gateway.policy.document import PolicySet
from gateway.policy.load import PolicyError, load

CONTAINER = Path(__file__).parents[2] / "policies" / "container.toml"
SECRET = {"FENCEGATE_WORKER_SECRET": "given-from-outside"}


@pytest.fixture(scope="module")
def policy() -> PolicySet:
    return load([CONTAINER], environ=SECRET)


@pytest.mark.parametrize(
    "store, route, token, answer",
    [
        ("files", "/files/reports/acme/q1.txt", 2, "reports/acme"),
        ("files", "/files/hello.txt", 2, "files:hello.txt"),
        ("files", "/files/hello.txt", None, "fence_token_required"),
        ("objects", "/demo/reports/acme/q1.txt", 2, "objects:demo/reports/acme/q1.txt"),
        ("objects", "/demo/k", None, "fence_token_required"),
    ],
)
def test_container_decides(
    policy: PolicySet, store: str, route: str, token: int | None, answer: str
) -> None:
    """Reports share a scope per team, everything else is its own."""
    path = route.removeprefix(policy.stores[store].mount or "").removeprefix("/")
    number = None if token is None else Token(token)
    action = PutObject("", path, 0)
    operation = Operation(Resource(store, path), route, Kind.WRITE, "PUT", action, number)
    decided = Decider.compile(policy).decide(operation)
    assert (decided.code if isinstance(decided, Problem) else decided.scope) == answer


def test_no_store_is_open(policy: PolicySet) -> None:
    """It listens beyond its machine, so each store asks for the worker's key."""
    assert not policy.server.listen.loopback
    for store in policy.stores:
        assert [key.secret for key in policy.worker_keys(store)] == ["given-from-outside"]


def test_without_its_secret_it_is_refused() -> None:
    """A container that nobody gave a secret says so instead of starting open."""
    with pytest.raises(
        PolicyError, match="the environment variable FENCEGATE_WORKER_SECRET is not"
    ):
        load([CONTAINER], environ={})
