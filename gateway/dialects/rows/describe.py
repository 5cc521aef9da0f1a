"""The description of the exposed tables at a store's root, as PostgREST gives it.

Source: PostgREST reference, "OpenAPI"; OpenAPI Specification 2.0.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, Final

from gateway.model.catalogue import Catalogue, Column, ColumnKind, Table
from gateway.ports.dialect import Reply

_TYPES: Final = MappingProxyType(
    {
        ColumnKind.INTEGER: "integer",
        ColumnKind.REAL: "number",
        ColumnKind.NUMERIC: "number",
        ColumnKind.BOOLEAN: "boolean",
    }
)
_MEDIA_TYPE: Final = b"application/openapi+json; charset=utf-8"
_TOKEN: Final = {
    "name": "X-Fence-Token",
    "in": "header",
    "type": "string",
    "description": "The number that came with the lease; every mutation carries it.",
}
_PREFER: Final = {"name": "Prefer", "in": "header", "type": "string"}
_PAGE: Final = tuple(
    {"name": name, "in": "query", "type": "string"} for name in ("select", "order")
) + tuple({"name": name, "in": "query", "type": "integer"} for name in ("limit", "offset"))


def describe(method: str, catalogue: Catalogue, mount: str) -> Reply:
    """Answer a read of the root with the description of all tables."""
    document = {
        "swagger": "2.0",
        "info": {"title": f"Tables of schema {catalogue.schema}", "version": "1"},
        "basePath": mount,
        "consumes": ["application/json", "text/csv", "application/x-www-form-urlencoded"],
        "produces": ["application/json", "application/vnd.pgrst.object+json", "text/csv"],
        "paths": {f"/{name}": _path(table) for name, table in catalogue.tables.items()},
        "definitions": {name: _definition(table) for name, table in catalogue.tables.items()},
    }
    body = json.dumps(document, ensure_ascii=False).encode()
    fields = [(b"content-type", _MEDIA_TYPE)]
    if method == "HEAD":
        fields.append((b"content-length", b"%d" % len(body)))
        body = b""
    return Reply(200, tuple(fields), body)


def _path(table: Table) -> dict[str, Any]:
    filters = [{"name": column.name, "in": "query", "type": "string"} for column in table.columns]
    rows = {"type": "array", "items": _reference(table)}
    body = {"name": "body", "in": "body", "schema": _reference(table)}
    written = {"2XX": {"description": "Applied."}, "412": {"description": "A newer holder wrote."}}
    change = {"parameters": [*filters, body, _TOKEN, _PREFER], "responses": written}
    found: dict[str, Any] = {
        "get": {
            "parameters": [*filters, *_PAGE, _PREFER],
            "responses": {"200": {"description": "Rows.", "schema": rows}},
        },
        "post": {"parameters": [body, _TOKEN, _PREFER], "responses": written},
        "patch": change,
        "delete": {"parameters": [*filters, _TOKEN, _PREFER], "responses": written},
    }
    if table.primary_key:
        found["put"] = change
    return found


def _reference(table: Table) -> dict[str, str]:
    return {"$ref": f"#/definitions/{table.name}"}


def _definition(table: Table) -> dict[str, Any]:
    required = [c.name for c in table.columns if not c.nullable and not c.has_default]
    found: dict[str, Any] = {
        "type": "object",
        "properties": {column.name: _property(table, column) for column in table.columns},
    }
    if required:
        found["required"] = required
    return found


def _property(table: Table, column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {"format": column.type_name.removeprefix("pg_catalog.")}
    if column.kind is not ColumnKind.JSON:
        found["type"] = _TYPES.get(column.kind, "string")
    if column.max_chars is not None:
        found["maxLength"] = column.max_chars
    if column.name in table.primary_key:
        found["description"] = "Note:\nThis is a Primary Key.<pk/>"
    elif column.name == table.version_column:
        found["description"] = "The row's version: raised by the gateway, and given as ETag."
    if column.generated or column.name == table.version_column:
        found["readOnly"] = True
    return found
