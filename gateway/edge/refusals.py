"""What the connection refuses, as problems (wire contract, "Answers of the gateway itself")."""

from __future__ import annotations

import re
from typing import Final

import httptools

from gateway.edge.limits import EdgeLimits
from gateway.model.problem import Code, Problem

_METHOD_LINE: Final = re.compile(rb"[A-Z][A-Z-]* /")


class Refusal(Exception):
    """Raised inside a parser callback: the message is refused."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def malformed(message: str) -> Problem:
    """The request is not well-formed; `message` says what to change."""
    return Problem(Code.REQUEST_MALFORMED, message, close=True)


def head_too_large(max_bytes: int, max_fields: int) -> Problem:
    """The head is above its limits."""
    text = f"a request head has at most {max_bytes} bytes and {max_fields} fields here"
    return Problem(Code.HEAD_TOO_LARGE, text, close=True)


def head_late(limits: EdgeLimits) -> Problem:
    """The head was not complete in time."""
    text = f"the request head was not complete within {limits.head_timeout_s:g} s"
    return Problem(Code.REQUEST_TIMEOUT, text, close=True)


def cut_short() -> Problem:
    """The client ended its side of the connection within a body."""
    text = "the body ended before it was complete; nothing was written"
    return Problem(Code.REQUEST_MALFORMED, text, close=True)


def problem_of(error: Exception, data: bytes) -> Problem:
    """Why the parser stopped at this piece of input."""
    cause = error.__context__
    if isinstance(cause, Refusal):
        return cause.problem
    if isinstance(error, httptools.HttpParserInvalidMethodError) and _METHOD_LINE.match(data):
        text = "this method is not known here; OPTIONS tells which ones are"
        return Problem(Code.NOT_FENCED, text, close=True)
    return malformed(f"this is not a well-formed HTTP/1.1 request: {error}")
