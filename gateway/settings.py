"""The settings from outside a policy: the one reader of the environment and of the admin key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.policy.document import PolicySet

ADMIN_KEY_VARIABLE: Final = "FENCEGATE_ADMIN_KEY"


def environment() -> Mapping[str, str]:
    """The process's environment, for interpolation in policies."""
    return os.environ


def policy_path(argument: Path | None) -> Path:
    """The policy file to use: the argument, or the quick start that ships with the product."""
    if argument is not None:
        return argument
    here = Path(__file__).parent
    checkout = here.parent / "policies" / "quickstart.toml"
    return checkout if checkout.exists() else here / "shipped_policies" / "quickstart.toml"


def admin_key(policy: PolicySet, environ: Mapping[str, str]) -> str:
    """The admin key: FENCEGATE_ADMIN_KEY, or the generated file that only its owner can read."""
    given = environ.get(ADMIN_KEY_VARIABLE)
    if given:
        return given
    return secret_file(policy.data(policy.admin.key_file))


def secret_file(path: Path) -> str:
    """The secret kept in a file that only its owner can read; made when it is not there.

    Raises `ValueError` when the file is empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
    secret = path.read_text().strip()
    if not secret:
        raise ValueError(f"{path} is empty: restore it from a backup, or remove it")
    return secret
