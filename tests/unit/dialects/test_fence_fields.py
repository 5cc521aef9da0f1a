"""The fence fields, which every dialect reads in the same way."""

from __future__ import annotations

import pytest

from gateway.dialects.fence_fields import fence_fields
from gateway.model.problem import Code, Problem

TOKEN = b"x-fence-token"
HOLDER = b"x-fence-holder"


@pytest.mark.parametrize(
    "fields, expected",
    [
        ((), (None, None)),
        (((TOKEN, b"1"),), (1, None)),
        (((TOKEN, b"9223372036854775807"), (HOLDER, b"a/b:c")), (2**63 - 1, "a/b:c")),
        (((HOLDER, b"w"), (b"x-fence-tokens", b"7")), (None, "w")),
    ],
)
def test_fields_of_the_contract_are_read(
    fields: tuple[tuple[bytes, bytes], ...], expected: tuple[int | None, str | None]
) -> None:
    """Token and holder are each optional, and nothing but their own names is looked at."""
    assert fence_fields(fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        ((TOKEN, b""),),
        ((TOKEN, b"0"),),
        ((TOKEN, b"1, 2"),),
        ((TOKEN, b" 1"),),
        ((TOKEN, b"9223372036854775808"),),
        ((TOKEN, b"1"), (TOKEN, b"2")),
        ((TOKEN, b"1"), (HOLDER, b"")),
        ((TOKEN, b"1"), (HOLDER, b"a"), (HOLDER, b"a")),
        ((TOKEN, b"1"), (HOLDER, b"\xc3\xbc")),
    ],
)
def test_anything_else_is_malformed_and_never_missing(
    fields: tuple[tuple[bytes, bytes], ...],
) -> None:
    """A field that is there but not of the form is a 400, and its value is not repeated."""
    answer = fence_fields(fields)
    assert isinstance(answer, Problem)
    assert (answer.code, answer.status) == (Code.TOKEN_MALFORMED, 400)
