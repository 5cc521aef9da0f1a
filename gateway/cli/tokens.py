"""`fencegate tokens`: keys that issuers sign tokens with, and signed tokens by hand."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.model.signed_token import MAX_EXPIRES_S, Flaw, prove, sign
from gateway.model.token import MAX_TOKEN, Malformed, SignedToken, parse_token
from gateway.policy.load import PolicyError, load
from gateway.settings import environment, policy_path
from gateway.system_clock import wall_s

FAILED: Final = 1
WRONG_INPUT: Final = 2
_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,64}")

tokens = typer.Typer(no_args_is_help=True, help="Signed tokens and the keys of their issuers.")

PrivateKey = Annotated[
    Path, typer.Option("--private-key", metavar="FILE", help="The issuer's key, a PEM file.")
]
ScopeName = Annotated[
    str, typer.Argument(metavar="SCOPE", help="The scope, as `explain` tells it.")
]


@tokens.command()
def keygen(
    id_: Annotated[str, typer.Argument(metavar="ID", help="A name for people.")],
    private_key: PrivateKey,
) -> None:
    """Make an issuer's key. The private half goes to a new file, the TOML to paste to stdout."""
    if not _ID.fullmatch(id_):
        _end(WRONG_INPUT, f'"{id_}" is no id: 1 to 64 letters, digits, . _ ~ or -')
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        fd = os.open(private_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        _end(FAILED, f"{private_key} is there already, and a key is never overwritten")
    except OSError as error:
        _end(FAILED, f"{private_key}: {error.strerror}")
    with os.fdopen(fd, "wb") as file:
        file.write(pem)
    public = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode("ascii")
    typer.echo(f'[[tokens.keys]]\nid = {json.dumps(id_)}\npublic_key = "{public.rstrip("=")}"')
    typer.echo(f"{private_key} is for the issuer alone; the gateway needs the TOML only", err=True)


@tokens.command("sign")
def sign_(
    scope: ScopeName,
    token: Annotated[int, typer.Argument(min=1, max=MAX_TOKEN, help="The number to sign.")],
    private_key: PrivateKey,
    ttl_s: Annotated[
        int | None, typer.Option("--ttl-s", min=1, help="Seconds until it expires; absent: never.")
    ] = None,
) -> None:
    """Print a token in the signed form, as X-Fence-Token takes it."""
    expires_s = None if ttl_s is None else int(wall_s()) + ttl_s
    if expires_s is not None and expires_s > MAX_EXPIRES_S:
        _end(WRONG_INPUT, "--ttl-s is too large")
    typer.echo(sign(token, scope, _private(private_key), expires_s=expires_s))


@tokens.command()
def verify(
    scope: ScopeName,
    token: Annotated[str, typer.Argument(help="The token in the signed form.")],
    policy: Annotated[
        list[Path] | None,
        typer.Option("--policy", help="A policy file with [[tokens.keys]], may be repeated."),
    ] = None,
) -> None:
    """Say whether the gateway would take a signed token for a scope."""
    try:
        checked = load(policy or [policy_path()], environ=environment())
    except PolicyError as wrong:
        for mistake in wrong.mistakes:
            typer.echo(str(mistake), err=True)
        raise typer.Exit(WRONG_INPUT) from None
    found = parse_token([token.encode("utf-8", "surrogateescape")])
    if found is None or isinstance(found, Malformed):
        _end(FAILED, "fence_token_malformed: " + (found.why if found else "no token"))
    if not isinstance(found, SignedToken):
        _end(FAILED, "fence_token_unsigned: there is no signature behind the digits")
    judged = prove(int(found), found.proof, scope, checked.tokens.by_id(), wall_s())
    if isinstance(judged, Flaw):
        _end(FAILED, f"fence_token_{judged.value}")
    until = "never" if judged.expires_s is None else f"in {judged.expires_s - int(wall_s())} s"
    typer.echo(f"ok: token {int(found)} of scope {scope}; expires {until}")


def _private(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        _end(FAILED, f"{path}: {error.strerror}")
    except (ValueError, TypeError, UnsupportedAlgorithm):
        _end(FAILED, f"{path} holds no private key in PEM: `fencegate tokens keygen` makes one")
    if not isinstance(key, Ed25519PrivateKey):
        _end(FAILED, f"{path} holds a key of another kind: it must be Ed25519")
    return key


def _end(code: int, text: str) -> NoReturn:
    typer.echo(f"fencegate: {text}", err=True)
    raise typer.Exit(code)
