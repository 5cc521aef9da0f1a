"""Laws of the decision: one scope per operation, first match wins, tokens are demanded."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.mark import Scope
from gateway.model.object_action import DeleteObject, GetObject, PutObject
from gateway.model.operation import Kind, Operation
from gateway.model.problem import Code, Problem
from gateway.model.resource import Resource
from gateway.model.row_action import DeleteRows, SelectRows
from gateway.model.token import Token
from gateway.policy import decide as decide_module
from gateway.policy.decide import Decider, Permit
from gateway.policy.document import Mode, Reads, RuleSettings
from gateway.policy.load import loads

STORES = """
[stores.files]
type = "files"
root = "files"
[stores.lake]
type = "files"
dialect = "s3"
listen = "127.0.0.1:0"
root = "lake"
buckets = ["demo"]
[[auth.keys]]
id = "k"
secret = "long-enough"
stores = ["lake"]
[stores.db]
type = "sqlite"
path = "db.sqlite"
tables = { jobs = {}, runs = {} }
"""


def rule(**keys: str) -> str:
    return "[[rules]]\n" + "".join(f'{key} = "{value}"\n' for key, value in keys.items())


def decider(*rules: str) -> Decider:
    return Decider.compile(loads(STORES + "".join(rules)))


def put(route: str, token: int | None = 7, store: str = "files") -> Operation:
    path = route.removeprefix("/files/").removeprefix("/")
    action = PutObject("", path, 0)
    number = None if token is None else Token(token)
    return Operation(Resource(store, path), route, Kind.WRITE, "PUT", action, number)


def get(route: str, token: int | None = None, store: str = "files") -> Operation:
    path = route.removeprefix("/files/").removeprefix("/")
    number = None if token is None else Token(token)
    return Operation(Resource(store, path), route, Kind.READ, "GET", GetObject("", path), number)


def delete_rows(table: str, key: str | None, token: int | None = 7) -> Operation:
    path = table if key is None else f"{table}/{key}"
    resource = Resource("db", path, exact=key is not None)
    number = None if token is None else Token(token)
    action = DeleteRows(table, ())
    return Operation(resource, f"/db/{path}", Kind.DELETE, "DELETE", action, number)


def read_rows(table: str, key: str | None, token: int | None = None) -> Operation:
    path = table if key is None else f"{table}/{key}"
    resource = Resource("db", path, exact=key is not None)
    number = None if token is None else Token(token)
    return Operation(resource, f"/db/{path}", Kind.READ, "GET", SelectRows(table), number)


def permit(answer: Permit | Problem) -> Permit:
    assert isinstance(answer, Permit)
    return answer


def code(answer: Permit | Problem) -> Code:
    assert isinstance(answer, Problem)
    return answer.code


def test_without_a_rule_each_resource_is_its_own_scope() -> None:
    """The default scope is `{store}:{canonical resource}`, enforced, reads checked."""
    answer = permit(decider().decide(put("/files/a/b%20c")))
    assert answer == Permit("files:a/b%20c", Mode.ENFORCE, Reads.CHECK, None)


def test_a_mutation_without_token_is_told_to_bring_one() -> None:
    """Mutations need a token, reads do not."""
    assert code(decider().decide(put("/files/a", None))) is Code.TOKEN_REQUIRED
    assert permit(decider().decide(get("/files/a", None))).scope == "files:a"


def test_the_first_match_wins() -> None:
    """Rules are tried in order, whatever their shape."""
    table = decider(
        rule(match="/files/reports/open/{rest*}", mode="off"),
        rule(match="/files/reports/{team}/{rest*}", scope="reports/{team}", reads="seal"),
        rule(match="/files/{rest*}", scope="all", reads="ignore"),
    )
    off = permit(table.decide(put("/files/reports/open/x", None)))
    assert (off.scope, off.mode) == (None, Mode.OFF)
    team = permit(table.decide(put("/files/reports/acme/q1/x")))
    assert (team.scope, team.reads) == ("reports/acme", Reads.SEAL)
    assert permit(table.decide(put("/files/other"))).scope == "all"


def test_a_rule_without_scope_leaves_each_resource_its_own() -> None:
    """Such a rule changes the treatment of reads, not the scope."""
    answer = permit(decider(rule(match="/files/{x}", reads="seal")).decide(get("/files/a")))
    assert (answer.scope, answer.reads) == ("files:a", Reads.SEAL)


def test_escapes_do_not_get_around_a_rule() -> None:
    """A path that only its spelling keeps from a literal segment is still matched by it."""
    table = decider(rule(match="/files/reports/{team}", scope="reports/{team}"))
    spellings = ("/files/reports/a!", "/files/reports/a%21", "/files/%72eports/a%21")
    assert {permit(table.decide(put(route))).scope for route in spellings} == {"reports/a%21"}


def test_a_slash_within_a_segment_stays_within_it() -> None:
    """An escaped slash is part of the capture, not a boundary."""
    table = decider(rule(match="/files/{team}/{rest*}", scope="t/{team}"))
    assert permit(table.decide(put("/files/a%2Fb/c"))).scope == "t/a%2Fb"


def test_rules_of_another_store_do_not_apply() -> None:
    """A rule that names its store leaves equal paths of other stores alone."""
    table = decider(rule(store="lake", match="/demo/{key*}", scope="lake/{key*}"))
    assert permit(table.decide(put("/demo/k", store="lake"))).scope == "lake/k"
    assert permit(table.decide(put("/demo/k", store="files"))).scope == "files:demo/k"


def test_an_object_store_never_guesses_an_inexact_mutation() -> None:
    """What is not one resource has no scope there, whatever the rules say."""
    table = decider(rule(store="lake", match="/{any*}", scope="lake"))
    resource = Resource("lake", "demo", exact=False)
    many = Operation(resource, "/demo", Kind.DELETE, "POST", DeleteObject("demo", ""), Token(1))
    assert code(table.decide(many)) is Code.SCOPE_UNDETERMINED


@pytest.mark.parametrize(
    "rules, key, expected",
    [
        ([], "5", "db:jobs/5"),
        ([], None, Code.SCOPE_UNDETERMINED),
        ([rule(match="/db/jobs", scope="jobs")], "5", "jobs"),
        ([rule(match="/db/jobs", scope="jobs")], None, "jobs"),
        ([rule(match="/db/{t}", scope="t/{t}")], None, "t/jobs"),
        ([rule(match="/db/{rest*}", scope="db")], None, "db"),
        ([rule(match="/db/{rest*}", scope="db/{rest*}")], "5", "db/jobs/5"),
        ([rule(match="/db/{rest*}", scope="db/{rest*}")], None, Code.SCOPE_UNDETERMINED),
        ([rule(match="/db/jobs/{pk}", scope="j/{pk}")], "5", "j/5"),
        ([rule(match="/db/jobs/{pk}", scope="j/{pk}")], None, Code.SCOPE_UNDETERMINED),
        (
            [rule(match="/db/jobs/5", scope="five"), rule(match="/db/jobs", scope="jobs")],
            "5",
            "five",
        ),
        (
            [rule(match="/db/jobs/5", scope="five"), rule(match="/db/jobs", scope="jobs")],
            "6",
            "jobs",
        ),
        (
            [rule(match="/db/jobs/5", scope="five"), rule(match="/db/jobs", scope="jobs")],
            None,
            Code.SCOPE_UNDETERMINED,
        ),
        ([rule(match="/db/runs/5", scope="f"), rule(match="/db/jobs", scope="jobs")], None, "jobs"),
        ([rule(match="/db/jobs", mode="off")], None, None),
        ([rule(match="/db/jobs", reads="seal")], None, Code.SCOPE_UNDETERMINED),
    ],
)
def test_rows_that_are_not_known_need_one_scope_for_all(
    rules: list[str], key: str | None, expected: str | Code | None
) -> None:
    """The decision table of rows: pinned to a key, or covered as a whole, or refused."""
    answer = decider(*rules).decide(delete_rows("jobs", key))
    assert (answer.code if isinstance(answer, Problem) else answer.scope) == expected


def test_the_refusal_names_the_rule_and_the_way_out() -> None:
    """An operator reads which rule is in the way, a worker what to send instead."""
    answer = decider(rule(match="/db/jobs/{pk}", scope="j/{pk}")).decide(delete_rows("jobs", None))
    assert isinstance(answer, Problem)
    assert re.search(r"rule at policy:\d+", answer.message)
    assert answer.hint is not None
    assert "primary key" in answer.hint


def test_a_read_over_many_scopes_compares_nothing_but_never_skips_a_seal() -> None:
    """Without one scope a read has nothing to compare; where it relies on a seal it is refused."""
    free = decider(rule(match="/db/jobs/{pk}", scope="j/{pk}"))
    assert permit(free.decide(read_rows("jobs", None, 5))).scope is None
    sealing = decider(rule(match="/db/jobs/{pk}", scope="j/{pk}", reads="seal"))
    assert code(sealing.decide(read_rows("jobs", None, 5))) is Code.SCOPE_UNDETERMINED
    assert permit(sealing.decide(read_rows("jobs", None))).scope is None
    assert permit(sealing.decide(read_rows("jobs", "1", 5))).scope == "j/1"


MATCHES = (
    "/db/jobs",
    "/db/jobs/a",
    "/db/jobs/{x}",
    "/db/jobs/{x*}",
    "/db/{x}",
    "/db/{x*}",
    "/{x*}",
)
CHOICES = [
    (match, scope, mode)
    for match, scope, mode in product(MATCHES, (None, "s", "t", "u/{x}"), ("enforce", "off"))
    if scope != "u/{x}" or "{x" in match
]
ROWS = ("a", "b", "c%2Fd", "")


def compiled(rules: list[tuple[str, str | None, str]]) -> Decider:
    """Compile rules without the checks of the loader, dead ones included."""
    made = tuple(
        RuleSettings(match=match, scope=scope, mode=Mode(mode), where="here")
        for match, scope, mode in rules
    )
    return Decider.compile(replace(loads(STORES), rules=made))


def disagreement(rules: list[tuple[str, str | None, str]]) -> bool:
    """True when a mutation of unknown rows is let pass in another way than one of its rows."""
    table = compiled(rules)
    whole = table.decide(delete_rows("jobs", None))
    if isinstance(whole, Problem):
        return False
    rows = {(p.scope, p.mode) for p in (permit(table.decide(delete_rows("jobs", k))) for k in ROWS)}
    return rows != {(whole.scope, whole.mode)}


@given(st.lists(st.sampled_from(CHOICES), max_size=4))
def test_a_mutation_of_unknown_rows_has_the_scope_of_every_row_it_may_touch(
    rules: list[tuple[str, str | None, str]],
) -> None:
    """The law behind `exact`: one token is never compared in a scope that misses a row."""
    assert not disagreement(rules)


def test_skipping_rules_that_touch_single_rows_breaks_that_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A decision that looks only for a rule covering the table is caught by the law."""
    rules: list[tuple[str, str | None, str]] = [
        ("/db/jobs/a", "s", "enforce"),
        ("/db/jobs", "t", "enforce"),
    ]
    assert not disagreement(rules)

    def careless(operation: Operation, route: str, compiled_rules: tuple[object, ...]) -> object:
        for each in compiled_rules:
            found = each.table and each.table.fullmatch(route + "/")  # type: ignore[attr-defined]
            if found:
                return decide_module._permit(operation, each, found)  # type: ignore[arg-type]
        return decide_module._undetermined(operation, None)

    monkeypatch.setattr(decide_module, "_inexact", careless)
    assert disagreement(rules)


