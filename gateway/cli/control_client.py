"""The control API as the command line asks it: one address, one admin key, errors in a line."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx

from gateway.settings import ADMIN_KEY_VARIABLE

_TIMEOUT_S: Final = 30.0  # a seal or a reset may drain first


class ControlFailed(Exception):
    """The control API could not be asked, or answered with an error; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where the control API is, and how to get in. The key never appears in a representation."""

    url: str
    admin_key: str = field(repr=False)
    ca_file: Path | None = None


def admin_key_of(given: str | None, file: Path) -> str:
    """The admin key that was given, or that of the file. Raises `ControlFailed`."""
    if given:
        return given
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise ControlFailed(
            f"no admin key: set {ADMIN_KEY_VARIABLE}, or name the gateway's file with"
            f" --admin-key-file ({file}: {error.strerror})"
        ) from None


class ControlClient:
    """A connection to the control API, for as long as a command runs."""

    def __init__(self, where: Where) -> None:
        """Raises `ControlFailed` for an address or a key that cannot be one."""
        try:
            url = httpx.URL(where.url)
        except httpx.InvalidURL as wrong:
            raise ControlFailed(f'--url "{where.url}" is no address: {wrong}') from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise ControlFailed(
                f'--url "{where.url}" must be http://HOST:PORT or https://HOST:PORT'
            )
        if not (where.admin_key.isascii() and where.admin_key.isprintable()):
            raise ControlFailed("the admin key must be visible ASCII characters")
        self._url = str(url).rstrip("/")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {where.admin_key}"},
            timeout=_TIMEOUT_S,
            verify=_trusted(where.ca_file),
        )

    def __enter__(self) -> ControlClient:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._client.close()

    def get(self, path: str, query: Mapping[str, str | int]) -> dict[str, Any]:
        """Ask. Raises `ControlFailed`."""
        return self._answer("GET", path, params=dict(query))

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Order. Raises `ControlFailed`."""
        return self._answer("POST", path, json=dict(body))

    def _answer(self, method: str, path: str, **what: Any) -> dict[str, Any]:
        try:
            answer = self._client.request(method, f"{self._url}{path}", **what)
        except httpx.TimeoutException:
            raise ControlFailed(
                f"{self._url} did not answer within {_TIMEOUT_S:g} s; whether it did what was asked"
                " is not known: look with `fencegate scopes show`"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ControlFailed(
                f"{self._url} cannot be reached: {error}; --url names the gateway's server.listen"
            ) from None
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success and isinstance(body, dict):
            return body
        raise ControlFailed(self._why(answer, body))

    def _why(self, answer: httpx.Response, body: Any) -> str:
        if isinstance(body, dict) and isinstance(body.get("code"), str):
            return f"{body['code']}: {body.get('detail', '')}"
        return (
            f"{self._url} answered {answer.status_code}, and not as a gateway's control API does:"
            " is it the gateway's server.listen? (--url)"
        )


def _trusted(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise ControlFailed(f"--ca-file {ca_file} cannot be used: {error}") from None
