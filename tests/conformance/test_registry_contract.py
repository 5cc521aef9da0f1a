"""The registry contract on every registry, and what only the durable one promises."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.machines import ledger
from gateway.model.claim import Claim, Claimed, RegistrationId, ReplicaId
from gateway.model.mark import Era, Mark, Scope
from gateway.model.token import Token
from gateway.ports.registry import Registry, RegistryUnavailable
from gateway.registries.etcd import EtcdRegistry, etcd_client
from gateway.registries.memory import MemoryRegistry
from gateway.registries.postgres import PostgresRegistry
from gateway.registries.redis import RedisRegistry, redis_client
from gateway.registries.sqlite import SqliteRegistry
from gateway.testing import registry_contract
from gateway.testing.registry_contract import REGISTRY_LAWS, Law

SCOPE = Scope("s")


@pytest.fixture(params=["memory", "sqlite", "sqlite-shared", "redis", "postgres", "etcd"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Registry]:
    made: Registry
    match request.param:
        case "memory":
            made = MemoryRegistry()
        case "sqlite":
            made = SqliteRegistry(tmp_path / "r.sqlite")
        case "sqlite-shared":
            made = SqliteRegistry(tmp_path / "r.sqlite", shared=True)
        case "postgres":
            made = PostgresRegistry(request.getfixturevalue("postgres_dsn"), timeout_s=5)
        case "etcd":
            etcd = etcd_client(request.getfixturevalue("etcd_url"), timeout_s=5)
            made = EtcdRegistry(etcd, prefix=uuid4().hex[:8])
        case _:
            url = request.getfixturevalue("valkey_url")
            client = redis_client(url, timeout_s=5)
            made = RedisRegistry(client, prefix=uuid4().hex[:8])
    yield made
    await made.aclose()


@pytest.mark.parametrize("law", REGISTRY_LAWS, ids=lambda law: law.__name__)
async def test_law(law: Law, registry: Registry) -> None:
    """Each law of the shipped contract holds."""
    await law(registry)


@pytest.mark.parametrize(
    "rule, law",
    [
        ("below", registry_contract.a_registration_is_never_overwritten),
        ("registered", registry_contract.a_registration_is_never_overwritten),
        ("_given_up", registry_contract.a_claim_carries_a_yield),
        ("_is_implausible", registry_contract.an_implausible_raise_is_not_learnt),
        ("_two_hands", registry_contract.holders_bind_and_burn),
        ("ended", registry_contract.leaving_takes_everything_along),
    ],
)
async def test_the_contract_sees_a_broken_registry(
    rule: str, law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: with one rule of the ledger broken, a law fails."""
    broken = {
        "below": lambda *_: (),
        "registered": lambda _record, registration: (registration,),
        "_given_up": lambda record, _claim: record,
        "_is_implausible": lambda *_: False,
        "_two_hands": lambda *_: False,
        "ended": lambda record, _generation: record,
    }
    monkeypatch.setattr(ledger, rule, broken[rule])
    with pytest.raises(AssertionError):
        await law(MemoryRegistry())


def claim(generation: str, token: int, scope: str = SCOPE) -> Claim:
    registration = RegistrationId(f"{generation}.{scope}.{token}")
    return Claim(Scope(scope), Era(1), Token(token), None, ReplicaId("r"), generation, registration)  # type: ignore[arg-type]


async def test_marks_and_registrations_outlive_a_restart(tmp_path: Path) -> None:
    """What was answered is there after reopening, registrations of the unclean stop included."""
    first = SqliteRegistry(tmp_path / "r.sqlite")
    generation = await first.join(ReplicaId("r"))
    await first.claim(claim(generation, 4))
    await first.aclose()
    again = SqliteRegistry(tmp_path / "r.sqlite")
    assert [m.generation for m in await again.members()] == [generation]
    assert [r.token for r in await again.pending(SCOPE, Mark(Era(1), 5), generation) or ()] == [4]
    await again.aclose()


