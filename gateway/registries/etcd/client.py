"""etcd's JSON gateway (etcd.io, "Why gRPC gateway"): transactions and watches over HTTP."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from gateway.ports.registry import RegistryUnavailable

Json = dict[str, Any]


class Stored(NamedTuple):
    """A key as stored. `revision` is that of its last change, `version` counts its changes."""

    key: str
    value: str
    revision: int
    version: int


class Txn(NamedTuple):
    """What a transaction did: which branch, and what its ranges found, in their order."""

    succeeded: bool
    found: tuple[tuple[Stored, ...], ...]
    revision: int
    cluster: str


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


def after(prefix: str) -> str:
    """The first key behind all that begin with `prefix` (ASCII)."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def is_at(key: str, revision: int) -> Json:
    """Compares: the key was last changed at `revision`; 0 means that it is not there."""
    return {
        "key": _coded(key),
        "target": "MOD",
        "result": "EQUAL",
        "mod_revision": str(revision),
    }


def exists(key: str) -> Json:
    """Compares: the key is there."""
    return {"key": _coded(key), "target": "VERSION", "result": "GREATER", "version": "0"}


def was_changed(key: str, times: int) -> Json:
    """Compares: the key was written `times` times since it was made."""
    return {"key": _coded(key), "target": "VERSION", "result": "EQUAL", "version": str(times)}


def holds(key: str, value: str) -> Json:
    """Compares: the key has this value."""
    return {"key": _coded(key), "target": "VALUE", "result": "EQUAL", "value": _coded(value)}


def put(key: str, value: str) -> Json:
    """Writes a key."""
    return {"request_put": {"key": _coded(key), "value": _coded(value)}}


def get(key: str) -> Json:
    """Reads one key."""
    return {"request_range": {"key": _coded(key)}}


def get_range(first: str, end: str, limit: int = 0) -> Json:
    """Reads the keys from `first` up to `end`, in their order; a limit of 0 is none."""
    wanted = {"key": _coded(first), "range_end": _coded(end), "limit": str(limit)}
    return {"request_range": wanted}


def get_all(prefix: str) -> Json:
    """Reads the keys that begin with `prefix`."""
    return get_range(prefix, after(prefix))


def delete(key: str) -> Json:
    """Removes a key."""
    return {"request_delete_range": {"key": _coded(key)}}


def delete_all(prefix: str) -> Json:
    """Removes the keys that begin with `prefix`."""
    wanted = {"key": _coded(prefix), "range_end": _coded(after(prefix))}
    return {"request_delete_range": wanted}


def when(compares: Sequence[Json], then: Sequence[Json]) -> Json:
    """A transaction inside another."""
    return {"request_txn": {"compare": list(compares), "success": list(then), "failure": []}}


class Etcd:
    """One client of a cluster: asks the endpoint that answered last, and the others in turn."""

    def __init__(self, endpoints: Sequence[str], user: tuple[str, str] | None, timeout_s: float):
        self._endpoints = list(endpoints)
        self._user = user
        self._timeout_s = timeout_s
        self._token: str | None = None
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(timeout_s, pool=None))

    async def txn(
        self,
        compares: Iterable[Json] = (),
        then: Iterable[Json] = (),
        otherwise: Iterable[Json] = (),
    ) -> Txn:
        """One transaction. Raises `RegistryUnavailable`: whether it took place is not known."""
        answer = await self._call(
            "/v3/kv/txn",
            {"compare": list(compares), "success": list(then), "failure": list(otherwise)},
        )
        found = tuple(
            tuple(map(_stored, one["response_range"].get("kvs", ())))
            for one in answer.get("responses", ())
            if "response_range" in one
        )
        header = answer["header"]
        succeeded = bool(answer.get("succeeded", False))
        return Txn(succeeded, found, int(header["revision"]), str(header["cluster_id"]))

    async def watch(self, prefix: str) -> AsyncIterator[None]:
        """Yields once when the watch stands, and then at each change of a key with this prefix."""
        wanted = {"key": _coded(prefix), "range_end": _coded(after(prefix))}
        unlimited = httpx.Timeout(self._timeout_s, read=None)
        request = self._http.stream(
            "POST",
            f"{self._endpoints[0]}/v3/watch",
            json={"create_request": wanted},
            headers=self._headers(),
            timeout=unlimited,
        )
        try:
            async with request as answer:
                if answer.status_code != httpx.codes.OK:
                    raise RegistryUnavailable(f"etcd refused a watch: {answer.status_code}")
                async for _ in answer.aiter_lines():
                    yield
        except httpx.HTTPError as error:
            raise self._unavailable(error) from error

    async def aclose(self) -> None:
        """End all connections."""
        await self._http.aclose()

    def _headers(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": self._token}

    async def _call(self, path: str, body: Json) -> Json:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._ask(path, body)
        except TimeoutError as error:
            self._endpoints.append(self._endpoints.pop(0))  # the next step asks another one
            raise self._unavailable(error) from error

    async def _ask(self, path: str, body: Json) -> Json:
        for _ in self._endpoints:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # it got nothing
                return await self._post(path, body)
            self._endpoints.append(self._endpoints.pop(0))
        raise RegistryUnavailable(f"no etcd endpoint answers: {', '.join(self._endpoints)}")

    async def _post(self, path: str, body: Json) -> Json:
        try:
            if self._user is not None and self._token is None:
                await self._authenticate(*self._user)
            answer = await self._http.post(
                self._endpoints[0] + path, json=body, headers=self._headers()
            )
            found = answer.json()
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise
        except (httpx.HTTPError, ValueError) as error:
            raise self._unavailable(error) from error
        if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
            self._token = None  # it may have run out: the next step asks for another
            reason = found.get("message", "") if isinstance(found, dict) else ""
            raise RegistryUnavailable(f"etcd did not do it: {answer.status_code} {reason}")
        return found

    async def _authenticate(self, name: str, password: str) -> None:
        answer = await self._http.post(
            f"{self._endpoints[0]}/v3/auth/authenticate", json={"name": name, "password": password}
        )
        if answer.status_code != httpx.codes.OK:
            raise RegistryUnavailable(
                f"etcd refused the user of registry.url: {answer.status_code}"
            )
        self._token = str(answer.json()["token"])

    def _unavailable(self, error: BaseException) -> RegistryUnavailable:
        text = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, TimeoutError):
            text = f"no answer within {self._timeout_s:g} s"
        return RegistryUnavailable(f"etcd at {self._endpoints[0]}: {text}")


def _stored(row: Json) -> Stored:
    return Stored(
        b64decode(row["key"]).decode(),
        b64decode(row.get("value", "")).decode(),
        int(row["mod_revision"]),
        int(row["version"]),
    )


def etcd_client(url: str, *, timeout_s: float = 1.5) -> Etcd:
    """A client for "http://user:password@one:2379,http://two:2379".

    Connects when first used. Raises `RegistryUnavailable` for a URL that cannot be read.
    """
    endpoints, user = [], None
    try:
        for one in url.split(","):
            parts = urlsplit(one.strip())
            if parts.scheme not in {"http", "https"} or parts.hostname is None:
                raise ValueError("each endpoint begins with http:// or https://, and names a host")
            if parts.username is not None:
                user = unquote(parts.username), unquote(parts.password or "")
            place = parts.netloc.rpartition("@")[2]
            endpoints.append(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")))
    except ValueError as error:
        raise RegistryUnavailable(f"registry.url is not usable: {error}") from error
    return Etcd(endpoints, user, timeout_s)


def written(value: Any) -> str:
    """A value as text, the same for equal values."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
