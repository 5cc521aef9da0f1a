"""The start-up probe: it believes no server, tells what it tried, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.conditions import Conditions
from gateway.model.object_action import PutObject
from gateway.model.problem import Code
from gateway.ports.store import NotWritten, ProbeFailed, Written
from gateway.testing.numbering_origin import Faults
from gateway.upstream.pool import Timeouts
from tests.conformance.s3_lake import BUCKET, SCOPE, open_lake, operation, s3_store
from tests.services.object_stores import ObjectStore
from tests.services.server_process import LOOPBACK, free_port


async def test_ministack_is_taken(ministack: ObjectStore, ministack_bucket: str) -> None:
    """A real conditional server passes; what it does differently is in the profile."""
    store = s3_store(ministack, ministack_bucket)
    try:
        capabilities = await store.probe()
        profile = store.profile
        assert capabilities.conditions
        assert not capabilities.exact
        assert capabilities.settle_ms == 10_000
        assert (profile.quoted, profile.absent_status, profile.delete_if_match) == (True, 404, True)
        assert not profile.unique_etags
        assert profile.keeps_half  # it makes objects of uploads that are broken off
    finally:
        await store.aclose()
    client = ministack.client()
    assert client.list_objects_v2(Bucket=ministack_bucket)["KeyCount"] == 0
    client.close()


async def test_rclone_is_refused(rclone_s3: ObjectStore, rclone_bucket: str) -> None:
    """A server that ignores conditions in silence is refused, by name and with the way out."""
    store = s3_store(rclone_s3, rclone_bucket)
    try:
        with pytest.raises(ProbeFailed) as failed:
            await store.probe()
    finally:
        await store.aclose()
    text = str(failed.value)
    assert "'lake'" in text
    assert "If-None-Match: *" in text
    assert "answered 200" in text
    assert 'conditions = "none"' in text
    client = rclone_s3.client()
    assert "Contents" not in client.list_objects_v2(Bucket=rclone_bucket)
    client.close()


async def test_rclone_is_taken_as_weak(rclone_s3: ObjectStore, rclone_bucket: str) -> None:
    """Accepted by name it starts, says what is weaker, and refuses the client's conditions."""
    store = s3_store(rclone_s3, rclone_bucket, conditions="none")
    try:
        capabilities = await store.probe()
    finally:
        await store.aclose()
    assert not capabilities.conditions
    assert "WEAKER" in capabilities.guarantee
    assert 'conditions = "none"' in capabilities.guarantee


async def test_weak_store_gets_no_conditions() -> None:
    """With "none" the store gets none of ours, and the client's own are refused by name."""
    async with open_lake(conditions="none", probe=True) as lake:
        assert isinstance(await lake.put("k", b"1"), Written)
        assert isinstance(await lake.put("k", b"2", "w2"), Written)
        assert isinstance(await lake.delete("k"), Written)
        for condition in (Conditions(if_match=('"x"',)), Conditions(if_none_match=("*",))):
            for result in (
                await lake.put("k", b"3", conditions=condition),
                await lake.delete("k", conditions=condition),
            ):
                assert isinstance(result, NotWritten)
                assert result.problem.code is Code.CONDITION_UNSUPPORTED
                assert result.problem.status == 501
                assert "'lake'" in result.problem.message
        sent = [a for a in lake.origin.asked if a.get("if-match") or a.get("if-none-match")]
        assert sent == []


@pytest.mark.parametrize(
    "faults,tried",
    [
        (Faults(ignore_conditions=True), "a second PUT with If-None-Match: *"),
        (Faults(ignore_match=True), "a PUT with If-Match and a wrong ETag"),
        (Faults(race_winners=True), "PUTs at once"),
    ],
    ids=["all", "if-match", "race"],
)
async def test_each_weakness_is_found(faults: Faults, tried: str) -> None:
    """A server that fails in one way is refused with the step that showed it."""
    async with open_lake() as lake:
        lake.origin.faults = faults
        with pytest.raises(ProbeFailed, match="does not honour conditional writes") as failed:
            await lake.store.probe()
        assert tried in str(failed.value)
        assert lake.origin.objects == {}


