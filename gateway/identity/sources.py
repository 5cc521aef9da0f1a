"""Where the keys of issuers come from: a file, or a URL that is asked again and again.

Keys that cannot be read again stay in use for a day: an issuer that is down for a while stops
nobody. After that they are dropped, because a key that was withdrawn meanwhile would live on.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from gateway.identity.key_set import KeySet, read_key_set
from gateway.identity.verifier import Issuer
from gateway.model.event import IssuerKeysFailed, IssuerKeysRead
from gateway.ports.clock import Clock
from gateway.ports.identity import UnusableKeys
from gateway.ports.observer import Observer

_REFRESH_S: Final = 300.0
_UNKNOWN_KEY_S: Final = 10.0
_RETRY_S: Final = 5.0
_MAX_AGE_S: Final = 86_400.0
_TIMEOUT_S: Final = 5.0
_MAX_BYTES: Final = 1_048_576


@dataclass(slots=True)
class KeySource:
    """The keys of one issuer. `file` and `ca_file` are complete paths."""

    issuer: Issuer
    file: Path | None
    ca_file: Path | None
    clock: Clock
    observer: Observer
    _tried_s: float = field(default=0.0, init=False)
    _read_s: float | None = field(default=None, init=False)
    _failed: bool = field(default=False, init=False)

    async def read(self) -> None:
        """Read the keys. Raises `UnusableKeys`; the ones of before stay for a while."""
        self._tried_s = self.clock.boottime_s()
        self.issuer.unknown_key = False
        try:
            keys = await self._fetch()
        except UnusableKeys as wrong:
            self._failed = True
            if self._read_s is not None and self._tried_s - self._read_s > _MAX_AGE_S:
                self.issuer.keys = None
            self.observer.emit(IssuerKeysFailed(self.issuer.settings.issuer, str(wrong)))
            raise
        self._failed = False
        self._read_s = self._tried_s
        if keys != self.issuer.keys:
            self.issuer.keys = keys
        self.observer.emit(IssuerKeysRead(self.issuer.settings.issuer, len(keys.keys)))

    def due(self) -> bool:
        """True when the keys of a URL should be read again."""
        if self.file is not None:
            return False
        age_s = self.clock.boottime_s() - self._tried_s
        if self.issuer.keys is None or self._failed:
            return age_s >= _RETRY_S
        return age_s >= (_UNKNOWN_KEY_S if self.issuer.unknown_key else _REFRESH_S)

    async def _fetch(self) -> KeySet:
        url = self.issuer.settings.jwks_url
        if self.file is not None:
            return await asyncio.to_thread(_from_file, self.file)
        assert url is not None
        try:
            verify = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True
            async with (
                asyncio.timeout(_TIMEOUT_S),
                httpx.AsyncClient(verify=verify, trust_env=False) as client,
                client.stream("GET", url, headers={"accept": "application/json"}) as answer,
            ):
                return await _from_answer(url, answer)
        except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise UnusableKeys(f"{url} cannot be read: {why}") from None


async def _from_answer(url: str, answer: httpx.Response) -> KeySet:
    if answer.status_code != httpx.codes.OK:
        raise UnusableKeys(f"{url} answered {answer.status_code}; redirects are not followed")
    raw = b""
    async for piece in answer.aiter_bytes():
        raw += piece
        if len(raw) > _MAX_BYTES:
            raise UnusableKeys(f"{url} answered more than {_MAX_BYTES} bytes")
    return _named(url, raw)


def _from_file(path: Path) -> KeySet:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UnusableKeys(f"{path} cannot be read: {error.strerror}") from None
    return _named(str(path), raw)


def _named(place: str, raw: bytes) -> KeySet:
    try:
        return read_key_set(raw)
    except UnusableKeys as wrong:
        raise UnusableKeys(f"{place} {wrong}") from None
