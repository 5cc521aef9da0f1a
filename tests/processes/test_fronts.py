"""Pairs: a front of somebody else before the gateway. Two parsers, and one meaning.

The oracle of smuggling is a count. A request that only the gateway sees is one that it handled and
nobody was answered for: it shows as more requests in the gateway's log than answers on the wire.
"""

from __future__ import annotations

import http.client
import posixpath
import socket
from collections.abc import Callable
from itertools import count

import httpx
import pytest

from tests.conformance.edge.must_reject import MUST_REJECT, REFUSED_AS_WELL
from tests.services.fronts import FRONTS, FrontServer
from tests.services.gateway_process import GatewayProcess

pytestmark = [pytest.mark.extra, pytest.mark.timeout(240)]


POLICY = """
[server]
listen = "127.0.0.1:8080"

[registry]
type = "sqlite"

[stores.files]
type = "files"
dialect = "http"
mount = "/files"
root = "files"
"""
HOST = b"Host: h\r\n"
SMUGGLED = (
    b"PUT /files/smuggled HTTP/1.1\r\nHost: h\r\nX-Fence-Token: 9\r\nContent-Length: 1\r\n\r\nx"
)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def put(fields: bytes, body: bytes, path: bytes = b"/files/k", version: bytes = b"1.1") -> bytes:
    line = b"PUT " + path + b" HTTP/" + version + b"\r\n"
    return line + HOST + b"X-Fence-Token: 5\r\n" + fields + b"\r\n" + body


