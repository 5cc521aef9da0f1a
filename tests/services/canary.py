"""Canaries: which credentials of a gateway turn up where they must not."""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from gateway.model.worker import secret_digest

_SECRET_KEYS = {"secret", "secret_access_key", "session_token", "authorization", "stamp_key"}
_URL_KEYS = {"dsn", "url"}
_MIN_CHARS = 8
_SHAPES = re.compile(
    r"(?i)signature=[0-9a-f]{64}|x-amz-security-token[=:]\s*[^\s*\"]|credential=[^\s*\"]+/aws4_request"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}|authorization['\"]?\s*[:=]\s*b?['\"]?(?:bearer|basic)\s+[^\s*<\"']"
)


def secrets_of(document: str, environ: Mapping[str, str]) -> set[str]:
    """The secrets that a policy document names, `${NAME}` looked up."""
    return {text for text in _found(tomllib.loads(document), environ) if len(text) >= _MIN_CHARS}


def leaks(text: str, secrets: Iterable[str]) -> list[str]:
    """What in a text is one of the secrets in any usual form, or has the shape of a credential."""
    forms = {form for secret in secrets for form in _forms(secret)}
    found = [f"…{form[-6:]}" for form in sorted(forms) if form in text]
    return found + [match[0] for match in _SHAPES.finditer(text)]


def _found(value: Any, environ: Mapping[str, str], key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _found(inner, environ, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _found(inner, environ, key)
    elif isinstance(value, str):
        text = re.sub(r"\$\{(\w+)\}", lambda name: environ.get(name[1], ""), value)
        if key in _SECRET_KEYS:
            yield text
        elif key in _URL_KEYS:
            yield urlsplit(text).password or ""


def _forms(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield base64.b64encode(raw).decode().rstrip("=")
    yield raw.hex()
    yield secret_digest(raw).hex()
