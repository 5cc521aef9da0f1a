"""Where log lines go: a buffer that a thread of its own writes out.

A reader that stalls (a full pipe, a slow terminal) must not stall the event loop, so a line is only
put into memory. Beyond `max_buffered_bytes` new lines are dropped, and how many were is told.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import BinaryIO, Final

_GATHER_S: Final = 0.02
_MAX_BUFFERED_BYTES: Final = 8_388_608


class LogSink:
    """Takes lines without blocking, and writes them in order, many at a time."""

    def __init__(self, stream: BinaryIO, max_buffered_bytes: int = _MAX_BUFFERED_BYTES) -> None:
        self._stream = stream
        self._max_buffered_bytes = max_buffered_bytes
        self._lines: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._dropped = 0
        self._lock = threading.Lock()
        self._filled = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-sink", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Take one line, with its end."""
        with self._lock:
            if self._buffered_bytes + len(line) > self._max_buffered_bytes:
                self._dropped += 1
                return
            self._lines.append(line)
            self._buffered_bytes += len(line)
        self._filled.set()

    def close(self, timeout_s: float = 2.0) -> None:
        """Write out what is buffered, for at most `timeout_s` seconds; the stream stays open."""
        self._closing.set()
        self._filled.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            self._filled.wait()
            if not self._closing.is_set():
                # A little patience turns a burst of lines into one write.
                self._closing.wait(_GATHER_S)
            last = self._closing.is_set()
            self._filled.clear()
            self._write_out()
            if last and not self._lines:
                return

    def _write_out(self) -> None:
        with self._lock:
            lines = b"".join(self._lines)
            self._lines.clear()
            self._buffered_bytes = 0
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines += b'{"level":"warning","event":"log_lines_dropped","count":%d}\n' % dropped
        try:
            self._stream.write(lines)
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads any more, or the stream is closed. The gateway goes on without its log.
            return