LENGTH = b"Content-Length: %d\r\n" % len(SMUGGLED)
ATTEMPTS = {
    "CL.TE": put(LENGTH + CHUNKED, b"0\r\n\r\n" + SMUGGLED),
    "TE.CL": put(CHUNKED + b"Content-Length: 4\r\n", b"64\r\n" + SMUGGLED + b"\r\n0\r\n\r\n"),
    "TE behind a vertical tab": put(LENGTH + b"Transfer-Encoding:\x0bchunked\r\n", SMUGGLED),
    "TE xchunked": put(LENGTH + b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "TE with a blank": put(LENGTH + b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "TE with an underscore": put(LENGTH + b"Transfer_Encoding: chunked\r\n", SMUGGLED),
    "TE twice": put(LENGTH + CHUNKED + b"Transfer-Encoding: x\r\n", b"0\r\n\r\n" + SMUGGLED),
    "TE folded": put(LENGTH + b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "TE in 1.0": put(CHUNKED + LENGTH, b"0\r\n\r\n" + SMUGGLED, version=b"1.0"),
    "CL twice": put(b"Content-Length: 0\r\n" + LENGTH, SMUGGLED),
    "CL list": put(b"Content-Length: 0, 0\r\n", SMUGGLED),
    "CL +": put(b"Content-Length: +0\r\n", SMUGGLED),
    "CL with an underscore": put(b"Content_Length: 0\r\n" + LENGTH, SMUGGLED),
    "Connection drops CL": put(b"Connection: Content-Length\r\n" + LENGTH, SMUGGLED),
    "Connection drops TE": put(b"Connection: Transfer-Encoding\r\n" + CHUNKED, b"0\r\n\r\n"),
    "chunk size overflows": put(CHUNKED, b"10000000000000000\r\n" + SMUGGLED),
    "chunk size 0x": put(CHUNKED, b"0x0\r\n\r\n" + SMUGGLED),
    "chunk lines end in LF": put(CHUNKED, b"0\n\n" + SMUGGLED),
    "chunk extension with LF": put(CHUNKED, b"1;a\nx\r\nb\r\n0\r\n\r\n" + SMUGGLED),
    "trailer": put(CHUNKED, b"1\r\nx\r\n0\r\nX-Fence-Token: 9\r\n\r\n"),
    "LF in a field": put(b"X-A: b\nX-Fence-Token: 9\r\nContent-Length: 0\r\n", b""),
    "CR in a field": put(b"X-A: b\rX-Fence-Token: 9\r\nContent-Length: 0\r\n", b""),
    "Upgrade h2c": put(
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
        b"Content-Length: 1\r\n",
        b"x" + SMUGGLED,
    ),
    "Upgrade websocket": put(
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\n"
        b"Content-Length: 1\r\n",
        b"x" + SMUGGLED,
    ),
    "Expect and a body": put(b"Expect: 100-continue\r\n" + LENGTH, SMUGGLED),
    "Expect of another kind": put(b"Expect: y 100-continue\r\n" + LENGTH, SMUGGLED),
    "escaped line ends in the path": put(
        b"Content-Length: 0\r\n", b"", path=b"/files/k%20HTTP/1.1%0d%0aX-Fence-Token:%209"
    ),
    "absolute target": put(b"Content-Length: 0\r\n", b"", path=b"http://other/files/k"),
}
ATTEMPTS |= {
    name: message.replace(b" /k", b" /files/k") + SMUGGLED
    for name, message in (MUST_REJECT | REFUSED_AS_WELL).items()
}
TOKENS_ONLY = {
    "two tokens": b"X-Fence-Token: 9\r\n",
    "two equal tokens": b"X-Fence-Token: 5\r\n",
    "a token with underscores": b"X_Fence_Token: 9\r\n",
    "a token with one underscore": b"X-Fence_Token: 9\r\n",
    "a token in another case": b"x-fence-TOKEN: 9\r\n",
    "a token that Connection names": b"Connection: X-Fence-Token\r\n",
    "a token that Connection names in a list": b"Connection: close, x-fence-token\r\n",
}
PATHS = [
    *("/files/plain", "/files/a%20b", "/files/a+b", "/files/a%2Bb", "/files/%C3%A9", "/files/a;b"),
    *("/files/a%2Fb", "/files/a%2fb", "/files/a//b", "/files/./x", "/files/d/../x", "/files/%2e/x"),
    *("/files/%2e%2e/x", "/files/a%5Cb", "/files/%61", "/files/a%25b", "/files/a?b=c", "//files/x"),
    *("/files/a%00b", "/files/a%0Ab", "/files/..%2fx", "/%66iles/x", "/files/a:b@c", "/files/x/"),
]
_SILENCE_S = 0.3
Start = Callable[..., GatewayProcess]


class Pair:
    """A front, and the gateway behind it."""

    def __init__(self, front: FrontServer, gateway: GatewayProcess) -> None:
        self.front = front
        self.gateway = gateway
        self.url = f"http://127.0.0.1:{front.port}"
        self._numbers = count(1)

    def put(self, path: str, token: int, body: bytes = b"x") -> httpx.Response:
        headers = {"X-Fence-Token": str(token)}
        return httpx.put(self.url + path, content=body, headers=headers, timeout=20)

    def handled(self) -> list[dict[str, object]]:
        """What the gateway has answered, health checks left out."""
        return [r for r in self.gateway.log() if r["event"] == "request"]

    def settled(self) -> int:
        """How many that is, once the answer to a request of our own is among it; not counted."""
        name = f"/files/settled-{next(self._numbers)}"
        assert httpx.put(self.gateway.url + name, headers={"X-Fence-Token": "1"}).is_success
        self.gateway.wait_for_log(lambda r: r.get("path") == name)
        return len([r for r in self.handled() if "settled" not in str(r["path"])])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.front.port), timeout=20)

    def attempt(self, message: bytes) -> bytes:
        """Send bytes, and read until the front closes or is silent."""
        with self.connect() as connection:
            connection.sendall(message)
            return heard(connection, first_s=10)


def heard(connection: socket.socket, first_s: float = 1) -> bytes:
    """What comes until the connection is closed, or silent for a while."""
    got = bytearray()
    connection.settimeout(first_s)
    try:
        while piece := connection.recv(65536):
            got += piece
            connection.settimeout(_SILENCE_S)
    except OSError:  # reset, or silence
        pass
    return bytes(got)


def answers(raw: bytes) -> int:
    """Final answers among the bytes: each begins with a status line of its own."""
    if raw and not raw.startswith(b"HTTP/1."):
        return 1  # Apache answers HTTP/0.9: a body alone, and then the end
    lines = raw.split(b"HTTP/1.")[1:]
    return sum(1 for line in lines if line[:1] in b"01" and line[2:3] in b"2345")


def resolved(path: str) -> str:
    """The path that a front may pass on instead: slashes merged, plain dot segments removed."""
    return posixpath.normpath(path.replace("//", "/"))


@pytest.fixture(params=FRONTS)
def pair(
    request: pytest.FixtureRequest,
    gateway_process: Start,
    new_front: Callable[[str, int], FrontServer],
) -> Pair:
    gateway = gateway_process(POLICY)
    port = int(gateway.url.rpartition(":")[2])
    return Pair(new_front(request.param, port), gateway)


def test_a_fence_works_through_a_front(pair: Pair) -> None:
    """Token, mark and outcome pass both ways, and a stale holder is refused."""
    assert pair.put("/files/a", 5).headers["X-Fence-Outcome"] == "applied"
    stale = pair.put("/files/a", 4)
    assert (stale.status_code, stale.headers["X-Fence-Mark"]) == (412, "5")
    assert stale.json()["code"] == "fence_token_stale"
    assert httpx.put(f"{pair.url}/files/a", content=b"x").status_code == 428


def test_no_front_and_gateway_see_different_requests(pair: Pair) -> None:
    """Whatever is sent, the gateway handles no request that the sender was not answered for."""
    for name, message in ATTEMPTS.items():
        before = pair.settled()
        with pair.connect() as connection:
            connection.sendall(message)
            raw = heard(connection)
            handled = pair.settled() - before
            if handled > answers(raw):  # it may have been late
                raw += heard(connection)
        assert handled <= answers(raw), f"{name}: {handled} handled, answered: {raw[:2000]!r}"
        mine = f"/files/victim-{abs(hash(name))}"
        body = name.encode()
        assert pair.put(mine, 1, body).is_success, f"after {name}"
        assert httpx.get(pair.url + mine).content == body, f"after {name}"


@pytest.mark.parametrize("name", TOKENS_ONLY)
def test_a_second_token_never_counts(pair: Pair, name: str) -> None:
    """A doubled, folded or dropped token is refused, or the write has the token that was meant."""
    raw = pair.attempt(put(TOKENS_ONLY[name] + b"Content-Length: 1\r\n", b"x", b"/files/t"))
    assert answers(raw) == 1
    status = int(raw.split(b" ", 2)[1])
    assert status in (200, 201, 204, 400, 428), raw
    mark = {r.get("token") for r in pair.handled() if r["outcome"] == "applied"}
    assert mark <= {5}
    assert pair.put("/files/t", 6).is_success, "a mark above 5 was learnt"


def test_a_path_arrives_as_it_was_sent(pair: Pair) -> None:
    """What the gateway names a scope after is what the client wrote, or it is refused."""
    for path in PATHS:
        before = pair.settled()
        raw = pair.attempt(put(b"Content-Length: 1\r\n", b"x", path.encode()))
        assert answers(raw) == 1, f"{path}: {raw!r}"
        pair.settled()
        seen = [r for r in pair.handled() if "settled" not in str(r["path"])][before:]
        for record in seen:
            if record["outcome"] == "applied":
                assert record["path"] in (path.partition("?")[0], resolved(path))


def test_chunked_bodies_arrive_whole(pair: Pair) -> None:
    """A body without a length is the same behind a front that frames it anew."""
    pieces = [bytes([n]) * 7001 for n in range(40)]
    headers = {"X-Fence-Token": "5"}
    sent = httpx.put(f"{pair.url}/files/c", content=iter(pieces), headers=headers, timeout=20)
    assert sent.is_success
    assert httpx.get(f"{pair.url}/files/c").content == b"".join(pieces)


def test_a_stale_holder_of_a_large_body_is_told(pair: Pair) -> None:
    """The refusal comes through while the body is still being sent, as 412 and not as 502."""
    assert pair.put("/files/big", 5).is_success
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", pair.front.port, timeout=20)
        connection.request("PUT", "/files/big", b"y" * 3_000_000, {"X-Fence-Token": "4"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("X-Fence-Mark")) == (412, "5")
        connection.close()
    assert httpx.get(f"{pair.url}/files/big").content == b"x"
