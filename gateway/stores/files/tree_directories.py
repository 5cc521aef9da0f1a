"""The directories of a plain tree, walked name by name so that no symbolic link is ever followed.

Every step is relative to an open directory (openat(2) with O_NOFOLLOW): what is renamed meanwhile
cannot lead outside of the root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gateway.model.problem import Code, Problem
from gateway.stores.files.faults import Refusal
from gateway.stores.files.tree_paths import Place

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES: Final = 64
_NOT_A_DIRECTORY: Final = frozenset({errno.ENOTDIR, errno.ELOOP})


class TreeDirectories:
    """Opens, makes and clears directories below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _walk(self, names: Sequence[bytes], *, make: bool) -> int:
        """Open the directory with this path. Raises FileNotFoundError, `Refusal` (conflict).

        While it is made, somebody may clear a directory that was empty still: then from the root
        once more, as nothing can be made in a directory that is gone.
        """
        for _ in range(_TRIES if make else 0):
            with suppress(FileNotFoundError):
                return self._descend(names, make=make)
        return self._descend(names, make=make)

    def _descend(self, names: Sequence[bytes], *, make: bool) -> int:
        fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                inner = self._step(fd, name, make=make)
                os.close(fd)
                fd = inner
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _step(self, fd: int, name: bytes, *, make: bool) -> int:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=fd)
                os.fsync(fd)
        try:
            return os.open(name, _DIRECTORY, dir_fd=fd)
        except OSError as error:
            if error.errno in _NOT_A_DIRECTORY:
                raise _in_the_way(name) from error
            raise

    @contextmanager
    def parent(self, place: Place, *, make: bool = False) -> Iterator[int]:
        """The open directory that holds the object's file."""
        fd = self._walk(place.names[:-1], make=make)
        try:
            yield fd
        finally:
            os.close(fd)

    def make_parent(self, place: Place) -> bool:
        """Make the directories above the file; True when some were missing. `Refusal`, OSError."""
        try:
            with self.parent(place):
                return False
        except FileNotFoundError:
            with self.parent(place, make=True):
                return True

    def status(self, place: Place) -> os.stat_result | None:
        """The file as it is, None when there is none or an empty directory.

        Raises `Refusal` (conflict) when something else is there.
        """
        try:
            with self.parent(place) as fd:
                found = os.stat(place.names[-1], dir_fd=fd, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    return found
                if stat.S_ISDIR(found.st_mode) and self._is_empty(fd, place.names[-1]):
                    return None
        except FileNotFoundError:
            return None
        raise _not_a_file(place)

    def _is_empty(self, parent: int, name: bytes) -> bool:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            with os.scandir(fd) as entries:
                return next(entries, None) is None
        finally:
            os.close(fd)

    def open_file(self, place: Place) -> int:
        """Open the object's file. Raises FileNotFoundError when it is none."""
        try:
            with self.parent(place) as parent:
                fd = os.open(place.names[-1], _FILE, dir_fd=parent)
        except Refusal as refusal:
            raise FileNotFoundError(errno.ENOENT, "a file is in the way") from refusal
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
                raise FileNotFoundError(errno.ENOENT, "not a file") from error
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "not a file")
        return fd

    def put(self, source: Path, place: Place) -> None:
        """Rename a finished file to its place. Raises `Refusal`, OSError; then it did not happen,
        but for an error of the device.

        Directories that somebody cleared since they were made are made again.
        """
        for number in range(_TRIES):
            try:
                with self.parent(place, make=number > 0) as parent:
                    os.replace(source, place.names[-1], dst_dir_fd=parent)
                    return
            except FileNotFoundError:
                if not source.exists():
                    raise
            except IsADirectoryError:
                self._clear(place)
        raise FileNotFoundError(errno.ENOENT, "the directory is being removed", source)

    def _clear(self, place: Place) -> None:
        """Remove an empty directory that is where a file shall be."""
        try:
            with self.parent(place) as parent:
                os.rmdir(place.names[-1], dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise _not_a_file(place) from error
            raise

    def remove(self, place: Place) -> None:
        """Remove the object's file. Raises FileNotFoundError, OSError."""
        with self.parent(place) as parent:
            os.unlink(place.names[-1], dir_fd=parent)

    def sync(self, place: Place) -> None:
        """Make the object's directory entry, or its absence, durable. Raises OSError."""
        with suppress(FileNotFoundError), self.parent(place) as parent:
            os.fsync(parent)

    def prune(self, place: Place) -> None:
        """Remove the directories above a place as far as they are empty; never the root."""
        names = place.names[:-1]
        with suppress(OSError, Refusal):
            while names:
                fd = self._walk(names[:-1], make=False)
                try:
                    os.rmdir(names[-1], dir_fd=fd)
                finally:
                    os.close(fd)
                names = names[:-1]


def _in_the_way(name: bytes) -> Refusal:
    shown = name.decode("utf-8", "backslashreplace")
    return Refusal(
        Problem(
            Code.CONFLICT,
            f"{shown!r} is a file or a link here, so nothing can lie below it: "
            "remove it first, or use another path",
        )
    )


def _not_a_file(place: Place) -> Refusal:
    return Refusal(
        Problem(
            Code.CONFLICT,
            f"{place.text!r} is a directory with objects in it, or no plain file: "
            "remove those first, or use another path",
        )
    )