def test_the_reach_of_a_scope_is_every_store_that_can_yield_it() -> None:
    """A drain asks the stores where tickets of a scope can be open, and no fewer."""
    table = decider(
        rule(store="files", match="/files/reports/{team}/{rest*}", scope="reports/{team}"),
        rule(store="lake", match="/demo/{key*}", scope="reports/lake"),
    )
    assert table.reach("reports/acme") == {"files"}  # type: ignore[arg-type]
    assert table.reach("reports/lake") == {"files", "lake"}  # type: ignore[arg-type]
    assert table.reach("db:jobs/5") == {"db"}  # type: ignore[arg-type]
    assert table.reach("nobody") == frozenset()  # type: ignore[arg-type]
    assert table.reach("nobody:x") == frozenset()  # type: ignore[arg-type]


@given(team=st.text(min_size=500, max_size=600, alphabet="abc"))
def test_the_reach_of_a_digested_scope_is_kept(team: str) -> None:
    """A scope that was cut to length still finds its store."""
    table = decider(rule(match="/files/{team}/{rest*}", scope="t/{team}"))
    scope = permit(table.decide(put(f"/files/{team}/x"))).scope
    assert scope is not None
    assert "files" in table.reach(scope)


def test_every_combination_of_kind_token_and_mode_is_decided() -> None:
    """No operation falls through: a permit that the engine can act on, or a problem."""
    table = decider(rule(match="/files/off/{x*}", mode="off"))
    for area, token, make in product(("off", "on"), (None, 3), (put, get)):
        operation = make(f"/files/{area}/x", token)
        answer = table.decide(operation)
        if operation.kind.mutates and token is None and area == "on":
            assert code(answer) is Code.TOKEN_REQUIRED
        else:
            assert (permit(answer).scope is None) == (area == "off")