async def test_quirks_are_learnt() -> None:
    """Bare tags, 500 for losers, unique tags, no condition on DELETE: taken, and remembered."""
    async with open_lake() as lake:
        faults = lake.origin.faults
        faults.unquoted_only = faults.unique_etags = faults.ignore_delete_conditions = True
        faults.race_status = 500
        await lake.store.probe()
        profile = lake.store.profile
        assert not profile.quoted
        assert profile.unique_etags
        assert not profile.delete_if_match
        assert profile.race_answers == {(500, "UnknownError")}
        assert isinstance(await lake.put("k", b"1"), Written)
        assert isinstance(await lake.put("k", b"2", "w2"), Written)
        last = [a for a in lake.origin.asked if a.method == "PUT"][-1]
        assert '"' not in (last.get("if-match") or '"')


@pytest.mark.parametrize("mode", ["etag", "none"])
async def test_unreachable_and_misconfigured(mode: str) -> None:
    """Nobody there, no such bucket, no bucket named: each text names the store and the setting."""
    async with open_lake() as lake:
        at = ObjectStore(lake.origin.url, "key", "secret")
        missing = s3_store(at, "other", conditions=mode)
        with pytest.raises(ProbeFailed, match=r"'lake'.*bucket 'other' does not exist"):
            await missing.probe()
        await missing.aclose()
        await lake.origin.aclose()
        gone = s3_store(at, BUCKET, conditions=mode, timeouts=Timeouts(connect_s=0.5))
        with pytest.raises(ProbeFailed, match=r"'lake'.*cannot be reached.*endpoint"):
            await gone.probe()
        await gone.aclose()


async def test_bucket_is_needed_to_demand_conditions(rclone_s3: ObjectStore) -> None:
    """Only a probe can prove conditions; without one the store is at least asked for an answer."""
    store = s3_store(rclone_s3, None)
    with pytest.raises(ProbeFailed, match="buckets ="):
        await store.probe()
    await store.aclose()
    weak = s3_store(rclone_s3, None, conditions="none")
    assert not (await weak.probe()).conditions
    await weak.aclose()


@pytest.mark.parametrize("bucket", [None, BUCKET])
async def test_wrong_credentials(rclone_s3: ObjectStore, bucket: str | None) -> None:
    """A signature that the store does not take is the gateway's own problem, and told as such."""
    wrong = ObjectStore(rclone_s3.endpoint, rclone_s3.access_key_id, "not-the-secret")
    store = s3_store(wrong, bucket, conditions="none")
    try:
        with pytest.raises(ProbeFailed, match="secret_access_key") as failed:
            await store.probe()
        assert "not-the-secret" not in str(failed.value)
        result = await store.look(operation(PutObject(BUCKET, "k", 0)), SCOPE)
        assert "not-the-secret" not in repr(result)
    finally:
        await store.aclose()


async def test_a_check_tells_what_is_lost(ministack: ObjectStore, ministack_bucket: str) -> None:
    """None while the server would work; a lost bucket, a wrong key, a lost server are told."""
    cases = (
        (ministack, ministack_bucket, None),
        (ministack, "no-such-bucket", "the bucket 'no-such-bucket' does not exist"),
        (replace(ministack, endpoint=f"http://{LOOPBACK}:{free_port()}"), "b", "cannot be reached"),
    )
    for server, bucket, wrong in cases:
        store = s3_store(server, bucket)
        try:
            told = await store.check()
        finally:
            await store.aclose()
        assert told is None if wrong is None else wrong in (told or "")
    client = ministack.client()
    assert client.list_objects_v2(Bucket=ministack_bucket)["KeyCount"] == 0
    client.close()


async def test_a_check_finds_wrong_credentials(rclone_s3: ObjectStore, rclone_bucket: str) -> None:
    """A signature that the server does not take is told, although nothing is read."""
    store = s3_store(replace(rclone_s3, secret_access_key="wrong"), rclone_bucket)
    try:
        assert "credentials" in (await store.check() or "")
    finally:
        await store.aclose()


async def test_a_check_leaves_no_trace() -> None:
    """It only reads: one GET, and no effect, also where its key is forbidden or absent."""
    async with open_lake() as lake:
        before = len(lake.origin.asked)
        assert await lake.store.check() is None
        assert [asked.method for asked in lake.origin.asked[before:]] == ["GET"]
        assert lake.origin.effects == []
