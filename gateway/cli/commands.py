"""The commands: serve, check, explain, migrate, keys, scopes, replicas, tokens, demo and more.

Exit codes: 0 done, 1 it failed, 2 the command line or the policy is wrong. No traceback reaches a
user: what is wrong is told in a line, with what to change.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import typer

from gateway.cli.explain import NotServed, Question
from gateway.cli.explain import explain as explained
from gateway.cli.keys import keys
from gateway.cli.replicas import replicas
from gateway.cli.scopes import scopes
from gateway.cli.tokens import tokens
from gateway.policy.document import PolicySet
from gateway.policy.load import PolicyError, load
from gateway.policy.source import read_file
from gateway.policy.strict import doubts
from gateway.policy.texts import Texts
from gateway.settings import DEBUG_VARIABLE, UnusableSecret, environment, policy_path

FAILED: Final = 1
WRONG_INPUT: Final = 2

app = typer.Typer(
    name="fencegate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A storage gateway that refuses the writes of holders which outlived their lease.",
)

Policies = Annotated[
    list[Path] | None,
    typer.Argument(help="Policy files, taken together; without one: the quick start."),
]
PolicyOption = Annotated[
    list[Path] | None,
    typer.Option("--policy", help="A policy file, may be repeated; without one: the quick start."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Set one key of the policy, such as server.listen=127.0.0.1:0; may be repeated.",
    ),
]


def main() -> None:
    """Run the command line."""
    try:
        app()
    except (OSError, UnusableSecret) as error:
        _fail(str(error))
    except Exception as error:
        if environment().get(DEBUG_VARIABLE):
            traceback.print_exc()
        _fail(
            f"{type(error).__name__}: {error}\nThis is a fault of fencegate, not of what you typed;"
            f" {DEBUG_VARIABLE}=1 shows where it happened."
        )


def _fail(text: str) -> None:
    typer.echo(f"fencegate: {text}", err=True)
    sys.exit(FAILED)


def _load(
    paths: list[Path] | None,
    overrides: list[str] | None,
    read: Callable[[Path], str] = read_file,
) -> PolicySet:
    named = paths or [policy_path()]
    try:
        return load(named, environ=environment(), overrides=overrides or (), read=read)
    except PolicyError as wrong:
        for mistake in wrong.mistakes:
            typer.echo(str(mistake), err=True)
        raise typer.Exit(WRONG_INPUT) from None


@app.command()
def serve(
    policy: Policies = None,
    set_: Overrides = None,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes, each a replica, on the same sockets.")
    ] = 1,
    accept_rescope: Annotated[
        bool,
        typer.Option(
            "--accept-rescope", help="Take a policy that gives resources other scopes than before."
        ),
    ] = False,
    worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve a policy until SIGTERM or SIGINT."""
    if worker is not None:
        from gateway import app as root
        from gateway.edge.place import Place
        from gateway.edge.supervised import SupervisorLine

        index, *fds = map(int, worker.split(","))
        line = SupervisorLine(fds.pop())
        place = Place(tuple(fds), index, accept_rescope, line)
        raise typer.Exit(root.serve(_load(policy, set_, line.read), place))
    texts = Texts.of(policy or [policy_path()])
    checked = _load(policy, set_, texts.read)
    if workers == 1:
        from gateway import app as root
        from gateway.edge.place import Place

        raise typer.Exit(root.serve(checked, Place(accept_rescope=accept_rescope)))
    if checked.registry.type == "memory":
        text = 'registry.type = "memory" is one process\'s own: --workers 1, or type = "sqlite"'
        typer.echo(f"fencegate: {text}", err=True)
        raise typer.Exit(WRONG_INPUT)
    arguments = [str(path) for path in policy or ()]
    arguments += [part for assignment in set_ or () for part in ("--set", assignment)]
    raise typer.Exit(_supervised(checked, texts, arguments, workers, accept_rescope))


def _supervised(
    checked: PolicySet, texts: Texts, arguments: list[str], workers: int, accept: bool
) -> int:
    from gateway.edge.server import CannotListen
    from gateway.supervisor import ACCEPT_RESCOPE, supervise

    arguments += [ACCEPT_RESCOPE] if accept else []
    try:
        return supervise(checked, texts, arguments, workers)
    except CannotListen as error:
        typer.echo(f"fencegate: {error}", err=True)
        return FAILED


