"""What a registry is asked, and what a raise costs: `python -m bench.registries`.

Four gateways share one registry in front of a directory. Counted at the registry's server itself,
heart beats and looks at inboxes apart: steps per write in the steady state. Timed beside the
registry's own round trip: the first write of a token when nobody else is registered, and a raise
over three others.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import httpx
from redis.asyncio import Redis

from gateway.model.mark import Scope
from gateway.ports.registry import Registry
from gateway.registries.etcd import EtcdRegistry, etcd_client
from gateway.registries.postgres import PostgresRegistry
from gateway.registries.redis import RedisRegistry, redis_client
from tests.services.etcd import Etcd
from tests.services.gateway_process import GatewayProcess
from tests.services.postgres import PostgresServer
from tests.services.server_process import wait_until
from tests.services.valkey import Valkey

POLICY = """
[server]
listen = "127.0.0.1:8080"
auth = "none"
[registry]
type = "{kind}"
url = "{url}"
[stores.files]
type = "files"
root = "{root}"
[[rules]]
match = "/files/{{scope}}/{{rest*}}"
scope = "{{scope}}"
"""
_COLUMNS = (
    "registry",
    "steps a write",
    "steps/s of 4 idle replicas",
    "round trip, ms",
    "plain write, ms",
    "first write of a token, ms beyond a plain one",
    "raise over 3 replicas, ms",
)


class Engine:
    """A registry's server, and how to count what it was asked."""

    def __init__(self, kind: str, home: Path, stack: ExitStack) -> None:
        self.kind = kind
        if kind == "redis":
            valkey = Valkey(home, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
            valkey.process.start()
            stack.callback(valkey.process.kill)
            self.url = valkey.url
        elif kind == "postgres":
            server = PostgresServer()
            stack.callback(server.close)
            self.url = server.dsn()
        else:
            etcd = Etcd(home)
            etcd.process.start()
            stack.callback(etcd.process.kill)
            self.url = etcd.url

    def registry(self) -> Registry:
        """A client of our own, for the round trip."""
        match self.kind:
            case "redis":
                return RedisRegistry(redis_client(self.url))
            case "postgres":
                return PostgresRegistry(self.url)
            case _:
                return EtcdRegistry(etcd_client(self.url))

    async def asked(self) -> int:
        """How many steps the server has carried out so far."""
        match self.kind:
            case "redis":
                client = Redis.from_url(self.url)
                stats = await client.info("commandstats")
                await client.aclose()
                return int(stats.get("cmdstat_evalsha", {}).get("calls", 0)) + int(
                    stats.get("cmdstat_eval", {}).get("calls", 0)
                )
            case "postgres":
                connection = await asyncpg.connect(self.url)
                await connection.execute("SELECT pg_stat_force_next_flush()")
                count = await connection.fetchval("SELECT sum(xact_commit) FROM pg_stat_database")
                await connection.close()
                return int(count)
            case _:
                async with httpx.AsyncClient() as client:
                    text = (await client.get(f"{self.url}/metrics")).text
                found = re.findall(
                    r'grpc_server_handled_total\{.*grpc_method="Txn".*\} (\S+)', text
                )
                return round(sum(map(float, found)))


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """How long it took, in ms."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def put(client: httpx.AsyncClient, gateway: GatewayProcess, scope: str, token: int) -> None:
    """One write. Raises when it is not applied."""
    url = f"{gateway.store_url('files')}/{scope}/x"
    answer = await client.put(url, headers={"X-Fence-Token": str(token)}, content=b"x")
    answer.raise_for_status()


async def steady(engine: Engine, gateway: GatewayProcess, writes: int) -> tuple[float, float]:
    """Steps at the server per write, and per second without any."""
    async with httpx.AsyncClient(timeout=10) as client:
        await put(client, gateway, "steady", 1)
        before, began = await engine.asked(), time.monotonic()
        for _ in range(writes):
            await put(client, gateway, "steady", 1)
        after, took_s = await engine.asked(), time.monotonic() - began
        await asyncio.sleep(took_s)
        idle = await engine.asked() - after
    return (after - before - idle) / writes, idle / took_s


async def raises(
    engine: Engine, gateways: list[GatewayProcess], rounds: int
) -> tuple[float, float, float, float]:
    """Medians in ms: round trip, plain write, first write of a token alone, raise over three."""
    registry = engine.registry()
    trips, plain, alone, over = [], [], [], []
    async with httpx.AsyncClient(timeout=10) as client:
        for token in range(1, rounds + 1):
            trips.append(await timed(lambda: registry.scope(Scope("nobody's"))))
            alone.append(await timed(lambda t=token: put(client, gateways[0], "alone", t)))
            plain.append(await timed(lambda t=token: put(client, gateways[0], "alone", t)))
            for other in gateways[1:]:
                await put(client, other, "shared", 2 * token - 1)
            over.append(await timed(lambda t=token: put(client, gateways[0], "shared", 2 * t)))
    await registry.aclose()
    return tuple(map(statistics.median, (trips, plain, alone, over)))  # type: ignore[return-value]


async def bytes_per_scope(url: str, scopes: int) -> tuple[float, float]:
    """Memory of Redis per claimed scope: all of it, and without the keys' names."""
    from gateway.model.claim import Claim, RegistrationId, ReplicaId
    from gateway.model.mark import Era
    from gateway.model.token import Token

    registry = RedisRegistry(redis_client(url, timeout_s=10), prefix="m")
    replica = ReplicaId("r")
    generation = await registry.join(replica)
    redis = Redis.from_url(url)
    before = int((await redis.info("memory"))["used_memory"])
    for start in range(0, scopes, 200):
        await asyncio.gather(
            *(
                registry.claim(
                    Claim(
                        Scope(f"jobs/{n:010}"),
                        Era(1),
                        Token(7),
                        None,
                        replica,
                        generation,
                        RegistrationId(f"{n:x}"),
                    )
                )
                for n in range(start, start + 200)
            )
        )
    used = int((await redis.info("memory"))["used_memory"]) - before
    await redis.aclose()
    await registry.aclose()
    return used / scopes, used / scopes - len("jobs/0000000000")


async def measure(kind: str, writes: int, rounds: int) -> None:
    """One engine, printed as a row."""
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        engine = Engine(kind, home, stack)
        document = POLICY.format(kind=kind, url=engine.url, root=home / "files")
        gateways = []
        for number in range(4):
            place = home / f"gateway-{number}"
            place.mkdir()
            gateway = GatewayProcess(document, place)
            stack.callback(gateway.kill)
            gateways.append(gateway.start())
        url = f"{gateways[0].store_url('files')}/warm/x"
        for gateway in gateways:
            url = f"{gateway.store_url('files')}/warm/x"
            wait_until(
                lambda u=url: httpx.put(u, headers={"X-Fence-Token": "1"}, content=b"").is_success,
                60,
                "the grace is over",
            )
        per_write, idle = await steady(engine, gateways[0], writes)
        trip, plain, alone, over = await raises(engine, gateways, rounds)
        print(
            f"| {kind} | {max(0.0, per_write):.4f} | {idle:.1f} | {trip:.2f} | {plain:.2f} |"
            f" {alone - plain:.2f} ({(alone - plain) / trip:.1f} x) |"
            f" {over:.2f} ({over / trip:.1f} x) |",
            flush=True,
        )
        if kind == "redis":
            whole, rest = await bytes_per_scope(engine.url, 100_000)
            print(f"\n{whole:.0f} bytes a scope in Redis, {rest:.0f} beyond its name\n")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", default="redis,postgres,etcd")
    asked = parser.parse_args()
    print(f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|")
    for kind in asked.only.split(","):
        asyncio.run(measure(kind, asked.writes, asked.rounds))


if __name__ == "__main__":
    main()
