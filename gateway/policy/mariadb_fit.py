"""Keys of a MariaDB store that do not fit one another, and its driver."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from gateway.policy.store_settings import MariadbSettings

_DRIVER: Final = "asyncmy"
_INSTALL: Final = "pip install 'fencegate[mariadb]'"


def mariadb_misfits(store: MariadbSettings) -> Iterator[tuple[str, str]]:
    """The keys that do not go together or lack a library, each with what to change."""
    if find_spec(_DRIVER) is None:
        yield "type", f'"mariadb" needs the extra `mariadb`: {_INSTALL}'
    if store.password_file is not None and _password_in(store.dsn):
        yield "password_file", "dsn holds a password too: remove one of them"
    if store.ca_file is None:
        for key in ("cert_file", "key_file"):
            if getattr(store, key) is not None:
                yield key, "is of no use without ca_file; set it, or remove this"
    elif store.key_file is not None and store.cert_file is None:
        yield "key_file", "is of no use without cert_file; set it, or remove this"


def _password_in(dsn: str) -> bool:
    try:
        return bool(urlsplit(dsn).password)
    except ValueError:  # told where it is used
        return False