@app.command()
def check(
    policy: Policies = None,
    set_: Overrides = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail on paths without a rule, rules that overlap, dead scopes of keys.",
        ),
    ] = False,
    connect: Annotated[
        bool,
        typer.Option("--connect", help="Reach the registry and every store; tell the guarantees."),
    ] = False,
) -> None:
    """Check a policy without serving it; every mistake is told by file, line and key."""
    checked = _load(policy, set_)
    _tell(checked)
    doubtful = list(doubts(checked)) if strict else []
    for doubt in doubtful:
        typer.echo(doubt, err=True)
    reached = asyncio.run(_connected(checked)) if connect else True
    if doubtful:
        raise typer.Exit(WRONG_INPUT)
    if not reached:
        raise typer.Exit(FAILED)


async def _connected(checked: PolicySet) -> bool:
    """Tell what was reached; False when something was not."""
    from gateway.cli.connect import connect

    reached = True
    async for good, name, text in connect(checked):
        typer.echo(f"{name:<7} {text}" if good else f"{'FAILED':<7} {name} {text}")
        reached = reached and good
    return reached


def _tell(checked: PolicySet) -> None:
    for path in checked.sources:
        typer.echo(f"ok      {path}")
    for store in checked.stores.values():
        place = store.mount or str(store.listen)
        access = "" if checked.covered(store.name) else ", open: no key needed"
        typer.echo(f"store   {store.name}: {store.type}, {store.dialect} at {place}{access}")
    for rule in checked.rules:
        typer.echo(f"rule    {rule.match} -> {rule.scope or f'mode {rule.mode}'}")
    typer.echo(f"digest  {checked.digest}")


@app.command()
def explain(
    method: Annotated[str, typer.Argument(help="GET, PUT, …")],
    url: Annotated[str, typer.Argument(help="The URL as a worker sends it, or its path.")],
    policy: PolicyOption = None,
    set_: Overrides = None,
    token: Annotated[str | None, typer.Option(help="The X-Fence-Token of the request.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help='A header field, "Name: value"; may be repeated.'),
    ] = None,
) -> None:
    """Say what a request would meet: store, rule, scope, answer, and what is promised for it."""
    checked = _load(policy, set_)
    if not (method.isascii() and method.isalpha()):
        typer.echo(f'"{method}" is no method: write METHOD URL, such as PUT /files/x', err=True)
        raise typer.Exit(WRONG_INPUT)
    fields = tuple(_field(text) for text in header or ())
    try:
        for name, text in explained(checked, Question(method.upper(), url, token, fields)):
            typer.echo(f"{name:<12} {text}")
    except NotServed as wrong:
        typer.echo(str(wrong), err=True)
        raise typer.Exit(FAILED) from None


def _field(text: str) -> tuple[bytes, bytes]:
    name, colon, value = text.partition(":")
    if not colon or not name or not text.isascii() or any(c.isspace() for c in name):
        typer.echo(f'"{text}" is no header field: write "Name: value"', err=True)
        raise typer.Exit(WRONG_INPUT)
    return name.lower().encode(), value.strip().encode()


@app.command()
def migrate(
    store: Annotated[str, typer.Argument(help="The name of a store in the policy.")],
    policy: PolicyOption = None,
    set_: Overrides = None,
) -> None:
    """Create or upgrade the fence schema of a database store."""
    checked = _load(policy, set_)
    from gateway import app as root

    raise typer.Exit(root.migrate(checked, store))


@app.command()
def demo() -> None:
    """Play the story of a stale holder with real processes."""
    from gateway.demo import play

    raise typer.Exit(play())


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of the control API."""
    from gateway.edge.control import describe

    typer.echo(json.dumps(describe(metadata.version("fencegate")), indent=2))


app.add_typer(keys, name="keys")
app.add_typer(scopes, name="scopes")
app.add_typer(replicas, name="replicas")
app.add_typer(tokens, name="tokens")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"fencegate {metadata.version('fencegate')}")
