"""`fencegate replicas`: who shares the registry, through a gateway's control API."""

from __future__ import annotations

import json

import typer

from gateway.cli.control_client import ControlFailed
from gateway.cli.scopes import (
    DEFAULT_KEY_FILE,
    DEFAULT_URL,
    AdminKey,
    CaFile,
    Json,
    KeyFile,
    Url,
    control_client,
    fail,
)

replicas = typer.Typer(no_args_is_help=True, help="Who shares the registry.")


@replicas.callback()
def main() -> None:
    """Replicas, through the control API of any of them."""


@replicas.command()
def ls(
    url: Url = DEFAULT_URL,
    admin_key: AdminKey = None,
    admin_key_file: KeyFile = DEFAULT_KEY_FILE,
    ca_file: CaFile = None,
    json_: Json = False,
) -> None:
    """List the replicas that are members now, each with how often it has renewed its membership."""
    with control_client(url, admin_key, admin_key_file, ca_file) as client:
        try:
            found = client.get("/v1/replicas", {})["replicas"]
        except ControlFailed as failed:
            fail(failed)
    for row in found:
        answering = "  (answering)" * row["answering"]
        shown = f"{row['replica']}  generation {row['generation']}  {row['beats']} beats{answering}"
        typer.echo(json.dumps(row) if json_ else shown)
    if not found:
        typer.echo("no replica is a member now", err=True)
