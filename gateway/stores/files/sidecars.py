"""The sidecar of a file in a plain tree: the records of its present and its next version.

It is written before the rename, with both: size and time of the file that is really there tell
which of the two it is, so that rename and record need not happen at once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gateway.stores.files.durable import fan_out, make_directories, sync_directory
from gateway.stores.files.record import Record, from_json, to_json
from gateway.stores.files.tree_paths import Place


class Sidecars:
    """All sidecars of one store, two directory levels deep by the hash of the path."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, place: Place) -> Path:
        """The sidecar's own file."""
        return self._directory / fan_out(place.digest)

    def load(self, place: Place) -> tuple[Record, ...]:
        """The records, none for a file that somebody else put there. Raises OSError."""
        try:
            lines = self.path(place).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ()
        with suppress(ValueError):
            return tuple(from_json(line) for line in lines[1:])
        return ()

    def save(self, place: Place, records: tuple[Record, ...], draft: Path) -> None:
        """Replace the records durably; the first line is the path, for people. Raises OSError."""
        path = self.path(place)
        text = "\n".join([place.text.replace("\n", " "), *map(to_json, records)]) + "\n"
        make_directories(path.parent)
        try:
            with draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        sync_directory(path.parent)

    def remove(self, place: Place) -> None:
        """Forget the records. Raises OSError."""
        self.path(place).unlink(missing_ok=True)
