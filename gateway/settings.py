"""The settings from outside a policy: the one reader of the environment and of secret files."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.model.worker import WorkerKey, secret_digest
from gateway.policy.auth_settings import ADMIN
from gateway.policy.document import PolicySet
from gateway.policy.load import load
from gateway.policy.source import read_file
from gateway.policy.store_settings import S3Settings

ADMIN_KEY_VARIABLE: Final = "FENCEGATE_ADMIN_KEY"
DEBUG_VARIABLE: Final = "FENCEGATE_DEBUG"
URL_VARIABLE: Final = "FENCEGATE_URL"
METRICS_DIR_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"

VARIABLES: Final = MappingProxyType(
    {
        ADMIN_KEY_VARIABLE: "The admin key of the control API: 8 to 256 visible ASCII characters. "
        "Without it one is generated in the file that `admin.key_file` names.",
        URL_VARIABLE: "Where `fencegate scopes` finds the control API; the same as `--url`.",
        METRICS_DIR_VARIABLE: "Set by `serve --workers` for its workers, which add up their "
        "metrics there; of no use to set by hand.",
        DEBUG_VARIABLE: "When set, a fault of the program is shown with its traceback.",
    }
)
"""Every variable that the product itself reads; policies may name others as `${NAME}`."""

_KEY: Final = re.compile(r"[\x21-\x7e]{8,256}")


class UnusableSecret(ValueError):
    """A key that was given, or the file it should be in, cannot serve as one."""


def environment() -> Mapping[str, str]:
    """The process's environment, for interpolation in policies."""
    return os.environ


def reread(policy: PolicySet, read: Callable[[Path], str] = read_file) -> PolicySet:
    """Read the files of a policy again, as they were named. Raises `PolicyError`."""
    return load(policy.sources, environ=environment(), overrides=policy.overrides, read=read)


def policy_path() -> Path:
    """The quick start: from the checkout, or from the installed package that it ships in."""
    here = Path(__file__).parent
    checkout = here.parent / "policies" / "quickstart.toml"
    return checkout if checkout.exists() else here / "shipped_policies" / "quickstart.toml"


def admin_key(policy: PolicySet, environ: Mapping[str, str]) -> str:
    """The admin key: FENCEGATE_ADMIN_KEY, or the generated file that only its owner can read.

    Raises `UnusableSecret`, also for a key that the policy gives to somebody else, and OSError when
    the file cannot be made or read.
    """
    given = environ.get(ADMIN_KEY_VARIABLE)
    if not given:
        path = policy.data(policy.admin.key_file)
        return _own(secret_file(path), policy, str(path))
    if not _KEY.fullmatch(given):
        raise UnusableSecret(f"{ADMIN_KEY_VARIABLE} must be 8 to 256 visible ASCII characters")
    return _own(given, policy, ADMIN_KEY_VARIABLE)


def _own(secret: str, policy: PolicySet, source: str) -> str:
    """The secret, unless a worker or another admin has it: it would open more than its own."""
    digest = secret_digest(secret)
    others = [(f"auth.keys {key.id}", key.worker_key()) for key in policy.keys]
    others += [(f"admin.keys {key.id}", key.admin_key()) for key in policy.admin.keys]
    for name, key in others:
        if key.has(digest):
            raise UnusableSecret(f"{source} holds the secret of {name}: give the admin its own")
    return secret


def admin_keys(policy: PolicySet, environ: Mapping[str, str]) -> tuple[WorkerKey, ...]:
    """Every admin key: the one above, called admin, and those of the policy. Raises as it does."""
    first = WorkerKey(ADMIN, admin_key(policy, environ))
    return (first, *(key.admin_key() for key in policy.admin.keys))


def stamp_secret(store: S3Settings, policy: PolicySet) -> bytes:
    """What a store's stamps are sealed with: its `stamp_key`, or that of the data directory.

    Raises as `secret_file` does.
    """
    return (store.stamp_key or secret_file(policy.data(Path("stamp-key")))).encode()


def password_in(path: Path) -> str:
    """The password that somebody put into a file; a line break at its end is no part of it.

    Raises `UnusableSecret` when there is none, and OSError.
    """
    password = path.read_text("utf-8").rstrip("\r\n")
    if not password:
        raise UnusableSecret(f"{path} is empty: put the password into it")
    return password


def secret_file(path: Path) -> str:
    """The secret kept in a file that only its owner can read; made when it is not there.

    Raises `UnusableSecret` when the file holds none, and OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
    secret = path.read_text("utf-8", "replace").strip()
    if not secret:
        raise UnusableSecret(f"{path} is empty: restore it from a backup, or remove it")
    if not _KEY.fullmatch(secret):
        raise UnusableSecret(f"{path} must hold 8 to 256 visible ASCII characters and nothing else")
    return secret
