"""Laws of the scopes that keys list: one that no request can have is told, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gateway.policy.load import loads
from gateway.policy.strict import doubts

POLICY = """
[[auth.keys]]
id = "team"
secret = "0123456789"
stores = {stores}
scopes = [
  "reports/us",
  {scope},
]
[stores.files]
type = "files"
root = "files"
[stores.db]
type = "sqlite"
path = "db.sqlite"
tables = {{ jobs = {{}} }}
[[rules]]
store = "files"
match = "/files/reports/{{team}}/{{rest*}}"
scope = "reports/{{team}}"
[[rules]]
store = "files"
match = "/files/trees/{{rest*}}"
scope = "trees/{{rest*}}/all"
[[rules]]
match = "/files/{{rest*}}"
[[rules]]
store = "db"
match = "/db/jobs"
scope = "jobs"
"""


def told(scope: str, stores: tuple[str, ...] = ("files", "db")) -> list[str]:
    """What is doubtful in a policy whose key lists a scope."""
    text = POLICY.format(stores=json.dumps(stores), scope=json.dumps(scope))
    return list(doubts(loads(text, name="p.toml")))


@pytest.mark.parametrize(
    "scope",
    [
        "reports/eu",
        "reports/{team}",
        "reports/{rest*}",
        "{all*}",
        "reports/e{x}",
        "{kind}/eu",
        "trees/a/b/all",
        "trees/{rest*}",
        "trees/{x}/{y}/all",
        "files:{rest*}",
        "files:a/b",
        "{store}:{rest*}",
        "jobs",
        "reports/%C3%A4",
        "long~sha256-" + "0" * 64,
    ],
)
def test_a_scope_that_a_request_can_have_is_not_told(scope: str) -> None:
    """Literal names, captures and rests are all compared as texts with gaps."""
    assert told(scope) == []


@pytest.mark.parametrize(
    "scope, hint",
    [
        ("reports/eu/{rest*}", "did you mean reports/eu?"),
        ("reports/{team}/{rest*}", "did you mean reports/{team}?"),
        ("reports", "did you mean reports/{rest*}?"),
        ("report/eu", "did you mean reports/{team}?"),
        ("reports/my team", "did you mean reports/{team}?"),
        ("trees/{x}", "did you mean trees/{x}/{rest*}?"),
        ("job", "did you mean jobs?"),
        ("db:jobs/1", "jobs"),
        ("xyz", "scopes are files:{path*}, jobs, reports/{team}, trees/{rest*}/all"),
    ],
)
def test_a_scope_that_no_request_can_have_is_told(scope: str, hint: str) -> None:
    """By file, line and key, with the nearest that there is; a table with one scope has no rows."""
    (line,) = told(scope)
    assert line.startswith("p.toml:8: auth.keys[0].scopes[1]: no request has a scope that")
    assert f'"{scope}"' in line
    assert hint in line


def test_a_scope_of_a_store_that_the_key_lacks_is_told() -> None:
    """A key that does not reach a store has no use for the store's scopes."""
    (line,) = told("jobs", ("files",))
    assert "scopes are files:{path*}" in line


def test_the_documented_key_covers_the_shipped_rule() -> None:
    """The scope in the how-to is one that the rule of the shipped policies gives."""
    root = Path(__file__).parents[3]
    scopes = re.findall(r"--scope '?([^' ]+)", (root / "docs/how-to/access.md").read_text())
    rules = (root / "policies/quickstart.toml").read_text()
    assert scopes
    assert 'scope = "reports/{team}"' in rules
    assert [told(scope) for scope in scopes] == [[]] * len(scopes)
