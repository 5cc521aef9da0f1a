"""The two slots of a scope's lock file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.mark import Era, Mark
from gateway.model.token import Holder
from gateway.stores.files.marks import (
    SLOT_BYTES,
    DamagedMark,
    StoredMark,
    first_text,
    read_slots,
    slot_offset,
    slot_text,
)

holders = st.none() | st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128
).map(Holder)
marks = st.builds(
    Mark, st.integers(1, 2**31).map(Era), st.integers(0, 2**63 - 1), st.booleans(), holders
)


def written(*each: Mark, scope: str = "s") -> bytearray:
    """A lock file after these marks were written in turn."""
    data = bytearray(first_text(each[0], scope))
    for number, mark in enumerate(each[1:], start=2):
        at = slot_offset(number)
        data[at : at + SLOT_BYTES] = slot_text(mark, number)
    return data


@given(st.lists(marks, min_size=1, max_size=5))
def test_the_last_mark_is_read_back(each: list[Mark]) -> None:
    """Whatever the mark and its holder, the newest slot is what counts."""
    assert read_slots(bytes(written(*each))) == StoredMark(each[-1], len(each))


@given(st.lists(marks, min_size=2, max_size=4), st.integers(0, SLOT_BYTES - 1))
def test_a_torn_write_leaves_the_mark_before(each: list[Mark], cut: int) -> None:
    """A write cut anywhere leaves a whole slot: the mark before it, or itself."""
    before, after = written(*each[:-1]), written(*each)
    at = slot_offset(len(each))
    torn = before[:]
    torn[at : at + cut] = after[at : at + cut]
    assert read_slots(bytes(torn)) in (
        StoredMark(each[-2], len(each) - 1),
        StoredMark(each[-1], len(each)),
    )


@pytest.mark.parametrize("data", [b"", b"\0" * 4096, b" " * 511 + b"\n", b"\0" * 100])
def test_an_empty_file_has_no_mark(data: bytes) -> None:
    """A file that was made, or grown, before a crash holds no mark: none was answered."""
    assert read_slots(data) == StoredMark()


def test_a_file_without_a_whole_slot_is_damaged() -> None:
    """Text that is no mark is never taken for an empty file."""
    data = written(Mark(Era(1), 5))
    data[5] ^= 1
    with pytest.raises(DamagedMark):
        read_slots(bytes(data))


def test_the_scope_can_be_read_by_people() -> None:
    """The file names its scope behind the slots."""
    assert written(Mark(Era(1), 5), scope="reports/a").decode().endswith("\nreports/a\n")


def test_slots_fit_the_longest_mark() -> None:
    """The largest numbers and the longest holder leave the slot its length."""
    mark = Mark(Era(2**63), 2**63 - 1, True, Holder("h" * 128))
    assert len(slot_text(mark, 10**18)) == SLOT_BYTES
