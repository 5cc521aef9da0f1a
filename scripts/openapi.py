"""Writes openapi/: the control API as its app describes it, the data plane from the catalogue.

python scripts/openapi.py            writes openapi/control.json and openapi/data-plane.json
python scripts/openapi.py --check    writes nothing, and fails when the committed files differ
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gateway.edge.control import describe
from gateway.model.problem import STATUS, Code

FOLDER = Path(__file__).parents[1] / "openapi"
TOKEN_PATTERN = "^[1-9][0-9]{0,18}$"
MUTATIONS = ("put", "post", "patch", "delete")
READS = ("get", "head")
PROBLEM_MEMBERS = {
    "type": {"type": "string", "format": "uri"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string", "description": "What to change."},
    "code": {"$ref": "#/components/schemas/Code"},
    "request_id": {"type": "string"},
    "resource": {"type": "string"},
    "token": {"type": "integer", "format": "int64"},
    "mark": {"type": "integer", "format": "int64", "description": "On a stale refusal only."},
    "details": {"type": "string"},
    "hint": {"type": "string"},
}


def control() -> dict[str, Any]:
    """The control API: what its FastAPI app says of itself. Nothing is served or called."""
    return describe(version("fencegate"))


def header(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A response field."""
    return {"description": description, "schema": schema}


def field(name: str, description: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request field."""
    return {"name": name, "in": "header", "description": description, "schema": schema, **more}


def components() -> dict[str, Any]:
    """Fields, codes and the problem shape, shared by all operations."""
    return {
        "parameters": {
            "Token": field(
                "X-Fence-Token",
                "The fencing token of the lease, 1 to 2^63-1. Exactly one field, ASCII digits.",
                {"type": "string", "pattern": TOKEN_PATTERN},
            ),
            "Holder": field(
                "X-Fence-Holder",
                "One id per acquisition of the lease.",
                {"type": "string", "pattern": "^[\\x21-\\x7e]{1,128}$"},
            ),
        },
        "headers": {
            "X-Request-Id": header("The id of this request in the logs.", {"type": "string"}),
            "X-Fence-Outcome": header(
                "How the mutation ended.", {"enum": ["applied", "refused", "unknown"]}
            ),
            "X-Fence-Mark": header(
                "The mark above the token. On a stale refusal only.",
                {"type": "string", "pattern": TOKEN_PATTERN},
            ),
            "Retry-After": header("Seconds until a retry is worth it.", {"type": "integer"}),
        },
        "schemas": {
            "Code": {"enum": [code.value for code in Code]},
            "Problem": {
                "type": "object",
                "required": ["type", "title", "status", "detail", "code", "request_id"],
                "properties": PROBLEM_MEMBERS,
            },
        },
        "securitySchemes": {"worker": {"type": "http", "scheme": "bearer"}},
    }


def reference(kind: str, name: str) -> dict[str, str]:
    """A pointer into the components."""
    return {"$ref": f"#/components/{kind}/{name}"}


def refusals(*, mutation: bool) -> dict[str, Any]:
    """The gateway's own answers, one entry a status with the codes that it stands for."""
    by_status: dict[int, list[str]] = {}
    for code, status in STATUS.items():
        by_status.setdefault(status, []).append(code.value)
    answers: dict[str, Any] = {}
    for status, codes in sorted(by_status.items()):
        names = ["X-Request-Id"] + ["X-Fence-Outcome"] * mutation
        names += ["X-Fence-Mark"] * (status == STATUS[Code.TOKEN_STALE])
        names += ["Retry-After"] * (status == STATUS[Code.BUSY])
        answers[str(status)] = {
            "description": ", ".join(f"`{code}`" for code in codes),
            "headers": {name: reference("headers", name) for name in names},
            "content": {"application/problem+json": {"schema": reference("schemas", "Problem")}},
        }
    return answers


def operation(method: str) -> dict[str, Any]:
    """One method on a resource of an http store."""
    mutation = method in MUTATIONS
    names = ["X-Request-Id"] + ["X-Fence-Outcome"] * mutation
    token = "required, unless a rule exempts it" if mutation else "optional, and never raised"
    return {
        "summary": f"{method.upper()} a resource; the token is {token}",
        "operationId": f"{method}Resource",
        "parameters": [reference("parameters", "Token"), reference("parameters", "Holder")],
        "responses": {
            "2XX": {
                "description": "The store's answer.",
                "headers": {name: reference("headers", name) for name in names},
            },
            **refusals(mutation=mutation),
        },
    }


def data_plane() -> dict[str, Any]:
    """Fields and errors of the data plane, as the http dialect speaks them."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fencegate data plane",
            "version": version("fencegate"),
            "description": "What the gateway adds to a store's own language: request fields, "
            "response fields and its own answers. The s3 and rows dialects use the same codes and "
            "statuses in the shape of their own errors.",
        },
        "security": [{}, {"worker": []}],
        "paths": {
            "/{mount}/{resource}": {
                "parameters": [
                    {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                    for name in ("mount", "resource")
                ],
                **{method: operation(method) for method in (*READS, *MUTATIONS)},
            }
        },
        "components": components(),
    }


def text_of(document: dict[str, Any]) -> str:
    """The committed form: indented, keys in the order they were written."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def drift(name: str, document: dict[str, Any]) -> list[str]:
    """How a committed document differs from what the product says now, as a diff."""
    path = FOLDER / name
    committed = path.read_text().splitlines() if path.exists() else []
    current = text_of(document).splitlines()
    return list(
        difflib.unified_diff(committed, current, f"openapi/{name}", "the app", n=1, lineterm="")
    )


def main() -> int:
    """Write the documents, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    documents = {"control.json": control(), "data-plane.json": data_plane()}
    if not check:
        FOLDER.mkdir(exist_ok=True)
        for name, document in documents.items():
            (FOLDER / name).write_text(text_of(document))
        return 0
    differences = [line for name, document in documents.items() for line in drift(name, document)]
    if differences:
        print("\n".join(differences))
        print("openapi/ differs from the app: make openapi, and commit the result", file=sys.stderr)
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
