"""The fence fields of a request: X-Fence-Token and X-Fence-Holder (wire contract, "Requests").

The same in every dialect, so that "malformed" never depends on the wire language.
"""

from __future__ import annotations

from gateway.model.problem import Code, Problem
from gateway.model.token import Holder, Malformed, Token, parse_holder, parse_token
from gateway.ports.dialect import RawFields


def _values(fields: RawFields, name: bytes) -> list[bytes]:
    return [value for key, value in fields if key == name]


def fence_fields(fields: RawFields) -> tuple[Token | None, Holder | None] | Problem:
    """Read token and holder, each None when it was not sent; a malformed one is a problem."""
    token = parse_token(_values(fields, b"x-fence-token"))
    if isinstance(token, Malformed):
        return Problem(Code.TOKEN_MALFORMED, token.why)
    holder = parse_holder(_values(fields, b"x-fence-holder"))
    if isinstance(holder, Malformed):
        return Problem(Code.TOKEN_MALFORMED, holder.why)
    return token, holder