def test_a_method_that_a_rule_does_not_list_is_refused() -> None:
    """405 with Allow, before the token is looked at; GET lets HEAD through."""
    table = decider(rule(match="/files/log/{x*}", scope="log") + 'methods = ["GET", "PUT"]\n')
    assert permit(table.decide(put("/files/log/a"))).scope == "log"
    assert isinstance(table.decide(replace(get("/files/log/a"), method="HEAD")), Permit)
    delete = replace(put("/files/log/a", None), method="DELETE", kind=Kind.DELETE)
    refused = table.decide(delete)
    assert code(refused) is Code.METHOD_NOT_ALLOWED
    assert isinstance(refused, Problem)
    assert refused.allow == "GET, PUT, HEAD"
    assert isinstance(table.decide(replace(delete, route="/files/other", token=Token(1))), Permit)


def test_methods_hold_with_mode_off_too() -> None:
    """What passes unfenced can still be bounded to reads."""
    table = decider(rule(match="/files/{x*}", mode="off") + 'methods = ["GET"]\n')
    assert isinstance(table.decide(get("/files/a")), Permit)
    assert code(table.decide(put("/files/a"))) is Code.METHOD_NOT_ALLOWED


def test_rows_that_are_not_known_do_not_get_around_methods() -> None:
    """A read of a whole table meets the methods of the rule that some of its rows match."""
    table = decider(rule(match="/db/jobs/{id}") + 'methods = ["PATCH"]\n')
    assert code(table.decide(read_rows("jobs", None))) is Code.METHOD_NOT_ALLOWED
    assert isinstance(table.decide(read_rows("runs", None)), Permit)


