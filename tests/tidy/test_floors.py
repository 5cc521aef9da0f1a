"""Floors: below these releases a known hole is open, or what we rest on was never tested."""

from importlib.metadata import version

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.tidy.locks import project_dependencies

FLOORS = {
    "h11": ("0.16.0", "a chunk's end was not checked: request smuggling"),
    "starlette": ("1.0.1", "the request's URL was built from the Host field"),
    "aiohttp": ("3.13.4", "two Host fields were accepted; trailers took memory without bound"),
    "uvicorn": ("0.54.0", "the strict protocol class rests on its internals"),
    "httptools": ("0.9.0", "the must-reject messages were tested with it"),
    "httpx": ("0.28.1", "tested with it"),
}


@pytest.mark.parametrize("package", FLOORS)
def test_what_is_installed_is_not_below_its_floor(package: str) -> None:
    """The environment that the tests run in keeps the floor."""
    floor, reason = FLOORS[package]
    assert Version(version(package)) >= Version(floor), reason


@pytest.mark.parametrize("package", FLOORS)
def test_the_project_demands_its_floors(package: str) -> None:
    """An environment without the lock keeps the floor as well: no release below it satisfies us."""
    floor, _ = FLOORS[package]
    demanded = {r.name: r for r in map(Requirement, project_dependencies())}
    lower = [Version(s.version) for s in demanded[package].specifier if s.operator == ">="]
    assert lower
    assert max(lower) >= Version(floor)


def test_dependencies_have_floors_and_no_caps() -> None:
    """A cap would keep users from a security release; the lock pins what was tested."""
    for requirement in map(Requirement, project_dependencies()):
        assert {s.operator for s in requirement.specifier} == {">="}, str(requirement)
