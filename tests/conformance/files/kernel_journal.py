"""The order in which files really appeared, as the kernel tells it (inotify(7)), not a store.

A rename gives two events with one cookie: the temporary name it came from, which begins with the
write's id, and the name it got.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

from gateway.testing.store_contract import Effect

_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_NONBLOCK = 0o4000
_HEADER = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class KernelJournal:
    """Watches directories of uploads and the directory that objects are renamed into."""

    def __init__(self, uploads: list[Path], objects: Path) -> None:
        self._fd = _LIBC.inotify_init1(_IN_NONBLOCK)
        assert self._fd >= 0, os.strerror(ctypes.get_errno())
        watched = [(path, _IN_MOVED_FROM) for path in uploads] + [(objects, _IN_MOVED_TO)]
        for path, mask in watched:
            watch = _LIBC.inotify_add_watch(self._fd, os.fsencode(path), mask)
            assert watch >= 0, os.strerror(ctypes.get_errno())
        self._from: dict[int, str] = {}
        self._effects: list[Effect] = []

    async def __call__(self) -> list[Effect]:
        """All effects so far, in the kernel's order."""
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return self._effects
            at = 0
            while at < len(data):
                _, mask, cookie, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                name = data[at : at + length].rstrip(b"\0").decode()
                at += length
                if mask & _IN_MOVED_FROM:
                    self._from[cookie] = name.partition(".")[0]
                elif mask & _IN_MOVED_TO and cookie in self._from:
                    self._effects.append(Effect(name, self._from.pop(cookie)))

    def close(self) -> None:
        os.close(self._fd)
