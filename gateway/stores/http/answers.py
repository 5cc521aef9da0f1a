"""An origin's answers as they are passed on, and what the gateway says where they are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

from gateway.machines.condition import Mismatch
from gateway.model.object_action import Fields
from gateway.model.problem import Code, Problem
from gateway.model.reply import Relay
from gateway.stores.http.site import Site
from gateway.upstream.response import Head

# Of the origin's own connection (RFC 9110, section 7.6.1); written anew by the gateway (date,
# x-request-id); or leading clients past the gateway (alt-svc, refresh).
_NOT_PASSED_ON: Final = frozenset(
    {
        "alt-svc",
        "connection",
        "content-length",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "refresh",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-request-id",
    }
)
_FENCE: Final = "x-fence-"
_REFERENCES: Final = frozenset({"location", "content-location"})


def relay(
    site: Site, head: Head, body: bytes = b"", chunks: AsyncIterator[bytes] | None = None
) -> Relay:
    """The origin's answer for the worker."""
    fields = end_to_end(site, head)
    length = head.get("content-length")
    if length is not None and not body and head.status not in {204, 304}:
        fields = (*fields, ("content-length", length))
    return Relay(head.status, fields, body, chunks)


def end_to_end(site: Site, head: Head) -> Fields:
    """The fields that are passed on; addresses of the origin become the gateway's."""
    named = {o.strip().lower() for value in head.all("connection") for o in value.split(",")}
    kept = []
    for name, value in head.fields:
        if name in _NOT_PASSED_ON or name in named or name.startswith(_FENCE):
            continue
        if name not in _REFERENCES:
            kept.append((name, value))
        elif (local := local_reference(value, site.origin, site.mount)) is not None:
            kept.append((name, local))
    return tuple(kept)


def local_reference(value: str, origin: str, mount: str) -> str | None:
    """A reference as workers can follow it through the gateway, None when it leads elsewhere.

    `origin` is the address of the origin with its base path and no slash at the end.
    """
    try:
        at, target = urlsplit(origin), urlsplit(value)
    except ValueError:
        return None
    if target.scheme or target.netloc:
        same = (target.scheme or at.scheme, target.netloc.lower()) == (at.scheme, at.netloc.lower())
        if not same:
            return None
    elif not value.startswith("/"):
        return value
    path = target.path
    if path != at.path and not path.startswith(f"{at.path}/"):
        return None
    local = mount + path[len(at.path) :]
    return f"{local}?{target.query}" if target.query else local


# --- problems -----------------------------------------------------------------------------------
def not_sent(site: Site, why: str, *, busy: bool) -> Problem:
    """The write failed before its last bytes were sent."""
    return Problem(
        Code.BUSY if busy else Code.UPSTREAM_FAILED,
        f"the origin of store {site.store} did not take the write ({why}); nothing was written",
        retry_after_s=1 if busy else None,
    )


def unreadable(site: Site, why: object) -> Problem:
    """The origin gave no usable answer to a request without effect."""
    text = f"the origin of store {site.store} could not be read: {why}"
    return Problem(Code.UPSTREAM_FAILED, text)


def unknown(site: Site, why: str, answer: Relay | None = None) -> Problem:
    """The write may or may not have been applied; the origin's own answer is told, if any."""
    return Problem(
        Code.OUTCOME_UNKNOWN,
        f"the origin of store {site.store} did not tell whether the write was applied ({why}); "
        "read the resource to find out",
        status_override=answer.status if answer is not None else None,
        relay=answer,
    )


def refused(site: Site, answer: Relay) -> Problem:
    """The origin refused: its answer is passed on."""
    text = f"the origin of store {site.store} answered {answer.status}"
    return Problem(Code.UPSTREAM_REFUSED, text, status_override=answer.status, relay=answer)


def redirected(site: Site, status: int) -> Problem:
    """The origin sends the client elsewhere, past the comparison of paths."""
    return Problem(
        Code.UPSTREAM_FAILED,
        f"the origin of store {site.store} redirects ({status}), which the gateway neither follows "
        "nor passes on: the path would no longer be the one that was compared. Ask for the final "
        "path, or set the store's endpoint to the final address",
    )


def mismatch(kind: Mismatch) -> Problem:
    """The client's own condition cannot hold for the version that is there."""
    if kind is Mismatch.UNSUPPORTED:
        text = "send one condition: If-Match with one entity tag, or If-None-Match: *"
        return Problem(Code.CONDITION_UNSUPPORTED, text)
    return CLIENT_FAILED


def conditions_refused(site: Site, method: str) -> Problem:
    """The client sent a condition that nobody would check."""
    if site.conditions:
        text = f"If-Match and If-None-Match are not carried on {method}; leave them out"
    else:
        text = (
            f'store {site.store} has conditions = "none": If-Match and If-None-Match are not '
            'passed on with writes. Leave them out, or set conditions = "etag" if the origin '
            "honours them"
        )
    return Problem(Code.CONDITION_UNSUPPORTED, text)


def no_version(site: Site, why: str) -> Problem:
    """A look brought nothing that a condition can name."""
    return Problem(
        Code.UPSTREAM_FAILED,
        f"the origin of store {site.store} {why}, so no condition can be set on the write; nothing "
        'was written. Let it answer HEAD with a strong ETag, or set conditions = "none"',
    )


def too_large(limit_bytes: int, method: str) -> Problem:
    """A body that must be held whole, and is too large for that."""
    return Problem(
        Code.BODY_TOO_LARGE,
        f"the body of a {method} is held until its end and can have at most {limit_bytes} bytes "
        "(limits.max_spool_bytes); PUT is streamed and has no such limit",
        close=True,
    )


CLIENT_FAILED: Final = Problem(
    Code.PRECONDITION_FAILED,
    "the condition does not hold for what is there: read it again and repeat the change with its "
    "entity tag",
)
CHANGED: Final = Problem(
    Code.CHANGED_UNDERNEATH,
    "somebody changed the resource since the request was admitted; nothing was written. Read it "
    "again before you repeat the change",
)
