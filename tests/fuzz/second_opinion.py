"""h11's reading of the same bytes: another parser, by other people, from the same RFC."""

from __future__ import annotations

from dataclasses import dataclass

import h11

_MOST_BYTES = 1 << 20
_EMPTY = [("Content-Length", "0")]


@dataclass
class Reading:
    """One request as h11 understands it; `complete` once its body has ended."""

    method: bytes
    target: bytes
    version: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""
    complete: bool = False


def read(data: bytes) -> tuple[list[Reading], str | None]:
    """The requests that h11 finds, and why it stopped if it did."""
    found: list[Reading] = []
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_BYTES)
    connection.receive_data(data)
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                fields = tuple((bytes(n), bytes(v)) for n, v in event.headers)
                found.append(Reading(event.method, event.target, event.http_version, fields))
            elif isinstance(event, h11.Data):
                found[-1].body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                found[-1].complete = True
                connection.send(h11.Response(status_code=404, headers=_EMPTY))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return found, None
                connection.start_next_cycle()
            else:
                return found, None
    except h11.RemoteProtocolError as error:
        return found, str(error)