_KILLED = """
import asyncio, sys
from pathlib import Path
from gateway.model.claim import Claim, ReplicaId, RegistrationId
from gateway.model.mark import Era, Scope
from gateway.model.token import Token
from gateway.registries.postgres import PostgresRegistry
from gateway.registries.redis import RedisRegistry, redis_client
from gateway.registries.sqlite import SqliteRegistry

async def main():
    registry = SqliteRegistry(Path(sys.argv[1]))
    generation = await registry.join(ReplicaId("r"))
    for token in range(1, 100_000):
        names = (ReplicaId("r"), generation, RegistrationId(str(token)))
        await registry.claim(Claim(Scope("s"), Era(1), Token(token), None, *names))
        print(token, flush=True)

asyncio.run(main())
"""


async def test_no_answered_raise_is_lost_by_a_kill(tmp_path: Path) -> None:
    """Rule 10: SIGKILL in mid-stream; the mark is at least the last one that was answered."""
    path = tmp_path / "r.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    for _ in range(50):
        process.stdout.readline()
    process.kill()
    rest = process.stdout.read().split()
    process.stdout.close()
    process.wait()
    answered = int(rest[-1]) if rest else 50
    registry = SqliteRegistry(path)
    row = await registry.scope(SCOPE)
    await registry.aclose()
    assert row is not None
    assert row.mark.token >= answered


async def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A second one is told which process holds the file, and the first goes on."""
    first = SqliteRegistry(tmp_path / "r.sqlite")
    with pytest.raises(RegistryUnavailable, match=r"another gateway process \(pid \d+\)"):
        SqliteRegistry(tmp_path / "r.sqlite")
    await first.probe()
    await first.aclose()
    second = SqliteRegistry(tmp_path / "r.sqlite")
    await second.aclose()


async def test_several_processes_share_by_agreement(tmp_path: Path) -> None:
    """Those that share exclude one that does not; a claim of one rings at the other."""
    one = SqliteRegistry(tmp_path / "r.sqlite", shared=True)
    two = SqliteRegistry(tmp_path / "r.sqlite", shared=True)
    with pytest.raises(RegistryUnavailable, match="--workers"):
        SqliteRegistry(tmp_path / "r.sqlite")
    first, second = await one.join(ReplicaId("a")), await two.join(ReplicaId("b"))
    await one.claim(claim(first, 1))
    waiting = asyncio.create_task(one.wait(ReplicaId("a"), first, 30))
    assert isinstance(await two.claim(claim(second, 2)), Claimed)
    async with asyncio.timeout(5):
        await waiting
        while not (notices := await one.inbox(ReplicaId("a"), first, 0)):
            await one.wait(ReplicaId("a"), first, 1)
    assert [notice.mark.token for notice in notices] == [2]
    await one.aclose()
    await two.aclose()


async def test_waiting_claims_share_a_commit(tmp_path: Path) -> None:
    """Group commit: two hundred claims at once take far fewer durable commits."""
    registry = SqliteRegistry(tmp_path / "r.sqlite")
    generation = await registry.join(ReplicaId("r"))
    before = registry.commits
    answers = await asyncio.gather(
        *(registry.claim(claim(generation, 1, f"s{i}")) for i in range(200))
    )
    assert all(isinstance(a, Claimed) for a in answers)
    assert registry.commits - before < 100
    await registry.aclose()


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """A corrupt registry is refused with its path; it is left as it is."""
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    before = path.read_bytes()
    with pytest.raises(RegistryUnavailable, match=r"r\.sqlite"):
        SqliteRegistry(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("registry", ["redis", "postgres", "etcd"], indirect=True)
async def test_a_burst_of_claims_waits_its_turn(registry: Registry) -> None:
    """Two hundred at once, more than a client library opens by itself: none is turned away."""
    generation = await registry.join(ReplicaId("r"))
    answers = await asyncio.gather(
        *(registry.claim(claim(generation, 1, f"burst/{i}")) for i in range(200))
    )
    assert all(isinstance(answer, Claimed) for answer in answers)
