"""What an origin's status says about a mutation: three answers, never two. Pure.

Source: RFC 9110, section 15. A status of class 4 says that the request was not carried out; one of
class 5 does not say that, and 202 says that it is still to come. A redirect can stand for both:
after 307 and 308 the request is to be repeated elsewhere, after the others it may have had its
effect.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

_REPEAT_ELSEWHERE: Final = frozenset({307, 308})
_STILL_TO_COME: Final = 202
_NOT_IMPLEMENTED: Final = 501
_TIMED_OUT: Final = 408


class Verdict(Enum):
    """How a mutation ended."""

    APPLIED = auto()
    REFUSED = auto()
    CONDITION = auto()  # refused, and the condition that it carried may be why
    UNKNOWN = auto()
    REDIRECTED = auto()  # certainly not applied, and the answer is not passed on
    ASTRAY = auto()  # a redirect that may have come after the effect


def verdict(status: int, *, early: bool, cut: bool, conditional: bool) -> Verdict:
    """Judge an answer.

    `early`: it came before the gate, `cut`: behind it, but before the origin had the whole request.
    """
    if status < 300:
        incomplete = early or cut or status == _STILL_TO_COME
        return Verdict.UNKNOWN if incomplete else Verdict.APPLIED
    if status < 400:
        certain = early or status in _REPEAT_ELSEWHERE
        return Verdict.REDIRECTED if certain else Verdict.ASTRAY
    if conditional and status in {404, 409, 412}:
        return Verdict.CONDITION
    if early or (status < 500 and status != _TIMED_OUT) or status == _NOT_IMPLEMENTED:
        return Verdict.REFUSED
    return Verdict.UNKNOWN
