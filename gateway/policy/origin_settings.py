"""The settings of an `http` store: an HTTP origin that the gateway stands in front of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field

from gateway.policy.kinds import CLOSED, Milliseconds, Mount, Text

_BASE: Final = re.compile(r"https?://[^/]+(?P<path>/.*)?")
_DOTS: Final = frozenset({".", "..", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """An HTTP origin as a store."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED
    listen: ClassVar[None] = None

    name: str
    type: Annotated[Literal["http"], Field(description="An HTTP origin.")]
    dialect: Annotated[Literal["http"], Field(description="Wire language that workers speak.")] = (
        "http"
    )
    mount: Mount | None = None
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^https?://[^/?#\s@]+(/[\x21-\x22\x24-\x3e\x40-\x7e]*)?$",
            description='Address of the origin, "http://host:port", with a path if what it serves '
            "lies below one.",
        ),
    ]
    authorization: Annotated[
        Text | None,
        Field(
            pattern=r"^[\x21-\x7e]+( [\x20-\x7e]+)?$",
            description='The Authorization field for the origin, "Basic …" or "Bearer …"; replaces '
            "what workers send.",
        ),
    ] = field(default=None, repr=False)
    conditions: Annotated[
        Literal["etag", "none"],
        Field(
            description='"etag": the origin answers strong ETags and honours If-Match and '
            "If-None-Match on PUT, PATCH and DELETE. "
            '"none": it is sent none, with a weaker guarantee.'
        ),
    ] = "none"
    probe_path: Annotated[
        str | None,
        Field(
            pattern=r"^(/[A-Za-z0-9._~-]+)+$",
            description='Path below endpoint at which the start proves conditions = "etag" by '
            "writing and removing something; absent: they are taken on trust.",
        ),
    ] = None
    settle_ms: Annotated[
        Milliseconds,
        Field(description="How long after its last byte a write may still take effect."),
    ] = 10_000


def origin_misfits(store: HttpSettings) -> Iterator[tuple[str, str]]:
    """Yield (key, what to change) for what does not fit together."""
    try:
        _ = urlsplit(store.endpoint).port
    except ValueError:
        yield "endpoint", "its port must be a number from 1 to 65535"
        return
    found = _BASE.fullmatch(store.endpoint)
    path = (found and found["path"]) or "/"
    if _DOTS & set(path.strip("/").split("/")) and path.strip("/"):
        yield "endpoint", 'the path of an endpoint has no empty segment, no "." and no ".."'
    if store.probe_path is None:
        return
    if store.conditions == "none":
        yield "probe_path", 'there is nothing to prove with conditions = "none"; remove one'
    if _DOTS & set(store.probe_path[1:].split("/")):
        yield "probe_path", '"." and ".." are no path segments here'
