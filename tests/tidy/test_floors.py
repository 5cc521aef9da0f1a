"""Floors: below these releases a known hole is open, or what we rest on was never tested.

A scanner that finds nothing proves little: it may not have the advisories of the index at hand. The
table names them, with the release that closes each.
"""

import re
from importlib.metadata import version
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.tidy.locks import REQUIREMENTS, project_dependencies, read_lock


class Advisory(NamedTuple):
    """A hole: the release that closes it, its ids ("" for what is no hole), what it was."""

    fixed_in: str
    ids: str
    what: str


DIRECT: dict[str, list[Advisory]] = {
    "aiohttp": [
        Advisory("3.13.4", "CVE-2026-34525", "two Host fields were accepted"),
        Advisory(
            "3.13.4", "CVE-2026-22815 GHSA-w2fm-2cpv-w7v5", "trailers took memory without bound"
        ),
        Advisory("3.13.3", "CVE-2025-69229", "many small chunks blocked the loop"),
        Advisory("3.8.6", "CVE-2023-47627", "Content-Length was read like a Python number"),
    ],
    "cryptography": [
        Advisory(
            "46.0.5", "CVE-2026-26007 GHSA-r6ph-v2qm-q3c2", "points outside the curve's subgroup"
        ),
        Advisory("44.0.1", "CVE-2024-12797 GHSA-79v4-65xg-pq4g", "OpenSSL in the wheels"),
    ],
    "fastapi": [
        Advisory("0.109.1", "CVE-2024-24762 GHSA-qf9m-vfgh-m389", "a form's type blocked the loop"),
    ],
    "h11": [
        Advisory("0.16.0", "CVE-2025-43859 GHSA-vqfr-h8mv-ghfj", "a chunk's end was not checked"),
    ],
    "httptools": [Advisory("0.9.0", "", "the must-reject messages were tested with it")],
    "httpx": [
        Advisory("0.28.1", "", "tested with it"),
        Advisory("0.23.0", "CVE-2021-41945 GHSA-h8pj-cxx2-jfg2", "URLs were built wrongly"),
    ],
    "pydantic": [
        Advisory("2.4.0", "CVE-2024-3772 GHSA-mr82-8j83-vxmv", "a slow expression for addresses"),
    ],
    "pyjwt": [
        Advisory(
            "2.13.0",
            "CVE-2026-48523 GHSA-jq35-7prp-9v3f",
            "with a key of a JWKS the list of allowed algorithms was passed by",
        ),
        Advisory("2.13.0", "CVE-2026-48524", "unknown key ids emptied the cache of a JWKS"),
        Advisory("2.12.0", "CVE-2026-32597", "critical header parameters were ignored"),
        Advisory("2.10.1", "CVE-2024-53861 GHSA-75c5-xw7c-p5pm", "a part of the issuer matched"),
    ],
    "redis": [
        Advisory(
            "4.5.4",
            "CVE-2023-28859 GHSA-8fww-64cx-x8p5",
            "a cancelled command left its answer to the next one",
        ),
    ],
    "starlette": [
        Advisory(
            "1.3.0", "CVE-2026-54282 GHSA-jp82-jpqv-5vv3", "a target without a slash made the host"
        ),
        Advisory(
            "1.0.1", "CVE-2026-48710 GHSA-86qp-5c8j-p5mr", "the Host field made a part of the path"
        ),
        Advisory("0.49.1", "CVE-2025-62727 GHSA-7f5h-v6xp-fcq8", "slow parsing of Range"),
        Advisory("0.40.0", "CVE-2024-47874 GHSA-f96h-pmfr-66vw", "a form took memory"),
    ],
    "uvicorn": [
        Advisory("0.54.0", "", "the strict protocol class rests on its internals"),
        Advisory("0.11.7", "CVE-2020-7694", "the access log took control characters"),
        Advisory("0.11.7", "CVE-2020-7695", "the answer's head could be split"),
    ],
}
"""What pyproject.toml names."""

TRANSITIVE: dict[str, list[Advisory]] = {
    "certifi": [Advisory("2024.7.4", "CVE-2024-39689 GHSA-248v-346w-9cwc", "a withdrawn root")],
    "idna": [
        Advisory("3.15", "CVE-2026-45409", "long names took long"),
        Advisory("3.7", "CVE-2024-3651", "long names took long"),
    ],
    "urllib3": [
        Advisory("2.7.0", "CVE-2026-44431 CVE-2026-44432", "two holes, closed together"),
        Advisory("2.6.3", "CVE-2026-21441 GHSA-38jv-5279-wg99", "decompression before a redirect"),
    ],
}
"""What those bring along: the lock holds them, which is what an installation takes."""

ALL = DIRECT | TRANSITIVE
_IDS = re.compile(
    r"(CVE-\d{4}-\d{4,}|GHSA(-[23456789cfghjmpqrvwx]{4}){3})"
    r"( (CVE-\d{4}-\d{4,}|GHSA(-[23456789cfghjmpqrvwx]{4}){3}))*"
)


def floor_of(package: str) -> Version:
    """The release from which on every listed hole is closed."""
    return max(Version(advisory.fixed_in) for advisory in ALL[package])


def below(package: str, found: str) -> list[Advisory]:
    """The holes that are open in a release."""
    return [a for a in ALL[package] if Version(found) < Version(a.fixed_in)]


@pytest.mark.parametrize("package", ALL)
def test_what_is_installed_is_not_below_its_floor(package: str) -> None:
    """The environment that the tests run in keeps the floor."""
    assert below(package, version(package)) == []


@pytest.mark.parametrize("package", DIRECT)
def test_the_project_demands_its_floors(package: str) -> None:
    """An environment without the lock keeps the floor as well: no release below it satisfies us."""
    demanded = {r.name: r for r in map(Requirement, project_dependencies())}
    lower = [Version(s.version) for s in demanded[package].specifier if s.operator == ">="]
    assert lower
    assert max(lower) >= floor_of(package)


@pytest.mark.parametrize("lock", ["run.txt", "dev.txt"])
@pytest.mark.parametrize("package", ALL)
def test_the_locks_keep_the_floors(package: str, lock: str) -> None:
    """What an image or an environment is built from has no listed hole."""
    pins = {p.name: p.version for p in read_lock((REQUIREMENTS / lock).read_text())[0]}
    assert below(package, pins[package]) == []


def test_every_advisory_is_named_by_its_id() -> None:
    """A reader can look each one up: ids are CVE or GHSA numbers, and none stands twice."""
    named = [a.ids for advisories in ALL.values() for a in advisories if a.ids]
    assert [ids for ids in named if not _IDS.fullmatch(ids)] == []
    single = " ".join(named).split()
    assert len(single) == len(set(single))


def test_a_release_with_a_hole_is_found() -> None:
    """The comparison can fail: the release before a floor has exactly the holes closed by it."""
    assert [a.ids.split()[0] for a in below("starlette", "1.2.9")] == ["CVE-2026-54282"]
    assert below("starlette", "1.3.0") == []
    assert len(below("pyjwt", "2.10.0")) == len(DIRECT["pyjwt"])


def test_dependencies_have_floors_and_no_caps() -> None:
    """A cap would keep users from a security release; the lock pins what was tested."""
    for requirement in map(Requirement, project_dependencies()):
        assert {s.operator for s in requirement.specifier} == {">="}, str(requirement)
