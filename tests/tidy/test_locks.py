"""The locks: complete, hashed, the same everywhere, and silent about registries."""

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.locks import REQUIREMENTS, Pin, project_dependencies, read_lock

LOCKS = ["build.txt", "run.txt", "dev.txt", "fuzz.txt"]


def pins(name: str) -> dict[str, Pin]:
    found, _ = read_lock((REQUIREMENTS / name).read_text())
    return {pin.name: pin for pin in found}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_hashed_pins_alone(name: str) -> None:
    """No option, no address, no path, and each pin has at least one hash."""
    found, strange = read_lock((REQUIREMENTS / name).read_text())
    assert strange == []
    assert found
    assert [pin.name for pin in found if not pin.hashes] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_fits_every_supported_python(name: str) -> None:
    """No pin is bound by a marker to the version that the lock was resolved on."""
    assert [pin.name for pin in pins(name).values() if pin.marker] == []


def test_tests_run_on_what_users_run_on() -> None:
    """The development lock holds every pin of the run lock, unchanged."""
    run, dev = pins("run.txt"), pins("dev.txt")
    assert {name: dev.get(name) for name in run} == run


@pytest.mark.parametrize(
    "name, extras",
    [("run.txt", ()), ("dev.txt", ("otel", "mariadb", "test", "dev"))],
    ids=["run", "dev"],
)
def test_the_lock_answers_pyproject(name: str, extras: tuple[str, ...]) -> None:
    """Every dependency of pyproject.toml is locked, at a release that it allows: make lock."""
    locked = pins(name)
    for requirement in map(Requirement, project_dependencies(*extras)):
        pin = locked.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement} is not locked"
        assert requirement.specifier.contains(pin.version, prereleases=True), str(requirement)


def unlocked(
    requirements: Iterable[str], locked: Iterable[str], python_full_version: str
) -> list[str]:
    """The requirements that hold on that Python and that the lock has no pin for."""
    environment = {
        "python_full_version": python_full_version,
        "python_version": ".".join(python_full_version.split(".")[:2]),
        "extra": "",
    }
    return [
        text
        for text in requirements
        for wanted in [Requirement(text)]
        if wanted.marker is None or wanted.marker.evaluate(environment)
        if canonicalize_name(wanted.name) not in locked
    ]


@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.12.0", "3.13.0"])
def test_the_lock_holds_what_every_supported_python_asks_for(python: str) -> None:
    """What a library wants on an older patch release is there, whichever the lock was made on."""
    locked = pins("run.txt")
    for name in locked:
        try:
            wanted = requires(name) or []
        except PackageNotFoundError:  # installed on other systems alone
            continue
        assert unlocked(wanted, locked, python) == [], name


def test_a_requirement_of_an_older_patch_release_is_caught() -> None:
    """The law above sees a dependency that only another patch release has."""
    wanted = ['async-timeout>=4.0.3; python_full_version < "3.11.3"', 'x; extra == "y"']
    assert unlocked(wanted, {"redis"}, "3.11.2") == wanted[:1]
    assert unlocked(wanted, {"redis"}, "3.11.7") == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url mirror",
        "--find-links ./wheels",
        "h11 @ file:///tmp/h11.whl",
        "h11>=0.16",
        "-e .",
    ],
)
def test_a_line_that_is_no_pin_is_caught(line: str) -> None:
    """The reader does not skip what it does not know: each such line would show."""
    _, strange = read_lock(f"# comment\nh11==0.16.0 \\\n    --hash=sha256:{'0' * 64}\n{line}\n")
    assert strange == [line]


def test_a_pin_without_hash_or_with_marker_is_caught() -> None:
    """The reader reports what the laws above look for."""
    found, _ = read_lock('h11==0.16.0\nh2==4.4.1 ; python_version < "3.12"\n')
    assert [pin.hashes for pin in found] == [(), ()]
    assert [pin.marker for pin in found] == ["", 'python_version < "3.12"']


def test_debian_packages_are_listed_with_their_reason() -> None:
    """Each package of the extra lane says what needs it."""
    lines = (Path(REQUIREMENTS) / "debian.txt").read_text().splitlines()
    for line in lines:
        assert not line or re.match(r"^(# .+|[a-z0-9.+-]+ +# .+)$", line), line
