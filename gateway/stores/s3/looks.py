"""What is under a key now: version and stamp, by HEAD (protocol, rule 12; decisions, "Stamps")."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.model.mark import Mark, Scope
from gateway.model.problem import Code, Problem
from gateway.model.stamp import Stamp, read_stamp, seal_stamp
from gateway.model.version import Absent, Present
from gateway.stores.s3.answers import refusal
from gateway.stores.s3.wire import STAMP_FIELD, RequestWriter, object_path
from gateway.upstream.exchange import Answer, Client, UpstreamFailed


@dataclass(frozen=True, slots=True)
class Stamper:
    """Writes and reads stamps of this gateway. The secret makes them unforgeable for workers."""

    secret: bytes = field(repr=False)

    def seal(self, scope: Scope, mark: Mark, write_id: str, resource: str) -> str:
        """The stamp of a write that was admitted under a mark."""
        stamp = Stamp(mark.era, mark.token, write_id)
        return seal_stamp(stamp, scope=scope, resource=resource, secret=self.secret)

    def read(self, text: str | None, scope: Scope, resource: str) -> Stamp | None:
        """The stamp, when it is one of this resource in this scope."""
        return read_stamp(text, scope=scope, resource=resource, secret=self.secret)


def resource_name(bucket: str, key: str) -> str:
    """What a stamp is bound to."""
    return f"{bucket}/{key}"


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at objects of one store."""

    store: str
    client: Client
    requests: RequestWriter
    stamper: Stamper

    async def look(self, bucket: str, key: str, scope: Scope) -> Present | Absent | Problem:
        """Version and stamp of a key. A `Problem` when the store could not tell."""
        return (await self.measure(bucket, key, scope))[0]

    async def measure(
        self, bucket: str, key: str, scope: Scope
    ) -> tuple[Present | Absent | Problem, int]:
        """The same, with the size of the object in bytes (-1 without one)."""
        answer = await self._head(bucket, key)
        if isinstance(answer, Problem):
            return answer, -1
        length = answer.head.get("content-length") or ""
        return self._seen(answer, bucket, key, scope), int(length) if length.isdecimal() else -1

    async def _head(self, bucket: str, key: str) -> Answer | Problem:
        message = self.requests.write("HEAD", object_path(bucket, key))
        try:
            return await self.client.ask(message)
        except UpstreamFailed as error:
            return Problem(
                Code.UPSTREAM_FAILED, f"The store {self.store!r} could not be read: {error}."
            )

    def _seen(
        self, answer: Answer, bucket: str, key: str, scope: Scope
    ) -> Present | Absent | Problem:
        if answer.status == 404:
            return Absent()
        if answer.status != 200:
            return refusal(self.store, answer.status, answer.body)
        etag = answer.head.get("etag")
        if not etag:
            return Problem(
                Code.UPSTREAM_FAILED,
                f"The store {self.store!r} gave no ETag for the object, so that no version can be "
                "compared.",
            )
        text = answer.head.get(STAMP_FIELD)
        return Present(etag, self.stamper.read(text, scope, resource_name(bucket, key)))
