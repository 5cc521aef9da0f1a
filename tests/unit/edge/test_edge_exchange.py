"""One exchange: what leaves on the wire, and what ends the connection."""

import asyncio
from typing import Any

import pytest

from gateway.edge.body import PROBLEM_KEY
from gateway.edge.exchange import ClientGone, Exchange
from gateway.model.problem import Code, Problem


class Wire:
    """A connection and its transport in one: what was written, whether it was aborted."""

    def __init__(self) -> None:
        self.transport: Any = self
        self.flow: Any = self
        self.written: list[bytes] = []
        self.aborted = False
        self.done = 0
        self.write_paused = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def default_fields(self) -> list[tuple[bytes, bytes]]:
        return [(b"date", b"today")]

    def exchange_done(self, exchange: Exchange) -> None:
        self.done += 1


def exchange(
    wire: Wire,
    *,
    method: str = "PUT",
    version: str = "1.1",
    ended: bool = True,
    awaits_continue: bool = False,
) -> Exchange:
    scope = {"method": method, "http_version": version}
    made = Exchange(wire, scope, keep_alive=version == "1.1", awaits_continue=awaits_continue)
    if ended:
        made.end()
    return made


def start(status: int = 200, *fields: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(fields)}


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


TWO = (b"content-length", b"2")


async def test_a_whole_answer_leaves_at_once() -> None:
    """Head and body in one write."""
    wire = Wire()
    one = exchange(wire)
    await one.send(start(200, TWO))
    assert wire.written == []
    await one.send(part(b"ab"))
    assert wire.written == [b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 2\r\n\r\nab"]
    assert (one.keep_alive, wire.done) == (True, 1)


async def test_a_body_of_unknown_length() -> None:
    """Chunks in 1.1; in 1.0 the end of the connection is the end of the body."""
    wire, old = Wire(), Wire()
    for one in (exchange(wire), exchange(old, version="1.0")):
        await one.send(start())
        await one.send(part(b"ab", more=True))
        await one.send(part(b"", more=True))
        await one.send(part(b"c"))
    assert b"".join(wire.written).endswith(
        b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    )
    assert b"".join(old.written).endswith(b"connection: close\r\n\r\nabc")
    assert b"chunked" not in b"".join(old.written)


@pytest.mark.parametrize("ended, awaits", [(False, False), (True, True)])
async def test_an_answer_that_overtakes_the_body_closes(ended: bool, awaits: bool) -> None:
    """The body has not all come, or the client still waits for 100: Connection: close."""
    wire = Wire()
    one = exchange(wire, ended=ended, awaits_continue=awaits)
    await one.send(start(412, TWO))
    await one.send(part(b"ab"))
    assert b"connection: close\r\n" in wire.written[0]
    assert not one.keep_alive


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nb", b"a\rb", b"a\0b"])
async def test_a_field_cannot_split_the_answer(value: bytes) -> None:
    """Whatever a store gave back: such an answer is not sent."""
    for field in ((b"etag", value), (value, b"a")):
        wire = Wire()
        with pytest.raises(RuntimeError, match="split"):
            await exchange(wire).send(start(200, field))
        assert wire.written == []


@pytest.mark.parametrize("parts", [[b"a"], [b"abc"], [b"a", b"bc"]])
async def test_another_length_than_announced_breaks_off(parts: list[bytes]) -> None:
    """The connection is aborted: a client never takes such a body for whole."""
    wire = Wire()

    async def app(_: Any, receive: Any, send: Any) -> None:
        del receive
        await send(start(200, TWO))
        for piece in parts[:-1]:
            await send(part(piece, more=True))
        await send(part(parts[-1]))

    await exchange(wire).run(app)
    assert wire.aborted


@pytest.mark.parametrize("told", [False, True])
async def test_an_app_that_gives_up_breaks_off(told: bool) -> None:
    """With or without an error: nothing that was half sent ends cleanly."""
    wire = Wire()

    async def app(_: Any, receive: Any, send: Any) -> None:
        del receive
        await send(start(200, TWO))
        if told:
            raise RuntimeError("planted")

    await exchange(wire).run(app)
    assert wire.aborted


async def test_order_is_kept() -> None:
    """A body before a start, a second start, anything behind the end: an error of ours."""
    one = exchange(Wire())
    with pytest.raises(RuntimeError, match="order"):
        await one.send(part(b""))
    await one.send(start(204))
    with pytest.raises(RuntimeError, match="order"):
        await one.send(start(204))
    await one.send(part(b""))
    with pytest.raises(RuntimeError, match="order"):
        await one.send(part(b""))


async def test_nobody_there() -> None:
    """Sending to a client that has gone tells so, and runs quietly to its end."""
    wire = Wire()
    one = exchange(wire)
    one.lose()
    with pytest.raises(ClientGone):
        await one.send(start())
    await one.run(lambda scope, receive, send: send(start()))
    assert not wire.aborted


async def test_pieces_arrive_in_order_and_end() -> None:
    """Pieces that came before they were asked for come as one; the end comes with the last."""
    one = exchange(Wire(), ended=False)
    one.feed(b"ab")
    one.feed(b"cd")
    assert await one.receive() == {"type": "http.request", "body": b"abcd", "more_body": True}
    waiting = asyncio.ensure_future(one.receive())
    await asyncio.sleep(0)
    one.end()
    assert await waiting == {"type": "http.request", "body": b"", "more_body": False}


async def test_a_complete_body_outlives_its_client() -> None:
    """What has arrived whole is a valid request, although nobody waits for the answer."""
    one = exchange(Wire(), ended=False)
    one.feed(b"ab")
    one.end()
    one.lose()
    assert (await one.receive())["body"] == b"ab"
    assert (await one.receive())["type"] == "http.disconnect"


async def test_what_is_wrong_is_told() -> None:
    """A body that turned out malformed is a disconnect with the reason; its pieces are dropped."""
    one = exchange(Wire(), ended=False)
    one.feed(b"ab")
    problem = Problem(Code.REQUEST_MALFORMED, "a trailer")
    one.fail(problem)
    message = await one.receive()
    assert (message["type"], message[PROBLEM_KEY]) == ("http.disconnect", problem)


async def test_continue_is_sent_once_and_first() -> None:
    """With the first read, never with the second."""
    wire = Wire()
    one = exchange(wire, ended=False, awaits_continue=True)
    one.feed(b"ab")
    await one.receive()
    one.end()
    await one.receive()
    assert wire.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
