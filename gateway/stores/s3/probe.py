"""The start-up probe: does this server honour conditional writes, and in which words (rule 12).

Of the servers that call themselves S3 many answer 200 to every violated condition. Only trying it
shows which: create twice with If-None-Match: *, replace with the right and with a wrong ETag, on an
absent key, delete with both, break an upload off, and let several writers race for one version.
Keys under `.fencegate-probe/` are used and removed again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from gateway.dialects.s3.sigv4 import UNSIGNED_PAYLOAD
from gateway.engine.holdback import HoldBack, Replayed
from gateway.machines.condition import Guard, bare
from gateway.model.mark import NO_MARK, Scope
from gateway.model.problem import Problem
from gateway.model.version import Absent, NotLooked, Present
from gateway.ports.store import ProbeFailed, WriteFence
from gateway.stores.s3.answers import error_code, refusal
from gateway.stores.s3.profile import WEAK, Profile
from gateway.stores.s3.site import Site
from gateway.stores.s3.wire import STAMP_FIELD, object_path
from gateway.upstream.exchange import Answer, Message, UpstreamFailed

_PREFIX: Final = ".fencegate-probe/"
_RACERS: Final = 8
_WHOLE: Final = b"whole"
_HALF_BYTES: Final = 100_000
_HALF_WAITS_S: Final = (0.05, 0.15)
_WRONG: Final = '"00000000000000000000000000000000"'
_SCOPE: Final = Scope("fencegate-probe")
_OPEN: Final = WriteFence(_SCOPE, NO_MARK, "probe", NotLooked(), gate=lambda: None)


async def probe_conditions(site: Site, bucket: str) -> Profile:
    """Learn the store's profile. Raises `ProbeFailed` when it does not honour conditions."""
    return await _Probe(site, bucket).run()


async def probe_plain(site: Site, bucket: str | None) -> Profile:
    """Prove that the store can be reached and takes our signature. Raises `ProbeFailed`."""
    if bucket is not None:
        return await _Probe(site, bucket).run_plain()
    wrong = await check(site, None)
    if wrong is not None:
        raise ProbeFailed(wrong)
    return WEAK


async def check(site: Site, bucket: str | None) -> str | None:
    """Look once, without effect, whether the server would work now; what is wrong, or None.

    It is asked for a key that nobody has (or for all buckets): unlike HEAD, GET tells a key that is
    absent or forbidden from a bucket that is absent or a signature that was not accepted.
    """
    path = b"/" if bucket is None else object_path(bucket, _PREFIX + "check")
    try:
        answer = await site.client.ask(site.requests.write("GET", path))
    except UpstreamFailed as error:
        return _unreachable(site, error)
    code = error_code(answer.body)
    if code == "NoSuchBucket":
        return f"Store {site.store!r}: the bucket {bucket!r} does not exist."
    if answer.status in {200, 404} or code == "AccessDenied":
        return None
    return refusal(site.store, answer.status, answer.body).message


def _unreachable(site: Site, error: object) -> str:
    return (
        f"Store {site.store!r} at {site.requests.authority!r} cannot be reached: {error}. Check "
        "its endpoint, and that the server runs."
    )


@dataclass(frozen=True, slots=True)
class _Said:
    """What came back: status, code, and the ETag of a success."""

    status: int
    code: str
    etag: str

    def __str__(self) -> str:
        return f"{self.status} {self.code}".rstrip()

    @property
    def ok(self) -> bool:
        return self.status < 300


