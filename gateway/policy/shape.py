"""From plain values to settings: the types, bounds and names of a document, piece by piece.

Each section is validated alone, so that a mistake in one does not hide the mistakes of another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from gateway.policy.auth_settings import AdminKeySettings
from gateway.policy.complaint import Complaints, closest, nearest, shown
from gateway.policy.document import (
    AdminSettings,
    AuthSettings,
    Document,
    KeySettings,
    Limits,
    RegistrySettings,
    RuleSettings,
    ServerSettings,
    StoreSettings,
    TableSettings,
    TelemetrySettings,
    TlsSettings,
)
from gateway.policy.issuer_settings import IssuerSettings
from gateway.policy.kinds import NAME_PATTERN
from gateway.policy.lines import Path
from gateway.policy.schema import INTERNAL, STORE_TYPES, description_of, keys_of, owners_of
from gateway.policy.source import Source
from gateway.policy.token_settings import TokenKeySettings, TokensSettings

S = TypeVar("S")

_SINGLE: Final[Mapping[str, type]] = {
    "server": ServerSettings,
    "registry": RegistrySettings,
    "admin": AdminSettings,
    "limits": Limits,
    "telemetry": TelemetrySettings,
    "auth": AuthSettings,
    "tls": TlsSettings,
    "tokens": TokensSettings,
}
_ADAPTERS: Final[dict[type, TypeAdapter[Any]]] = {}
_STORE_NAME: Final = re.compile(NAME_PATTERN)


@dataclass(slots=True)
class Draft:
    """What of a document has the right shape. A section with a mistake is missing (None)."""

    server: ServerSettings | None = None
    registry: RegistrySettings | None = None
    admin: AdminSettings | None = None
    limits: Limits | None = None
    telemetry: TelemetrySettings | None = None
    auth: AuthSettings | None = None
    tls: TlsSettings | None = None
    tokens: TokensSettings | None = None
    stores: dict[str, StoreSettings] = field(default_factory=dict)
    rules: dict[int, RuleSettings] = field(default_factory=dict)
    store_names: frozenset[str] = frozenset()


def shape(source: Source, complaints: Complaints) -> Draft:
    """Validate every section; what is wrong goes to `complaints`."""
    draft = Draft()
    for key in source.data.keys() - keys_of(Document):
        _unknown(Document, (key,), complaints)
    for key, section in _SINGLE.items():
        value = source.data.get(key, {})
        setattr(draft, key, _validated(section, value, (key,), complaints))
    stores = _table(source, "stores", complaints)
    draft.store_names = frozenset(stores)
    if not stores:
        complaints.add(("stores",), "at least one store is needed: [stores.files], for example")
    for name, value in stores.items():
        store = _store(name, value, complaints)
        if store is not None:
            draft.stores[name] = store
    draft.rules = _rules(source, complaints)
    return draft


def _table(source: Source, key: str, complaints: Complaints) -> dict[str, Any]:
    value = source.data.get(key, {})
    if isinstance(value, dict):
        return value
    complaints.add((key,), f"expected tables such as [{key}.files]")
    return {}


def _store(name: str, value: Any, complaints: Complaints) -> StoreSettings | None:
    path = ("stores", name)
    if not _STORE_NAME.fullmatch(name):
        message = "a store's name is made of a-z, 0-9, _ and -, starts with a letter or digit, "
        complaints.add(path, message + "and has at most 63 characters")
        return None
    if not isinstance(value, dict):
        complaints.add(path, f"expected a table: [stores.{name}]")
        return None
    kind = value.get("type")
    section = STORE_TYPES.get(kind) if isinstance(kind, str) else None
    if section is None:
        known = ", ".join(f'"{t}"' for t in STORE_TYPES)
        slip = _slip_for_type(value)
        if slip is not None:
            hint = f"did you mean type? One of {known}"
            complaints.add((*path, slip), "there is no such key here", hint)
        elif "type" not in value:
            complaints.add((*path, "type"), f"is required: one of {known}")
        else:
            message = f"expected one of {known}, found {shown((), kind)}"
            complaints.add((*path, "type"), message, nearest(str(kind), STORE_TYPES))
        return None
    store: StoreSettings | None = _validated(section, value, path, complaints, name=name)
    if store is not None and store.dialect != "s3" and store.mount is None:
        store = replace(store, mount=f"/{name}")
    return store


def _slip_for_type(value: Mapping[str, Any]) -> str | None:
    """The key that was meant to be `type`, where there is none and one looks like it."""
    if "type" in value:
        return None
    return next((k for k in value if not owners_of(k) and closest(k, ["type"])), None)


def _rules(source: Source, complaints: Complaints) -> dict[int, RuleSettings]:
    value = source.data.get("rules", [])
    if not isinstance(value, list):
        complaints.add(("rules",), "expected a list of tables: [[rules]] with double brackets")
        return {}
    rules = {}
    for index, element in enumerate(value):
        path = ("rules", index)
        where = str(complaints.place(path))
        rule = _validated(RuleSettings, element, path, complaints, where=where)
        if rule is not None:
            rules[index] = rule
    return rules


def _validated(
    section: type[S], value: Any, path: Path, complaints: Complaints, **internal: str
) -> S | None:
    """Validate one section, or complain of every mistake in it and give None."""
    if not isinstance(value, dict):
        complaints.add(path, f"expected a table, found {shown(path, value)}")
        return None
    mistaken = INTERNAL & value.keys()
    for key in mistaken:
        _unknown(section, (*path, key), complaints)
    try:
        if section not in _ADAPTERS:
            _ADAPTERS[section] = TypeAdapter(section)
        result: S = _ADAPTERS[section].validate_python({**value, **internal})
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _complain(section, path, detail, complaints)
        return None
    return None if mistaken else result


def _complain(section: type, base: Path, detail: Any, complaints: Complaints) -> None:
    """Put one finding of the validator into the words of the document."""
    inner: Path = tuple(k for k in detail["loc"] if k != "[key]")
    path = base + inner
    section = _section_at(section, inner[:-1])
    key = str(inner[-1]) if inner else ""
    match detail["type"]:
        case "unexpected_keyword_argument":
            _unknown(section, path, complaints)
        case "missing":
            description = description_of(section, key)
            complaints.add(path, f"is required: {description}" if description else "is required")
        case "literal_error" | "enum":
            expected = detail["ctx"]["expected"].replace("'", '"')
            names = re.findall(r'"([^"]*)"', expected)
            found = shown(path, detail["input"])
            hint = closest(str(detail["input"]), names)
            complaints.add(path, f"expected {expected}, found {found}", hint)
        case kind:
            message = _expectation(kind, detail, description_of(section, key))
            complaints.add(path, f"{message}, found {shown(path, detail['input'])}")


def _expectation(kind: str, detail: Any, description: str | None) -> str:
    context = detail.get("ctx", {})
    match kind:
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch" if description:
            return f"expected {description[0].lower()}{description[1:].rstrip('.')}"
        case "string_pattern_mismatch":
            return f"expected text of the form {context['pattern']}"
        case "string_too_short":
            return "expected some text"
        case "int_type":
            return "expected a whole number, without quotes"
        case "string_type" | "path_type":
            return 'expected text in quotes ("…")'
        case "tuple_type":
            return 'expected a list: ["…"]'
        case "greater_than_equal":
            return f"expected at least {context['ge']}"
        case "less_than_equal":
            return f"expected at most {context['le']}"
        case "dataclass_type" | "mapping_type" | "dict_type" | "model_attributes_type":
            return "expected a table"
        case _:
            return str(detail["msg"])


def _section_at(section: type, inner: Path) -> type:
    """Find the section that a path inside another one leads to."""
    match inner:
        case ("keys", int()) if section is AuthSettings:
            return KeySettings
        case ("keys", int()) if section is AdminSettings:
            return AdminKeySettings
        case ("keys", int()) if section is TokensSettings:
            return TokenKeySettings
        case ("issuers", int()) if section is AuthSettings:
            return IssuerSettings
        case ("tables", str()):
            return TableSettings
        case _:
            return section


def _unknown(section: type, path: Path, complaints: Complaints) -> None:
    key = str(path[-1])
    hint = closest(key, keys_of(section))
    owners = owners_of(key)
    if hint is None and owners:
        hint = f"{key} is a key of {', '.join(owners)}"
    complaints.add(path, "there is no such key here", hint or nearest(key, keys_of(section)))
