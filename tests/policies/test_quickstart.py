"""The decision table of policies/quickstart.toml: what the two commands serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.object_action import DeleteObject, GetObject, ListObjects, PutObject
from gateway.model.operation import Action, Kind, Operation
from gateway.model.problem import Problem
from gateway.model.resource import Resource
from gateway.model.row_action import DeleteRows, InsertRows, SelectRows
from gateway.model.token import Token
from gateway.policy.decide import Decider
from gateway.policy.document import FilesSettings, PolicySet, SqliteSettings
from gateway.policy.load import load

QUICKSTART = Path(__file__).parents[2] / "policies" / "quickstart.toml"


@pytest.fixture(scope="module")
def policy() -> PolicySet:
    return load([QUICKSTART], environ={})


TABLE = [
    # store, method, route, exact, token -> answer
    ("files", "PUT", "/files/reports/acme/q1.txt", True, 2, "reports/acme"),
    ("files", "DELETE", "/files/reports/acme/2026/q1.txt", True, 2, "reports/acme"),
    ("files", "PUT", "/files/reports/acme/", True, 2, "reports/acme"),
    ("files", "PUT", "/files/reports/acme", True, 2, "files:reports/acme"),
    ("files", "PUT", "/files/reports/a%20b/x", True, 2, "reports/a%20b"),
    ("files", "PUT", "/files/hello.txt", True, 2, "files:hello.txt"),
    ("files", "PUT", "/files/hello.txt", True, None, "fence_token_required"),
    ("files", "GET", "/files/hello.txt", True, None, "files:hello.txt"),
    ("db", "POST", "/db/jobs", False, 2, "jobs"),
    ("db", "DELETE", "/db/jobs", False, 2, "jobs"),
    ("db", "DELETE", "/db/jobs/1", True, 2, "jobs"),
    ("db", "DELETE", "/db/jobs/1", True, None, "fence_token_required"),
    ("db", "GET", "/db/jobs", False, None, "jobs"),
    ("db", "GET", "/db/jobs/1", True, 1, "jobs"),
    ("objects", "PUT", "/demo/a/b.bin", True, 2, "objects:demo/a/b.bin"),
    ("objects", "DELETE", "/demo/reports/acme/x", True, 2, "objects:demo/reports/acme/x"),
    ("objects", "PUT", "/demo/a", True, None, "fence_token_required"),
    ("objects", "LIST", "/demo", False, None, "objects:demo"),
]

ACTIONS: dict[tuple[bool, str], tuple[Kind, Action]] = {
    (True, "PUT"): (Kind.WRITE, PutObject("", "", 0)),
    (True, "DELETE"): (Kind.DELETE, DeleteObject("", "")),
    (True, "GET"): (Kind.READ, GetObject("", "")),
    (True, "LIST"): (Kind.LIST, ListObjects("", 2)),
    (False, "POST"): (Kind.WRITE, InsertRows("jobs", ())),
    (False, "DELETE"): (Kind.DELETE, DeleteRows("jobs", ())),
    (False, "GET"): (Kind.READ, SelectRows("jobs")),
}


@pytest.mark.parametrize("store, method, route, exact, token, answer", TABLE)
def test_quickstart_decides(
    policy: PolicySet,
    store: str,
    method: str,
    route: str,
    exact: bool,
    token: int | None,
    answer: str,
) -> None:
    """Reports share a scope per team, jobs share one, everything else is its own."""
    kind, action = ACTIONS[store != "db", method]
    path = route.removeprefix(policy.stores[store].mount or "").removeprefix("/")
    number = None if token is None else Token(token)
    operation = Operation(Resource(store, path, exact), route, kind, method, action, number)
    decided = Decider.compile(policy).decide(operation)
    assert (decided.code if isinstance(decided, Problem) else decided.scope) == answer


def test_quickstart_serves_what_the_readme_tells(policy: PolicySet) -> None:
    """Addresses, places on disk, bucket and keys are those of the two commands."""
    assert str(policy.server.listen) == "127.0.0.1:8080"
    files, db, objects = (policy.stores[name] for name in ("files", "db", "objects"))
    assert isinstance(files, FilesSettings)
    assert isinstance(db, SqliteSettings)
    assert isinstance(objects, FilesSettings)
    assert (files.mount, policy.data(files.root)) == ("/files", Path("data/files"))
    assert (db.mount, policy.data(db.path)) == ("/db", Path("data/db.sqlite"))
    assert db.tables["jobs"].version_column == "version"
    assert (str(objects.listen), objects.buckets) == ("127.0.0.1:9000", ("demo",))
    assert [(key.id, key.secret) for key in policy.worker_keys("objects")] == [
        ("demo", "demo-secret")
    ]
    assert policy.worker_keys("files") == policy.worker_keys("db") == ()
