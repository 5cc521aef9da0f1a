"""Laws of policy documents, patterns and scopes."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from gateway.model.mark import Scope
from gateway.model.object_action import GetObject
from gateway.model.operation import Kind, Operation
from gateway.model.resource import Resource
from gateway.policy.decide import Decider
from gateway.policy.document import PolicySet
from gateway.policy.load import Mistake, PolicyError, loads
from gateway.policy.pattern import (
    MAX_SCOPE_BYTES,
    Pattern,
    PatternError,
    Template,
    bounded_scope,
    normal_path,
    parse_pattern,
    parse_template,
)

ROUTES = ("/", "/files/a/b", "/objects/x/y/z", "/db/jobs", "/files//", "/files/%2F/..", "/a" * 300)


def check_policy(data: bytes) -> None:
    """A document is understood, or every mistake tells its file, and its line where it has one."""
    text = data.decode("utf-8", "replace")
    try:
        policy = loads(text, name="p.toml", environ={"HOME": "/h"})
    except PolicyError as refused:
        check_mistakes(refused.mistakes, text.count("\n") + 1)
        return
    check_decisions(policy)


def check_mistakes(mistakes: tuple[Mistake, ...], lines: int) -> None:
    """There are some, and each can be found in a file of so many lines."""
    assert mistakes
    for mistake in mistakes:
        assert mistake.place.file == "p.toml"
        assert mistake.message
        assert mistake.place.line is None or 1 <= mistake.place.line <= lines, mistake
        assert mistake.key or mistake.place.line is not None, f"neither key nor line: {mistake}"
        assert "\n" not in str(mistake), f"more than one line: {mistake}"


def check_decisions(policy: PolicySet) -> None:
    """A policy that was accepted decides on anything, and names scopes within their bound."""
    decider = Decider.compile(policy)
    for name in policy.stores:
        for route in ROUTES:
            operation = Operation(
                resource=Resource(name, route[1:]),
                route=route,
                kind=Kind.READ,
                method="GET",
                action=GetObject("", route),
                token=None,
                holder=None,
            )
            permit = decider.decide(operation)
            scope = getattr(permit, "scope", None)
            if scope is not None:
                assert len(scope.encode()) <= MAX_SCOPE_BYTES
                decider.reach(Scope(scope))
                decider.meets(Scope(scope))


def check_pattern(data: bytes) -> None:
    """`match NUL scope NUL path NUL path`: one path is one, another another."""
    match, scope, path, other = [*data.decode("latin-1").split("\0"), "", "", ""][:4]
    normal = normal_path(path)
    assert normal_path(normal) == normal
    assert normal_path(respelt(path)) == normal, "a path has one normal form in every spelling"
    assert len(bounded_scope(path).encode("utf-8", "surrogatepass")) <= MAX_SCOPE_BYTES
    try:
        pattern = parse_pattern(match)
        template = parse_template(scope, pattern)
    except PatternError:
        return
    check_scopes(pattern, template, normal, normal_path(other))


def check_scopes(pattern: Pattern, template: Template, first: str, second: str) -> None:
    """Two paths whose captures differ have different scopes, where the scope uses all of them."""
    expression = re.compile(pattern.expression(), re.DOTALL)
    found = [expression.fullmatch(path) for path in (first, second)]
    scopes = [None if f is None else template.expand(f.groups()) for f in found]
    for scope in scopes:
        if scope is not None:
            assert re.fullmatch(template.expression(), scope, re.DOTALL)
            assert len(bounded_scope(scope)) <= MAX_SCOPE_BYTES
    if None not in scopes and all(template.uses(n) for n in range(len(pattern.captures))):
        same = bounded_scope(scopes[0] or "") == bounded_scope(scopes[1] or "")
        assert same == (first == second), f"{first!r} and {second!r}: {scopes}"


def respelt(path: str) -> str:
    """The same path with every byte of its segments escaped, in lower-case hex."""
    parts = (unquote_to_bytes(part.encode("utf-8", "surrogatepass")) for part in path.split("/"))
    return "/".join("".join(f"%{byte:02x}" for byte in part) for part in parts)
