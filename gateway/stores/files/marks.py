"""The mark in a scope's lock file: two slots, written in turn, so that a torn write loses nothing.

A slot is one line of text of half a kilobyte, which fits a disk sector. The file cannot be replaced
by a rename: the lock is on the file itself (protocol, rule 11).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from gateway.model.mark import Era, Mark
from gateway.model.token import Holder

SLOT_BYTES: Final = 512
SLOTS: Final = 2
_BLANK: Final = b" " * (SLOT_BYTES - 1) + b"\n"


@dataclass(frozen=True, slots=True)
class StoredMark:
    """What a lock file holds: its mark, None when it has none yet, and the number of its write."""

    mark: Mark | None = None
    number: int = 0


class DamagedMark(Exception):
    """Neither slot can be read. Writing on would forget the mark, so nothing is written."""


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def slot_text(mark: Mark, number: int) -> bytes:
    """One slot: `v1 number era token burnt holder checksum`, padded to its full length."""
    holder = f"={mark.holder}" if mark.holder is not None else "-"
    text = f"v1 {number} {mark.era} {mark.token} {int(mark.burnt)} {holder}"
    return f"{text} {_checksum(text)}".encode().ljust(SLOT_BYTES - 1) + b"\n"


def first_text(mark: Mark, scope: str) -> bytes:
    """A new lock file: the mark, an empty slot, and the scope's name for whoever looks at it."""
    return slot_text(mark, 1) + _BLANK + f"{scope}\n".encode()


def slot_offset(number: int) -> int:
    """Where the write with this number goes."""
    return (number - 1) % SLOTS * SLOT_BYTES


def read_slots(data: bytes) -> StoredMark:
    """The newest whole slot. Raises `DamagedMark` when there is something, but none is whole."""
    stored, damaged = StoredMark(), False
    for at in range(0, SLOT_BYTES * SLOTS, SLOT_BYTES):
        raw = data[at : at + SLOT_BYTES].strip(b" \n\x00")
        slot = _read_slot(raw)
        if slot is not None and slot.number > stored.number:
            stored = slot
        damaged = damaged or (bool(raw) and slot is None)
    if damaged and stored.mark is None:
        raise DamagedMark
    return stored


def _read_slot(raw: bytes) -> StoredMark | None:
    text, _, checksum = raw.decode("ascii", "replace").rpartition(" ")
    if not text or checksum != _checksum(text):
        return None
    _, number, era, token, burnt, holder = text.split(" ")
    who = Holder(holder[1:]) if holder.startswith("=") else None
    return StoredMark(Mark(Era(int(era)), int(token), burnt == "1", who), int(number))
