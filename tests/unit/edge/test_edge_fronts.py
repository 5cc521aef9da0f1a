"""Who answers which path on which listener."""

from typing import Any

import pytest

from gateway.edge.fronts import Front, Listener, Listeners


async def nobody(*_: object) -> Any:
    raise AssertionError


def front(mount: bytes) -> Front:
    return Front(mount.decode() or "root", None, mount, nobody, nobody)  # type: ignore[arg-type]


FRONTS = tuple(map(front, (b"", b"/a", b"/a/b")))

PATHS = [
    (b"/", b""),
    (b"/a", b"/a"),
    (b"/a/", b"/a"),
    (b"/a/c", b"/a"),
    (b"/ab", b""),
    (b"/a/b", b"/a/b"),
    (b"/a/b/c", b"/a/b"),
    (b"/a/bc", b"/a"),
    (b"/%61/b", b""),
    (b"//a/b", b""),
    (b"/A/b", b""),
]


@pytest.mark.parametrize("path, mount", PATHS)
def test_the_longest_mount_wins(path: bytes, mount: bytes) -> None:
    """Mounts end at a slash and compare byte by byte."""
    found = Listener(("h", 1), FRONTS).find(path)
    assert isinstance(found, Front)
    assert found.mount == mount


@pytest.mark.parametrize(
    "path, control",
    [
        (b"/v1", True),
        (b"/v1/seal", True),
        (b"/metrics", True),
        (b"/healthz", True),
        (b"/readyz", True),
        (b"/v1x", False),
        (b"/metrics2", False),
    ],
)
def test_the_control_api_is_before_all_stores(path: bytes, control: bool) -> None:
    """On its listener alone; elsewhere these are paths like any other."""
    found = Listener(("h", 1), FRONTS, nobody).find(path)
    assert (found is nobody) == control
    assert isinstance(Listener(("h", 1), FRONTS).find(path), Front)


def test_nobody() -> None:
    """No mount, no answerer."""
    assert Listener(("h", 1), (front(b"/a"),)).find(b"/b") is None


def test_listeners_by_local_address() -> None:
    """The exact address first; a wildcard takes every address of its port."""
    exact, wide, six = (
        Listener(("10.0.0.1", 80), ()),
        Listener(("0.0.0.0", 90), ()),
        Listener(("::", 91), ()),
    )
    table = Listeners((exact, wide, six))
    assert table.find(("10.0.0.1", 80)) is exact
    assert table.find(("10.0.0.2", 80)) is None
    assert table.find(("192.0.2.7", 90)) is wide
    assert table.find(("::ffff:192.0.2.7", 91)) is six