def test_a_rule_can_let_changes_without_a_token_pass() -> None:
    """The scope stays what it is; with a token nothing changes, and malformed is never missing."""
    table = decider(
        rule(match="/files/old/{x*}", scope="old", on_missing_token="allow-and-count"),
        rule(match="/files/new/{x*}", scope="new"),
    )
    assert permit(table.decide(put("/files/old/a", None))).scope == "old"
    assert permit(table.decide(put("/files/old/a", 7))).scope == "old"
    assert code(table.decide(put("/files/new/a", None))) is Code.TOKEN_REQUIRED


def test_a_rule_bounds_how_far_a_token_may_jump() -> None:
    """The permit carries the bound to whoever claims."""
    table = decider(rule(match="/files/{x}", scope="a") + "max_jump = 10\n")
    assert permit(table.decide(put("/files/a"))).max_jump == 10
    assert permit(table.decide(put("/files/a/b"))).max_jump is None


def test_a_shadow_rule_refuses_nothing_and_says_what_it_would() -> None:
    """No token, a method it does not list: the permit carries the refusal, and the scope."""
    table = decider(
        rule(match="/files/log/{x*}", scope="log", mode="shadow") + 'methods = ["GET", "PUT"]\n'
    )
    passed = permit(table.decide(put("/files/log/a")))
    assert (passed.mode, passed.scope, passed.would_be) == (Mode.SHADOW, "log", None)
    missing = permit(table.decide(put("/files/log/a", None)))
    delete = replace(put("/files/log/a", None), method="DELETE", kind=Kind.DELETE)
    unlisted = permit(table.decide(delete))
    refused = [missing.would_be, unlisted.would_be]
    assert [p and p.code for p in refused] == [Code.TOKEN_REQUIRED, Code.METHOD_NOT_ALLOWED]
    assert permit(table.decide(get("/files/log/a"))).would_be is None


def test_a_shadow_rule_lets_rows_pass_only_where_it_has_all_of_them() -> None:
    """A table that it takes whole passes, of whatever scope; else an enforced rule could be met."""
    whole = decider(rule(match="/db/jobs", mode="shadow"))
    passed = permit(whole.decide(delete_rows("jobs", None)))
    assert (passed.mode, passed.scope) == (Mode.SHADOW, None)
    assert passed.would_be is not None
    assert passed.would_be.code is Code.SCOPE_UNDETERMINED
    part = decider(rule(match="/db/jobs/1", mode="shadow"))
    assert code(part.decide(delete_rows("jobs", None))) is Code.SCOPE_UNDETERMINED


def test_a_seal_of_a_scope_that_only_shadow_rules_have_is_a_mistake() -> None:
    """It would shut nobody out."""
    table = decider(rule(match="/files/{x}", scope="a/{x}", mode="shadow"))
    assert table.meets(Scope("a/b")) == frozenset()
    assert table.meets(Scope("files:b")) == frozenset()
    assert table.meets(Scope("files:b/c")) == {"files"}
