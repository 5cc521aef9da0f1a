"""Laws of targets: paths that a store could take for one thing have one name."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from gateway.dialects.plain_path import PlainPath, plain_path
from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.target import Target, read_target
from gateway.edge.exchange import plain_scope
from gateway.edge.guard import GuardRules, guard
from gateway.model.problem import Problem
from gateway.stores.files.faults import Refusal
from gateway.stores.files.tree_paths import place_of

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def check_target(data: bytes) -> None:
    """`path NUL path`, below a mount and in a bucket."""
    first, _, second = data.partition(b"\0")
    paths = [path for path in (b"/" + first, b"/" + second) if passes_guard(path)]
    plain = [(path, named) for path in paths if isinstance(named := plain_path(path), PlainPath)]
    for path, named in plain:
        check_plain(path, named)
    for path, named in held(plain):
        for other, other_named in held(plain):
            if understood(path) & understood(other):
                assert named.canonical == other_named.canonical, f"{path!r} and {other!r}"
    objects = [(path, target) for path in paths if (target := s3_target(path)) is not None]
    for path, target in objects:
        check_object(path, target)
    for path, target in objects:
        for other, other_target in objects:
            same = decoded(path) == decoded(other)
            assert same == (target.canonical == other_target.canonical), f"{path!r} and {other!r}"


def passes_guard(path: bytes) -> bool:
    """Whether the edge lets a target through; a path that it refuses reaches no dialect."""
    scope = plain_scope(
        http_version="1.1",
        method="GET",
        scheme="http",
        raw_path=path,
        query_string=b"",
        headers=[(b"host", b"h")],
    )
    checked = guard(scope, GuardRules(), _none, request_id="r", arrived_s=0.0)  # type: ignore[arg-type]
    return not isinstance(checked, Problem)


def _none(_: object) -> None:
    return None


def held(plain: list[tuple[bytes, PlainPath]]) -> list[tuple[bytes, PlainPath]]:
    """Those that a plain tree can hold: it refuses a name with a slash in it (`a%2Fb`)."""
    found = []
    for path, named in plain:
        try:
            place_of(named.raw)
        except Refusal:
            continue
        assert b"%2f" not in path.lower()
        found.append((path, named))
    return found


def check_plain(path: bytes, named: PlainPath) -> None:
    """Bytes stay as they came; the name is made of the characters that scopes are made of."""
    assert b"/" + named.raw.encode("ascii") == path or (path, named.raw) == (b"/", "")
    again = plain_path(b"/" + named.raw.encode("ascii"))
    assert again == named
    assert unquote_to_bytes(named.canonical) == unquote_to_bytes(named.raw)


def understood(path: bytes) -> set[bytes]:
    """What origins may take a path for: as it is, decoded, dot segments removed, slashes merged."""
    found = set()
    for read in (path, unquote_to_bytes(path), unquote_to_bytes(path).replace(b"\\", b"/")):
        found |= {read, without_dots(read), merged(read), merged(without_dots(read))}
    return found


def without_dots(path: bytes) -> bytes:
    """RFC 3986, 5.2.4: dot segments removed."""
    kept: list[bytes] = []
    segments = path.split(b"/")[1:]
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == b"..":
            del kept[-1:]
        elif segment != b".":
            kept.append(segment)
            continue
        if last:
            kept.append(b"")
    return b"/" + b"/".join(kept)


def merged(path: bytes) -> bytes:
    """Runs of slashes as one."""
    while b"//" in path:
        path = path.replace(b"//", b"/")
    return path


def s3_target(path: bytes) -> Target | None:
    """The bucket and the key of a path, in a bucket of its own; None when it is refused."""
    try:
        return read_target(b"/bucket" + path)
    except RefusedError:
        return None


def decoded(path: bytes) -> bytes:
    """A key as S3 reads it: decoded once, byte by byte, without a library."""
    out = bytearray()
    at = 1
    while at < len(path):
        if path[at] == 0x25:
            out.append(int(path[at + 1 : at + 3], 16))
            at += 3
        else:
            out.append(path[at])
            at += 1
    return bytes(out)


def check_object(path: bytes, target: Target) -> None:
    """The key is the path decoded once, and its name holds no byte that scopes cannot have."""
    key = decoded(path)
    assert target.bucket == "bucket"
    assert target.key.encode() == key
    plain = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in key)
    assert target.canonical == (f"bucket/{plain}" if key else "bucket")
