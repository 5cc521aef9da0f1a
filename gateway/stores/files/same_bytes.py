"""Whether two files hold the same bytes: a retry's upload, and what its key had written before.

Source: decisions, "Replays". The record tells length and digests; the bytes tell all.
"""

from __future__ import annotations

import os
from typing import Final

_PIECE_BYTES: Final = 1024 * 1024


def same_bytes(one: int, other: int) -> bool:
    """Compare two open files from their beginnings; their positions stay. Raises OSError."""
    offset = 0
    while True:
        piece = os.pread(one, _PIECE_BYTES, offset)
        if piece != os.pread(other, _PIECE_BYTES, offset):
            return False
        if not piece:
            return True
        offset += len(piece)
