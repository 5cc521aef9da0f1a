"""The command line: serve, check, explain, migrate, demo."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gateway.policy.document import PolicySet, RuleSettings
from gateway.policy.load import PolicyError, load
from gateway.policy.store_settings import StoreSettings
from gateway.settings import environment, policy_path

app = typer.Typer(
    name="fencegate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A storage gateway that refuses the writes of holders which outlived their lease.",
)

Policies = Annotated[
    list[Path] | None, typer.Argument(help="Policy files; the quick start without one.")
]
PolicyOption = Annotated[
    list[Path] | None, typer.Option("--policy", help="Policy files; the quick start without one.")
]

NOT_COVERED = (
    "writers that bypass the gateway",
    "effects of a store later than its settle_ms",
    "a gateway process frozen between gate and send for longer than member_ttl + settle",
    "ETags that repeat (an S3 ETag is a content hash)",
    "a registry that loses its marks, or is restored from a backup",
)


def main() -> None:
    """Run the command line."""
    app()


def _load(paths: list[Path] | None) -> PolicySet:
    chosen = paths or [policy_path(None)]
    try:
        return load(chosen, environ=environment())
    except PolicyError as wrong:
        for mistake in wrong.mistakes:
            typer.echo(str(mistake), err=True)
        raise typer.Exit(2) from None


@app.command()
def serve(policy: Policies = None) -> None:
    """Serve a policy until SIGTERM or SIGINT."""
    from gateway import app as root

    raise typer.Exit(root.serve(_load(policy)))


@app.command()
def check(policy: Policies = None) -> None:
    """Check policy files without serving them; says file, line and key of every mistake."""
    checked = _load(policy)
    stores = ", ".join(f"{s.name} ({s.dialect})" for s in checked.stores.values())
    typer.echo(f"ok: {len(checked.stores)} stores: {stores}; {len(checked.rules)} rules")


@app.command()
def explain(method: str, url: str, policy: PolicyOption = None) -> None:
    """Say which store, rule and scope a request gets, and what is promised for it."""
    checked = _load(policy)
    store, path = _locate(checked, url)
    if store is None:
        typer.echo(f"no store of the policy answers {url}", err=True)
        raise typer.Exit(1)
    rule = _rule(checked, store, path)
    typer.echo(f"store     {store.name} ({store.type}, {store.dialect})")
    if rule is None:
        typer.echo("rule      none: every resource is its own scope")
    else:
        typer.echo(f"rule      {rule.where}: match {rule.match}")
        typer.echo(f"scope     {rule.scope or 'the resource itself'}")
        typer.echo(f"mode      {rule.mode}, reads = {rule.reads}")
    needs = "no token needed" if method.upper() in {"GET", "HEAD", "OPTIONS"} else "needs a token"
    typer.echo(f"request   {method.upper()}: {needs}")
    typer.echo(f"promise   {_promise(store)}")
    typer.echo("not covered: " + "; ".join(NOT_COVERED))


def _promise(store: StoreSettings) -> str:
    if store.type == "s3" and store.conditions == "none":
        return "drain alone: exact while every effect comes within settle_ms of its last byte"
    if store.type == "s3":
        return "exact within settle_ms of the last byte; later, objects rewritten since are safe"
    return "exact: the mark is checked in the transaction, or under the lock, that writes"


def _locate(policy: PolicySet, url: str) -> tuple[StoreSettings | None, str]:
    parts = urlsplit(url)
    path = parts.path or "/"
    for store in policy.listening():
        if store.listen is not None and parts.port == store.listen.port:
            return store, path
    mounted = [s for s in policy.mounted() if path.startswith(f"{s.mount}/")]
    return max(mounted, key=lambda s: len(s.mount or ""), default=None), path


def _rule(policy: PolicySet, store: StoreSettings, path: str) -> RuleSettings | None:
    from gateway.policy.decide import Decider

    return Decider.compile(policy).rule_for(store.name, path)


@app.command()
def migrate(store: str, policy: PolicyOption = None) -> None:
    """Create or upgrade the fence schema of a database store."""
    from gateway import app as root

    raise typer.Exit(root.migrate(_load(policy), store))


@app.command()
def demo() -> None:
    """Play the story of a stale holder with real processes."""
    from gateway.demo import play

    raise typer.Exit(play())


@app.command()
def version() -> None:
    """Print the version."""
    sys.stdout.write(f"fencegate {metadata.version('fencegate')}\n")
