"""The bytes of an answer, read from an open file off the event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from io import FileIO
from typing import Final

from gateway.stores.files.threads import DiskThreads

CHUNK_BYTES: Final = 128 * 1024


class FileChunks(AsyncIterator[bytes]):
    """A span of a file in chunks; owns the file, and closes it at the end or by `aclose`.

    The first chunk is read at once, by whoever opens the file, so that a small object costs one
    trip to a thread. The file is one version for good: a replacement gets another file.
    """

    def __init__(self, file: FileIO, first: int, length: int, threads: DiskThreads) -> None:
        self._file = file
        self._at = first
        self._left = length
        self._threads = threads
        self._ahead: bytes | None = self._read()

    def _read(self) -> bytes:
        """Read the next chunk. Raises OSError when the file has become shorter."""
        data = os.pread(self._file.fileno(), min(self._left, CHUNK_BYTES), self._at)
        if not data and self._left:
            self._file.close()
            raise OSError("the file was cut while it was read")
        self._at += len(data)
        self._left -= len(data)
        if not self._left:
            self._file.close()
        return data

    async def __anext__(self) -> bytes:
        """The next chunk, never empty."""
        ahead, self._ahead = self._ahead, None
        if ahead:
            return ahead
        if not self._left or self._file.closed:
            raise StopAsyncIteration
        return await self._threads.run(self._read)

    def close(self) -> None:
        """Give the file back early."""
        self._ahead, self._left = None, 0
        self._file.close()

    async def aclose(self) -> None:
        """Give the file back early, as an async iterator does."""
        self.close()
