"""Writes docs/reference/ from the code: error codes, settings, metrics, variables.

python scripts/reference.py            writes the pages
python scripts/reference.py --check    writes nothing, and fails when a committed page differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter

from gateway.model.problem import STATUS, Code
from gateway.policy.document import Document
from gateway.telemetry.metrics import Metrics

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
ADVICE = {
    Code.TOKEN_REQUIRED: "Send `X-Fence-Token` with the number that came with the lease.",
    Code.TOKEN_MALFORMED: "Send one field of ASCII digits, 1 to 2^63-1, no leading zero.",
    Code.SCOPE_UNDETERMINED: "Name the whole primary key, or give the table a rule of its own.",
    Code.TOKEN_STALE: "Stop: a newer holder is at work. Acquire the lease again.",
    Code.TOKEN_REGRESSED: "The lease service lost its counter: raise it above the mark.",
    Code.TOKEN_DUPLICATE: "Two holders have one token: check the counter of the lease service.",
    Code.TOKEN_FORGED: "The token's signature does not hold.",
    Code.TOKEN_IMPLAUSIBLE: "The token jumps further than the rule allows.",
    Code.PRECONDITION_FAILED: "Read the resource again: your If-Match or If-None-Match fails.",
    Code.CHANGED_UNDERNEATH: "Somebody else changed the object meanwhile: read and retry.",
    Code.REGISTRY_UNAVAILABLE: "Retry with the same token: the registry of marks is away.",
    Code.NOT_DRAINED: "Retry with the same token: older writes are still under way.",
    Code.BUSY: "Retry with the same token after the pause of Retry-After.",
    Code.OUTCOME_UNKNOWN: "Read the resource before you write again.",
    Code.NOT_FENCED: "The gateway does not fence this operation, and so does not pass it on.",
}


def codes() -> Iterator[str]:
    """The page of error codes."""
    yield "# Error codes\n"
    yield "The same in every dialect; the shape is the dialect's own.\n"
    yield "| code | status | what to do |\n|---|---|---|"
    for code in Code:
        advice = ADVICE.get(code, "The message says what to change.")
        yield f"| `{code.value}` | {STATUS[code]} | {advice} |"


def described(schema: dict[str, Any], name: str = "policy") -> Iterator[tuple[str, str, str]]:
    """Section, key and meaning of every setting that a schema describes."""
    for key, part in schema.get("properties", {}).items():
        if "description" in part:
            default = f" Default: `{part['default']}`." if part.get("default") is not None else ""
            yield name, key, part["description"].replace("|", "\\|") + default
    for inner, part in schema.get("$defs", {}).items():
        yield from described(part, inner)


def settings() -> Iterator[str]:
    """The page of settings and variables."""
    yield "# Settings of a policy file\n"
    yield "| section | key | meaning |\n|---|---|---|"
    seen = set()
    for row in described(TypeAdapter(Document).json_schema()):
        if row not in seen:
            seen.add(row)
            yield f"| {row[0].removesuffix('Settings')} | `{row[1]}` | {row[2]} |"
    yield "\n# Environment\n"
    yield "| variable | meaning |\n|---|---|"
    yield "| `FENCEGATE_ADMIN_KEY` | the admin key; without it one is made in `data/admin-key` |"
    yield "| `FENCEGATE_DEBUG` | 1: a fault of the gateway itself is shown with its trace |"
    yield "| `FENCEGATE_WORKER_SECRET` | the worker's secret in `policies/container.toml` |"


def metrics() -> Iterator[str]:
    """The page of metrics."""
    yield "# Metrics\n"
    yield "Served at `/metrics` in the Prometheus text format.\n"
    yield "| metric | type | meaning |\n|---|---|---|"
    text = Metrics([("files", "http")]).exposition().decode()
    for family in text_string_to_metric_families(text):
        suffix = "_total" if family.type == "counter" else ""
        yield f"| `{family.name}{suffix}` | {family.type} | {family.documentation} |"


PAGES = {"codes.md": codes, "settings.md": settings, "metrics.md": metrics}


def main() -> int:
    """Write or compare every page."""
    wrong = 0
    for name, page in PAGES.items():
        text = "\n".join(page()) + "\n"
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.stdout.write(f"{path.name} differs: run `make docs` and commit docs/reference/\n")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
