"""The fencing token and the holder id, as parsed from a request (wire contract, "Requests")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

Token = NewType("Token", int)
"""An integer 1 … 2^63-1, issued once per acquisition of a lease, rising per scope."""

Holder = NewType("Holder", str)
"""Who holds a lease: one id per acquisition, 1-128 visible ASCII characters."""

MAX_TOKEN: Final = 2**63 - 1


class SignedToken(int):
    """A token that came with a signature, not yet judged; as a number, it is like any other."""

    proof: bytes

    def __new__(cls, number: int, proof: bytes) -> SignedToken:
        """The number, and the text behind its dot."""
        made = super().__new__(cls, number)
        made.proof = proof
        return made


# Compared as bytes and with fullmatch: `int()` and `\d` accept other scripts' digits, signs,
# underscores and blanks, and `$` matches before a final newline.
_TOKEN: Final = re.compile(rb"([1-9][0-9]{0,18})(?:\.([A-Za-z0-9_-]{22,256}))?")
_HOLDER: Final = re.compile(rb"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, slots=True)
class Malformed:
    """A token or holder field that is not of the contract's form; `why` tells what to change."""

    why: str


def parse_token(fields: list[bytes]) -> Token | Malformed | None:
    """Turn all `X-Fence-Token` fields of one request into a token.

    Returns None when there is no field. More than one field, or anything but ASCII digits of a
    number 1 … 2^63-1 without leading zero (and, in the signed form, a signature), is `Malformed`,
    never "missing".
    """
    if not fields:
        return None
    if len(fields) > 1:
        return Malformed("X-Fence-Token was sent more than once; send exactly one field")
    found = _TOKEN.fullmatch(fields[0])
    if found is None:
        return Malformed(
            "X-Fence-Token must be ASCII digits only: no sign, blank, list or leading zero; in the"
            " signed form a dot and the base64url signature follow"
        )
    number = int(found[1])
    if number > MAX_TOKEN:
        return Malformed("X-Fence-Token is larger than 2^63-1")
    return Token(number if found[2] is None else SignedToken(number, found[2]))


def parse_holder(fields: list[bytes]) -> Holder | Malformed | None:
    """Turn all `X-Fence-Holder` fields of one request into a holder id, or None without one."""
    if not fields:
        return None
    if len(fields) > 1:
        return Malformed("X-Fence-Holder was sent more than once; send at most one field")
    if not _HOLDER.fullmatch(fields[0]):
        return Malformed("X-Fence-Holder must be 1 to 128 visible ASCII characters")
    return Holder(fields[0].decode("ascii"))
