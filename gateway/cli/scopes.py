"""`fencegate scopes`: look at marks, seal and reset them, through a gateway's control API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from gateway.cli.control_client import ControlClient, ControlFailed, Where, admin_key_of
from gateway.model.token import MAX_TOKEN
from gateway.settings import ADMIN_KEY_VARIABLE, URL_VARIABLE

FAILED: Final = 1
_PAGE: Final = 500

scopes = typer.Typer(no_args_is_help=True, help="Marks of scopes, through the control API.")

Name = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope, as `explain` tells it.")]
Url = Annotated[
    str,
    typer.Option("--url", envvar=URL_VARIABLE, help="Where the gateway's control API listens."),
]
AdminKey = Annotated[
    str | None,
    typer.Option("--admin-key", envvar=ADMIN_KEY_VARIABLE, help="The admin key."),
]
KeyFile = Annotated[
    Path, typer.Option("--admin-key-file", help="The file that has it, when it is not given.")
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", help="Certificates to trust, for an https URL.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON, one object a line.")]

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_KEY_FILE: Final = Path("data/admin-key")


@scopes.command()
def ls(
    prefix: Annotated[str, typer.Argument(help="Only scopes whose names begin with this.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many.")] = None,
    url: Url = DEFAULT_URL,
    admin_key: AdminKey = None,
    admin_key_file: KeyFile = DEFAULT_KEY_FILE,
    ca_file: CaFile = None,
    json_: Json = False,
) -> None:
    """List scopes with their marks."""
    told: set[str] = set()
    with control_client(url, admin_key, admin_key_file, ca_file) as client:
        try:
            for row in _rows(client):
                if not row["scope"].startswith(prefix) or row["scope"] in told:
                    continue  # a page may bring one twice
                told.add(row["scope"])
                typer.echo(json.dumps(row) if json_ else _line(row))
                if limit is not None and len(told) >= limit:
                    return
        except ControlFailed as failed:
            fail(failed)
    if not told:
        typer.echo("no scope" + (f" begins with {prefix}" if prefix else " has a mark"), err=True)


@scopes.command()
def show(
    name: Name,
    url: Url = DEFAULT_URL,
    admin_key: AdminKey = None,
    admin_key_file: KeyFile = DEFAULT_KEY_FILE,
    ca_file: CaFile = None,
    json_: Json = False,
) -> None:
    """Show one scope: its era, its mark, who holds it, and the floor of the next token."""
    with control_client(url, admin_key, admin_key_file, ca_file) as client:
        try:
            _tell(client.get("/v1/scopes", {"name": name}), json_)
        except ControlFailed as failed:
            fail(failed)


@scopes.command()
def seal(
    name: Name,
    token: Annotated[
        int | None, typer.Option(min=1, help="Seal with this token; without it, the next one.")
    ] = None,
    url: Url = DEFAULT_URL,
    admin_key: AdminKey = None,
    admin_key_file: KeyFile = DEFAULT_KEY_FILE,
    ca_file: CaFile = None,
    json_: Json = False,
) -> None:
    """Raise the mark and drain, without a write: every lower token is refused from then on."""
    body = {"scope": name} if token is None else {"scope": name, "token": token}
    with control_client(url, admin_key, admin_key_file, ca_file) as client:
        try:
            _tell(client.post("/v1/seal", body), json_)
        except ControlFailed as failed:
            fail(failed)


@scopes.command()
def reset(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; it goes to the log and the audit trail.")],
    url: Url = DEFAULT_URL,
    admin_key: AdminKey = None,
    admin_key_file: KeyFile = DEFAULT_KEY_FILE,
    ca_file: CaFile = None,
    json_: Json = False,
) -> None:
    """Drain a scope and start its next era with an empty mark: every token is new again.

    The promise does not span it. Stop the workers of the scope first.
    """
    with control_client(url, admin_key, admin_key_file, ca_file) as client:
        try:
            _tell(client.post("/v1/reset", {"scope": name, "reason": reason}), json_)
        except ControlFailed as failed:
            fail(failed)


def control_client(
    url: str, admin_key: str | None, file: Path, ca_file: Path | None
) -> ControlClient:
    """The control API that the options name; ends the program when they lead nowhere."""
    try:
        return ControlClient(Where(url, admin_key_of(admin_key, file), ca_file))
    except ControlFailed as failed:
        fail(failed)


def _rows(client: ControlClient) -> Iterator[dict[str, Any]]:
    """All rows, page by page."""
    after: str | None = None
    while True:
        query = {"limit": _PAGE} | ({} if after is None else {"after": after})
        page = client.get("/v1/scopes", query)
        yield from page["scopes"]
        after = page["next"]
        if after is None:
            return


def _line(row: dict[str, Any]) -> str:
    burnt = "  burnt: two holders had it" if row["burnt"] else ""
    holder = f"  holder {row['holder']}" if row["holder"] else ""
    return f"{row['token']:>19}  era {row['era']}  {row['scope']}{holder}{burnt}"


def _tell(row: dict[str, Any], json_: bool) -> None:
    if json_:
        typer.echo(json.dumps(row))
        return
    typer.echo(f"scope     {row['scope']}")
    typer.echo(f"era       {row['era']}")
    typer.echo(f"mark      {row['token']}" + (" (burnt: two holders had it)" * row["burnt"]))
    typer.echo(f"holder    {row['holder'] or 'not bound'}")
    if row["registrations"] is not None:
        typer.echo(f"replicas  {row['registrations']} may admit by themselves")
    if row["token"] >= MAX_TOKEN:
        typer.echo("next      none: the scope is at the last token; `fencegate scopes reset` it")
    else:
        typer.echo(f"next      {row['token'] + 1} or above")


def fail(failed: ControlFailed) -> NoReturn:
    """Tell what went wrong, and end the program."""
    typer.echo(f"fencegate: {failed}", err=True)
    raise typer.Exit(FAILED)
