"""The policy document as data: which section has which keys, with default and description.

Errors and the settings reference both read it here, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from gateway.policy.auth_settings import AdminKeySettings
from gateway.policy.document import (
    AdminSettings,
    AuthSettings,
    FilesSettings,
    HttpSettings,
    KeySettings,
    Limits,
    MariadbSettings,
    PostgresSettings,
    RegistrySettings,
    RuleSettings,
    S3Settings,
    ServerSettings,
    SqliteSettings,
    TableSettings,
    TelemetrySettings,
    TlsSettings,
)
from gateway.policy.issuer_settings import IssuerSettings
from gateway.policy.token_settings import TokenKeySettings, TokensSettings

INTERNAL: Final = frozenset({"name", "where"})
"""Fields that the loader fills in; in a file they are unknown keys."""

STORE_TYPES: Final[Mapping[str, type]] = MappingProxyType(
    {
        "files": FilesSettings,
        "sqlite": SqliteSettings,
        "postgres": PostgresSettings,
        "mariadb": MariadbSettings,
        "s3": S3Settings,
        "http": HttpSettings,
    }
)

SECTIONS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "[server]": ServerSettings,
        "[registry]": RegistrySettings,
        "[admin]": AdminSettings,
        "[[admin.keys]]": AdminKeySettings,
        "[limits]": Limits,
        "[telemetry]": TelemetrySettings,
        "[auth]": AuthSettings,
        "[[auth.keys]]": KeySettings,
        "[[auth.issuers]]": IssuerSettings,
        "[tokens]": TokensSettings,
        "[[tokens.keys]]": TokenKeySettings,
        "[tls]": TlsSettings,
        '[stores.<name>] of type "files"': FilesSettings,
        '[stores.<name>] of type "sqlite"': SqliteSettings,
        '[stores.<name>] of type "postgres"': PostgresSettings,
        '[stores.<name>] of type "mariadb"': MariadbSettings,
        '[stores.<name>] of type "s3"': S3Settings,
        '[stores.<name>] of type "http"': HttpSettings,
        "[stores.<name>.tables.<table>]": TableSettings,
        "[[rules]]": RuleSettings,
    }
)
"""Every section of the document, as a file writes it, in the order of the reference."""


class Setting(NamedTuple):
    """One key of a section. `default` is MISSING when the key is required."""

    key: str
    default: object
    description: str

    @property
    def required(self) -> bool:
        """True when a file must set it."""
        return self.default is MISSING


def settings_of(section: type) -> tuple[Setting, ...]:
    """Give the keys of a section, in order."""
    hints = get_type_hints(section, include_extras=True)
    return tuple(
        Setting(f.name, _default(f), _description(hints[f.name]) or "")
        for f in fields(section)
        if f.name not in INTERNAL
    )


def keys_of(section: type) -> frozenset[str]:
    """Give the names of a section's keys."""
    return frozenset(f.name for f in fields(section)) - INTERNAL


def description_of(section: type, key: str) -> str | None:
    """Give what a key of a section holds, in words."""
    hints = get_type_hints(section, include_extras=True)
    return _description(hints[key]) if key in hints else None


def owners_of(key: str) -> tuple[str, ...]:
    """Give the sections that have a key of this name, for one that stands in the wrong place."""
    return tuple(title for title, section in SECTIONS.items() if key in keys_of(section))


def _default(field: Any) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _description(hint: object) -> str | None:
    return next(_descriptions(hint), None)


def _descriptions(hint: object) -> Iterator[str]:
    """Walk an annotation from the outside: the nearest description is the field's own."""
    if get_origin(hint) is Annotated:
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, FieldInfo) and note.description:
                yield note.description
    for inner in get_args(hint):
        yield from _descriptions(inner)