class _Probe:
    """One run, on keys that nobody else uses."""

    def __init__(self, site: Site, bucket: str) -> None:
        self._site = site
        self._bucket = bucket
        self._stem = _PREFIX + secrets.token_hex(8)
        self._profile = Profile()
        self._used: list[str] = []

    async def run(self) -> Profile:
        try:
            etag = await self._create()
            etag = await self._replace(etag)
            await self._half()
            await self._absent()
            await self._race(etag)
            await self._delete()
        except UpstreamFailed as error:
            raise ProbeFailed(_unreachable(self._site, error)) from error
        finally:
            await self._clean_up()
        return self._profile

    async def run_plain(self) -> Profile:
        """Write, look and remove, without any condition."""
        self._profile = WEAK
        try:
            await self._first_write(())
            await self._half()
        except UpstreamFailed as error:
            raise ProbeFailed(_unreachable(self._site, error)) from error
        finally:
            await self._clean_up()
        return self._profile

    # --- the steps ----------------------------------------------------------------------------

    async def _first_write(self, fields: Sequence[tuple[bytes, bytes]]) -> str:
        """The first write must pass: reachable, bucket there, signature good, metadata kept."""
        key = self._key("a")
        stamp = (STAMP_FIELD.encode(), b"probe")
        answer = await self._send("PUT", key, [stamp, *fields], b"one")
        said = _said(answer)
        if said.code == "NoSuchBucket":
            raise ProbeFailed(
                f"Store {self._site.store!r}: the bucket {self._bucket!r} does not exist. Create "
                "it, or name another one to probe."
            )
        if not said.ok and fields and said.status in {400, 501}:
            self._ignored("a PUT with If-None-Match: * on a new key", said, "200")
        if not said.ok:
            problem = refusal(self._site.store, answer.status, answer.body)
            raise ProbeFailed(
                f"Store {self._site.store!r}: the probe's first PUT to {self._bucket}/{key} was "
                f"answered {said}: {problem.message}"
            )
        head = await self._site.client.ask(self._site.requests.write("HEAD", self._path(key)))
        if head.status != 200 or head.head.get(STAMP_FIELD) != "probe":
            raise ProbeFailed(
                f"Store {self._site.store!r}: the probe's object came back with status "
                f"{head.status} and without its metadata, in which the stamps are kept."
            )
        return head.head.get("etag") or ""

    async def _create(self) -> str:
        create = [(b"if-none-match", b"*")]
        etag = await self._first_write(create)
        second = await self._put("a", create, b"two")
        if second.status not in {412, 409}:
            self._ignored("a second PUT with If-None-Match: * on the same key", second, "412")
        return etag

    async def _replace(self, etag: str) -> str:
        wrong = await self._put("a", [(b"if-match", _WRONG.encode())], b"three")
        if wrong.status != 412:
            self._ignored("a PUT with If-Match and a wrong ETag", wrong, "412")
        right = await self._put("a", self._profile.fields(Guard(if_match=etag)), b"four")
        if right.status == 412:
            self._profile = replace(self._profile, quoted=False)
            wrong = await self._put("a", [(b"if-match", bare(_WRONG).encode())], b"five")
            if wrong.status != 412:
                self._ignored("a PUT with If-Match and a wrong unquoted ETag", wrong, "412")
            right = await self._put("a", self._profile.fields(Guard(if_match=etag)), b"four")
        if not right.ok:
            self._ignored("a PUT with If-Match and the current ETag", right, "200")
        same = await self._put("a", (), b"four")
        now = await self._etag("a")
        self._profile = replace(self._profile, unique_etags=same.ok and now != right.etag)
        return now

    async def _half(self) -> None:
        """Half an upload, broken off, must leave the old object as it is, meanwhile and after.

        A store that acts on what has arrived would let a stale upload take effect in part.
        """
        path = self._path(self._key("half"))
        if not (await self._put("half", (), _WHOLE)).ok:
            return
        for reset in (True, False):
            message = self._message("PUT", self._key("half"), (), 2 * _HALF_BYTES)
            kept: list[bool] = []

            async def meanwhile(kept: list[bool] = kept) -> None:
                kept.append(await self._is_whole(path))

            await self._site.client.send_half(
                message, b"x" * _HALF_BYTES, reset=reset, meanwhile=meanwhile
            )
            for wait_s in _HALF_WAITS_S:
                await asyncio.sleep(wait_s)
                kept.append(await self._is_whole(path))
            if not all(kept):
                self._profile = replace(self._profile, keeps_half=True)
                return

    async def _is_whole(self, path: bytes) -> bool:
        try:
            answer = await self._site.client.ask(self._site.requests.write("GET", path))
        except UpstreamFailed:
            return False
        return answer.status == 200 and answer.body == _WHOLE

    async def _absent(self) -> None:
        said = await self._put("b", [(b"if-match", _WRONG.encode())], b"six")
        if said.status not in {404, 412}:
            self._ignored("a PUT with If-Match on an absent key", said, "404 or 412")
        self._profile = replace(self._profile, absent_status=said.status)

    async def _race(self, etag: str) -> None:
        guard = self._profile.fields(Guard(if_match=etag))
        every = await asyncio.gather(
            *(self._put("a", guard, f"racer {n}".encode()) for n in range(_RACERS))
        )
        winners = [said for said in every if said.ok]
        if len(winners) != 1:
            self._ignored(
                f"{_RACERS} PUTs at once with If-Match and the same current ETag",
                max(every, key=lambda said: said.ok),
                f"success for exactly one (it was {len(winners)})",
            )
        odd = {(s.status, s.code) for s in every if not s.ok and s.status not in {404, 409, 412}}
        self._profile = replace(self._profile, race_answers=frozenset(odd))

    async def _delete(self) -> None:
        """DELETE may lack conditions: the promise is then weaker for it, and says so."""
        etag = await self._etag("a")
        wrong = self._profile.fields(Guard(if_match=_WRONG))
        said = await self._remove("a", wrong)
        honoured = said.status == 412
        if honoured:
            said = await self._remove("a", self._profile.fields(Guard(if_match=etag)))
            honoured = said.ok and await self._etag("a") == ""
        self._profile = replace(self._profile, delete_if_match=honoured)

    def _ignored(self, tried: str, said: _Said, wanted: str) -> NoReturn:
        raise ProbeFailed(
            f"Store {self._site.store!r} does not honour conditional writes: {tried} was answered "
            f"{said} instead of {wanted}. Use a store that honours If-Match and If-None-Match, or "
            'accept its weaker guarantee with conditions = "none".'
        )

    # --- requests -----------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        key = f"{self._stem}-{name}"
        if key not in self._used:
            self._used.append(key)
        return key

    def _path(self, key: str) -> bytes:
        return object_path(self._bucket, key)

    async def _etag(self, name: str) -> str:
        """The current ETag, or "" when there is no object."""
        now = await self._site.looker.look(self._bucket, self._key(name), _SCOPE)
        match now:
            case Problem(message=text):
                raise UpstreamFailed(text)
            case Present(etag):
                return etag
            case Absent():
                return ""

    async def _put(self, name: str, fields: Sequence[tuple[bytes, bytes]], content: bytes) -> _Said:
        return _said(await self._send("PUT", self._key(name), fields, content))

    async def _remove(self, name: str, fields: Sequence[tuple[bytes, bytes]]) -> _Said:
        return _said(await self._send("DELETE", self._key(name), fields, b""))

    async def _send(
        self, method: str, key: str, fields: Sequence[tuple[bytes, bytes]], content: bytes
    ) -> Answer:
        length = len(content) if method == "PUT" else None
        message = self._message(method, key, fields, length)
        body = HoldBack(Replayed(content))
        result = await self._site.client.send_gated(message, body, _OPEN)
        if not isinstance(result, Answer):
            raise UpstreamFailed(getattr(result, "why", "the request was not sent"))
        return result

    def _message(
        self, method: str, key: str, fields: Sequence[tuple[bytes, bytes]], length: int | None
    ) -> Message:
        return self._site.requests.write(
            method, self._path(key), fields=fields, length=length, payload_hash=UNSIGNED_PAYLOAD
        )

    async def _clean_up(self) -> None:
        for key in self._used:
            try:
                await self._send("DELETE", key, (), b"")
            except UpstreamFailed:
                return  # what made the probe fail makes this fail as well


def _said(answer: Answer) -> _Said:
    return _Said(answer.status, error_code(answer.body), answer.head.get("etag") or "")
