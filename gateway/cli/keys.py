"""`fencegate keys new`: a key for a worker or an admin, shown once."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from gateway.model.scope_pattern import scope_pattern
from gateway.model.worker import secret_digest
from gateway.policy.auth_settings import KEY_ID, METHODS
from gateway.policy.complaint import nearest
from gateway.system_clock import wall_s

WRONG_INPUT: Final = 2
_PREFIX: Final = "fgk_"
_SECRET_BYTES: Final = 32
_PLAIN_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

keys = typer.Typer(no_args_is_help=True, help="Keys of workers and admins.")


@keys.callback()
def _group() -> None:
    """Keep `new` a command of its own name."""


@keys.command()
def new(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The key's name, as logs will have it.")],
    store: Annotated[
        list[str] | None, typer.Option(help="A store the key covers; may be repeated.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help='Scopes it covers: "reports/eu", or "files:{rest*}"; may be repeated.'),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method it covers; may be repeated.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Days until it expires.")
    ] = None,
    s3: Annotated[
        bool, typer.Option("--s3", help="For s3 stores, which need the secret itself.")
    ] = False,
    admin: Annotated[bool, typer.Option("--admin", help="For the control API.")] = False,
) -> None:
    """Make a key. Its secret is printed once, to stderr; the TOML to paste goes to stdout."""
    _check(id_, scope or [], method or [])
    if admin and (store or scope or method or s3):
        _wrong("an admin key has no stores, scopes or methods")
    secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    lines = ["[[admin.keys]]" if admin else "[[auth.keys]]", f"id = {json.dumps(id_)}"]
    variable = _variable(id_)
    if s3:
        lines.append(f'secret = "${{{variable}}}"')
    else:
        lines.append(f'secret_hash = "sha256:{secret_digest(secret).hex()}"')
    for name, values in (("stores", store), ("scopes", scope), ("methods", method)):
        if values:
            lines.append(f"{name} = {json.dumps(values, ensure_ascii=False)}")
    if days is not None:
        until = datetime.fromtimestamp(int(wall_s()), UTC) + timedelta(days=days)
        lines.append(f"expires = {until:%Y-%m-%dT%H:%M:%SZ}")
    typer.echo("\n".join(lines))
    typer.echo(f"secret of {id_}, not shown again: {secret}", err=True)
    if s3:
        typer.echo(
            f"The gateway needs it too, to verify signatures: start it with {variable} set, or"
            " write it to a file and name that as secret_file.",
            err=True,
        )


def _variable(id_: str) -> str:
    """The environment variable of a key: no two ids share one."""
    plain = "WORKER_KEY_" + re.sub(r"[^A-Z0-9]", "_", id_.upper())
    if _PLAIN_ID.fullmatch(id_):
        return plain
    return f"{plain}__{hashlib.sha256(id_.encode()).hexdigest()[:8].upper()}"


def _check(id_: str, scopes: list[str], methods: list[str]) -> None:
    if not re.fullmatch(KEY_ID, id_):
        _wrong(f'"{id_}" is no id: 1 to 64 letters, digits, . _ ~ or -')
    for text in scopes:
        try:
            scope_pattern(text)
        except ValueError as wrong:
            _wrong(str(wrong))
    for name in methods:
        if name not in METHODS:
            _wrong(f'there is no method "{name}" ({nearest(name.upper(), METHODS)})')


def _wrong(text: str) -> None:
    typer.echo(f"fencegate: {text}", err=True)
    raise typer.Exit(WRONG_INPUT)
