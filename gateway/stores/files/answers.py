"""The answer to a GET or HEAD of an open version."""

from __future__ import annotations

from io import FileIO

from gateway.model.conditions import Conditions
from gateway.model.object_action import GetObject
from gateway.model.problem import Code, Problem
from gateway.model.reply import NotModified, ObjectFound
from gateway.ports.store import ReadDone, ReadRefused, ReadResult
from gateway.stores.files.chunks import FileChunks
from gateway.stores.files.preconditions import Span, read_verdict, span_of
from gateway.stores.files.record import Record
from gateway.stores.files.threads import DiskThreads


def no_such_object(message: str) -> Problem:
    """The answer when there is nothing to read."""
    return Problem(Code.NOT_FOUND, message, native="NoSuchKey")


def answer(
    file: FileIO,
    record: Record,
    action: GetObject,
    conditions: Conditions,
    threads: DiskThreads,
) -> ReadResult:
    """Answer from an open file, which is closed or owned by the answer. Raises OSError."""
    owned = False
    try:
        meta = record.meta()
        verdict = read_verdict(action, conditions, meta)
        span = span_of(action.range_, meta.size) if verdict is None else None
        match verdict or span:
            case Problem() as problem:
                return ReadRefused(problem)
            case NotModified() as unchanged:
                return ReadDone(unchanged)
            case Span(first, last):
                length = last - first + 1
                part: tuple[int, int, int] | None = (first, last, meta.size)
            case _:
                first, length, part = 0, meta.size, None
        if action.head:
            return ReadDone(ObjectFound(meta, length, part))
        chunks = FileChunks(file, first, length, threads)
        owned = True
        return ReadDone(ObjectFound(meta, length, part, chunks))
    finally:
        if not owned:
            file.close()


def drop_answer(result: ReadResult) -> None:
    """Close what an answer holds that nobody will read."""
    match result:
        case ReadDone(ObjectFound(chunks=FileChunks() as chunks)):
            chunks.close()
        case _:
            pass
