"""What a files store tells afterwards: of a write that the disk did not confirm, and of a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.model.mark import Era, Mark, Scope
from gateway.model.object_action import DeleteObject, PutObject
from gateway.model.operation import Action, Kind, Operation
from gateway.model.resource import Resource
from gateway.model.token import Token
from gateway.model.version import NotLooked
from gateway.model.write_id import request_name, write_id_of
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, Written
from gateway.stores.files import BucketStore, TreeStore
from gateway.testing.store_subject import Pieces

SCOPE = Scope("kept")
MARK = Mark(Era(1), 1)


@pytest.fixture(params=["tree", "buckets"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[TreeStore | BucketStore]:
    made: TreeStore | BucketStore
    if request.param == "tree":
        made = TreeStore("files", tmp_path)
    else:
        made = BucketStore("files", tmp_path, ["shelf"])
    assert await made.carry(SCOPE, MARK) is None
    yield made
    await made.aclose()


def asked(store: TreeStore | BucketStore, key: str, length: int = 1) -> Operation:
    bucket = "shelf" if isinstance(store, BucketStore) else ""
    action: Action = PutObject(bucket, key, length)
    return Operation(
        Resource("files", key), f"/{key}", Kind.WRITE, "PUT", action, Token(1), retry_key="job-1"
    )


def fence(write_id: str) -> WriteFence:
    return WriteFence(SCOPE, MARK, write_id, NotLooked(), lambda: None)


async def test_only_what_stands_there_is_proof(store: TreeStore | BucketStore) -> None:
    """Our id: applied, with its tag. Another's, or nothing: unknown stays unknown."""
    operation = asked(store, "k")
    assert isinstance(await store.find_out(operation, fence("w1"), 99.0), MaybeWritten)
    wrote = await store.write(operation, Pieces(b"1"), fence("w1"))
    assert isinstance(wrote, Written)
    assert await store.find_out(operation, fence("w1"), 0.0) == wrote
    assert isinstance(await store.find_out(operation, fence("w2"), 99.0), MaybeWritten)
    removal = replace(operation, action=DeleteObject(operation.action.bucket, "k"))  # type: ignore[union-attr]
    assert isinstance(await store.find_out(removal, fence("w1"), 99.0), MaybeWritten)


async def test_a_key_is_recalled_from_the_record(store: TreeStore | BucketStore) -> None:
    """In its era, for the same content, while its version stands."""
    operation, other = asked(store, "k"), asked(store, "k", 2)
    name = request_name(operation, SCOPE)
    assert await store.recall(operation, SCOPE, Era(1)) is None
    wrote = await store.write(operation, Pieces(b"1"), fence(write_id_of(name, "1" * 32)))
    assert isinstance(wrote, Written)
    assert await store.recall(operation, SCOPE, Era(1)) == replace(wrote, earlier=True)
    again = await store.write(operation, Pieces(b"1"), fence(write_id_of(name, "2" * 32)))
    assert again == replace(wrote, earlier=True)
    reused = await store.recall(other, SCOPE, Era(1))
    assert isinstance(reused, NotWritten)
    assert reused.problem.status == 422
    assert await store.recall(operation, SCOPE, Era(2)) is None
    await store.write(operation, Pieces(b"3"), fence("another"))
    assert await store.recall(operation, SCOPE, Era(1)) is None


async def test_a_key_with_other_bytes_is_reused(store: TreeStore | BucketStore) -> None:
    """Whatever process took the first attempt: of the same length, but other bytes, is no retry."""
    operation = asked(store, "k", 3)
    name = request_name(operation, SCOPE)
    wrote = await store.write(operation, Pieces(b"one"), fence(write_id_of(name, "1" * 32)))
    assert isinstance(wrote, Written)
    other = await store.write(operation, Pieces(b"two"), fence(write_id_of(name, "2" * 32)))
    assert isinstance(other, NotWritten)
    assert other.problem.status == 422
    again = await store.write(operation, Pieces(b"one"), fence(write_id_of(name, "3" * 32)))
    assert again == replace(wrote, earlier=True), "the first bytes stand, and are a retry"
