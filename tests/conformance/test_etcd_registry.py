"""What the `etcd` registry alone has to prove: guesses, voided registrations, lost revisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from gateway.model.claim import Claim, Claimed, ClaimStale, Generation, RegistrationId, ReplicaId
from gateway.model.mark import Era, Mark, Scope
from gateway.model.token import Token
from gateway.ports.registry import RegistryUnavailable
from gateway.registries.etcd import EtcdRegistry, etcd_client
from gateway.registries.etcd.client import Etcd, Txn
from tests.services.etcd import Etcd as EtcdServer

REPLICA, SCOPE = ReplicaId("r"), Scope("s")


class CountedEtcd:
    """A client that counts its transactions, and can answer with revisions of the past."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self.calls = 0
        self.back = 0

    async def txn(self, *parts: Any, **named: Any) -> Txn:
        self.calls += 1
        done = await self._etcd.txn(*parts, **named)
        return done._replace(revision=done.revision - self.back)

    async def aclose(self) -> None:
        await self._etcd.aclose()


@pytest.fixture
def counted(etcd_url: str) -> CountedEtcd:
    """A client of the session's etcd."""
    return CountedEtcd(etcd_client(etcd_url, timeout_s=5))


@pytest.fixture
async def registry(counted: CountedEtcd) -> AsyncIterator[EtcdRegistry]:
    """A registry below a prefix of its own."""
    made = EtcdRegistry(counted, prefix=uuid4().hex[:8])  # type: ignore[arg-type]
    yield made
    await made.aclose()


def claim(generation: Generation, token: int) -> Claim:
    """A claim of that token."""
    registration = RegistrationId(f"{generation}.{token}")
    return Claim(SCOPE, Era(1), Token(token), None, REPLICA, generation, registration)


async def test_a_claim_is_one_round_trip(registry: EtcdRegistry, counted: CountedEtcd) -> None:
    """Whoever wrote a scope last guesses right: one transaction for each next token."""
    generation = await registry.join(REPLICA)
    before = counted.calls
    for token in range(1, 11):
        assert isinstance(await registry.claim(claim(generation, token)), Claimed)
    assert counted.calls - before == 10


async def test_a_wrong_guess_is_found_out(registry: EtcdRegistry, counted: CountedEtcd) -> None:
    """Another process has raised the mark meanwhile: the claim is ruled on what is there."""
    generation = await registry.join(REPLICA)
    await registry.claim(claim(generation, 1))
    other = EtcdRegistry(counted, prefix=registry._scopes.split("/")[1])  # type: ignore[arg-type]
    its = await other.join(ReplicaId("other"))
    assert isinstance(await other.claim(claim(its, 5)), Claimed)
    assert await registry.claim(claim(generation, 2)) == ClaimStale(Mark(Era(1), 5))
    answer = await registry.claim(claim(generation, 6))
    assert isinstance(answer, Claimed)
    assert answer.raised_from == Mark(Era(1), 5)
    assert sorted(r.token for r in answer.lower) == [1, 5]


async def test_registrations_of_the_ended_are_void(registry: EtcdRegistry) -> None:
    """An eviction removes one key; what the generation held stands in nobody's way after it."""
    one, two = await registry.join(REPLICA), await registry.join(ReplicaId("two"))
    await registry.claim(claim(one, 1))
    await registry.claim(claim(two, 2))
    mark = Mark(Era(1), 2)
    assert [r.generation for r in await registry.pending(SCOPE, mark, two) or ()] == [one]
    assert await registry.evict(REPLICA, one, 0)
    assert await registry.pending(SCOPE, mark, two) == ()
    row = await registry.scope(SCOPE)
    assert row is not None
    assert row.registrations == 1


async def test_revisions_that_go_back_are_another_incarnation(
    registry: EtcdRegistry, counted: CountedEtcd
) -> None:
    """Rule 9: a restored snapshot ends all generations, and nobody has vouched for it."""
    generation = await registry.join(REPLICA)
    await registry.claim(claim(generation, 1))
    before = await registry.identity()
    await registry.vouch(before.id)
    counted.back = 1000
    await registry.scope(SCOPE)
    counted.back = 0
    after = await registry.identity()
    assert after.id != before.id
    assert not after.vouched
    assert not await registry.beat(REPLICA, generation)
    assert await registry.pending(SCOPE, Mark(Era(1), 9), generation) is None


async def test_answers_in_another_order_are_no_restored_snapshot(
    registry: EtcdRegistry,
) -> None:
    """Sixteen steps at once, again and again: the incarnation stays."""
    before = await registry.identity()
    generation = await registry.join(REPLICA)
    for round_ in range(10):
        await asyncio.gather(
            *(registry.claim(claim(generation, round_ * 16 + i + 1)) for i in range(16)),
            *(registry.scope(SCOPE) for _ in range(16)),
        )
    assert await registry.identity() == before


@pytest.mark.parametrize(
    "url, match",
    [
        ("http://127.0.0.1:1", "no etcd endpoint answers: http://127.0.0.1:1"),
        ("etcd://host", "begins with http:// or https://"),
        ("http://", "names a host"),
    ],
)
async def test_an_unusable_address_is_named(url: str, match: str) -> None:
    """At once for one that cannot be read, with the first step for one that nobody answers at."""

    async def probe() -> None:
        await EtcdRegistry(etcd_client(url)).probe()

    with pytest.raises(RegistryUnavailable, match=match):
        await probe()


async def test_the_next_endpoint_is_asked(etcd_url: str) -> None:
    """One that refuses connections is passed over; the step succeeds."""
    registry = EtcdRegistry(etcd_client(f"http://127.0.0.1:1,{etcd_url}"), prefix=uuid4().hex[:8])
    assert await registry.probe() == ()
    await registry.aclose()


async def test_a_server_with_users(etcd: EtcdServer) -> None:
    """Credentials of the URL are exchanged for a token, renewed when lost, never repeated."""
    async with httpx.AsyncClient(base_url=etcd.url) as admin:
        for step, body in (
            ("role/add", {"name": "root"}),
            ("user/add", {"name": "root", "password": "s3cret"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            (await admin.post(f"/v3/auth/{step}", json=body)).raise_for_status()
    for named, works in (("root:s3cret", True), ("root:s3cres", False), (None, False)):
        url = etcd.url if named is None else etcd.url.replace("http://", f"http://{named}@")
        registry = EtcdRegistry(etcd_client(url))
        if works:
            assert await registry.probe() == ()
            registry._etcd._token = "gone"
            with pytest.raises(RegistryUnavailable):
                await registry.probe()
            assert await registry.probe() == ()
        else:
            with pytest.raises(RegistryUnavailable) as refused:
                await registry.probe()
            assert "s3cre" not in str(refused.value)
        await registry.aclose()
