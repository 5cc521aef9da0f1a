"""Writes docs/reference/ from the code: commands, codes, settings, variables, metrics, the log.

python scripts/reference.py            writes the pages
python scripts/reference.py --check    writes nothing, and fails when a committed page differs
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from prometheus_client.parser import text_string_to_metric_families

from gateway.cli.commands import app
from gateway.model.problem import STATUS, Code
from gateway.policy.schema import SECTIONS, Setting, settings_of
from gateway.settings import VARIABLES
from gateway.telemetry.log_lines import FIRST, LINES, MARK, STAGES, LogField
from gateway.telemetry.metrics import CATALOGUE, Metrics

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
ADVICE = {
    Code.TOKEN_REQUIRED: "Send `X-Fence-Token` with the number that came with the lease.",
    Code.TOKEN_MALFORMED: "Send one field of ASCII digits, 1 to 2^63-1, no leading zero.",
    Code.SCOPE_UNDETERMINED: "Name the whole primary key, or give the table a rule of its own.",
    Code.TOKEN_STALE: "Stop: a newer holder is at work. Acquire the lease again.",
    Code.TOKEN_REGRESSED: "The lease service lost its counter: raise it above the mark.",
    Code.TOKEN_DUPLICATE: "Two holders have one token: check the counter of the lease service.",
    Code.TOKEN_FORGED: "The token's signature does not hold.",
    Code.TOKEN_UNSIGNED: "Send the token in the signed form, as the lease service gave it.",
    Code.TOKEN_EXPIRED: "Acquire the lease again: the token's signature has expired.",
    Code.TOKEN_OTHER_SCOPE: "The token was signed for another scope: acquire this one's lease.",
    Code.TOKEN_IMPLAUSIBLE: "The token jumps further than the rule allows.",
    Code.PRECONDITION_FAILED: "Read the resource again: your If-Match or If-None-Match fails.",
    Code.CHANGED_UNDERNEATH: "Somebody else changed the object meanwhile: read and retry.",
    Code.REGISTRY_UNAVAILABLE: "Retry with the same token: the registry of marks is away.",
    Code.NOT_DRAINED: "Retry with the same token: older writes are still under way.",
    Code.BUSY: "Retry with the same token after the pause of Retry-After.",
    Code.UPSTREAM_REFUSED: "The origin refused, and its own answer was passed on: see there.",
    Code.OUTCOME_UNKNOWN: "Retry with the same key, or read the resource before you write again.",
    Code.KEY_REUSED: "Send a new Idempotency-Key with each new request.",
    Code.AUDIT_FAILED: "See to `admin.audit_file`: what cannot be recorded is not done.",
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


def settings() -> Iterator[str]:
    """The page of settings and variables."""
    yield "# Settings\n"
    yield "A policy is one or more TOML files. A key that nobody knows is an error, never ignored;"
    yield "`fencegate check` tells every mistake by file, line and key. `${NAME}` in a text is"
    yield "replaced by the environment variable of that name, everywhere but in rules; `$$` stands"
    yield "for `$`.\n"
    for title, section in SECTIONS.items():
        yield f"## `{title}`\n"
        yield inspect.cleandoc(section.__doc__ or "") + "\n"
        yield "| key | default | meaning |\n|---|---|---|"
        for setting in settings_of(section):
            meaning = setting.description.replace("|", "\\|")
            yield f"| `{setting.key}` | {default_of(setting)} | {meaning} |"
        yield ""
    yield "## Environment\n"
    yield "| variable | meaning |\n|---|---|"
    for name, meaning in VARIABLES.items():
        yield f"| `{name}` | {meaning} |"
    yield "| `FENCEGATE_WORKER_SECRET` | The worker's secret in shipped policies. |"
    yield "| `FENCEGATE_REGISTRY_URL` | The registry in `policies/production.toml`. |"


def default_of(setting: Setting) -> str:
    """A default as a policy file would write it."""
    if setting.required:
        return "required"
    match setting.default:
        case None:
            return "not set"
        case bool() | int() as value:
            return f"`{value}`"
        case tuple() as values:
            return f"`{json.dumps(values)}`"
        case value:
            return f'`"{value}"`'


def commands() -> Iterator[str]:
    """The page of the command line."""
    yield "# Command line\n"
    yield "Exit codes: 0 done, 1 it failed, 2 the command line or the policy is wrong.\n"
    group = typer.main.get_command(app)
    context = group.make_context("fencegate", ["--help"], resilient_parsing=True)
    yield from commands_of(group, context, "fencegate")


def commands_of(group: Any, context: Any, prefix: str) -> Iterator[str]:
    """The commands of a group, and those of the groups in it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands_of(command, context, f"{prefix} {name}")
            continue
        yield f"## {prefix} {name}\n"
        yield inspect.cleandoc(command.help or "") + "\n"
        if parameters := [p for p in command.params if is_shown(p)]:
            yield "| parameter | meaning |\n|---|---|"
            yield from map(parameter_row, parameters)
            yield ""


def is_shown(parameter: Any) -> bool:
    """True of a parameter that is meant for a person."""
    return parameter.name != "help" and not getattr(parameter, "hidden", False)


def parameter_row(parameter: Any) -> str:
    """One parameter of a command."""
    written = parameter.opts[0]
    if parameter.param_type_name == "argument":
        written = parameter.name.upper() + ("" if parameter.required else " (optional)")
    elif parameter.metavar:
        written += f" {parameter.metavar}"
    return f"| `{written}` | {parameter.help} |"


def metrics() -> Iterator[str]:
    """The page of metrics."""
    yield "# Metrics\n"
    yield "Served at `/metrics` in the Prometheus text format.\n"
    yield "| metric | type | labels | meaning |\n|---|---|---|---|"
    text = Metrics([("files", "http")]).exposition().decode()
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = ", ".join(CATALOGUE[name][1]) if name in CATALOGUE else ""
        yield f"| `{name}` | {family.type} | {labels} | {family.documentation} |"


def logs() -> Iterator[str]:
    """The page of the log."""
    yield "# The log\n"
    yield "Written to standard error: one JSON object a line, in UTF-8; on a terminal, readable"
    yield "text with the same fields. A field whose name ends in `ms` is in milliseconds, in"
    yield "`seconds` or `_s` in seconds; names of bytes count bytes. What is not known is left out,"
    yield "never null. New fields and kinds of lines may come with a release; skip those you do not"
    yield "know. No line holds a credential, a signature, a query or a body.\n"
    yield "Lines that do not begin with `{` are for a person: what is served where, warnings at the"
    yield "start.\n"
    yield "## Every line\n"
    yield "In this order, before all other fields.\n"
    yield from field_table(FIRST)
    for name, line in LINES.items():
        yield f"## `{name}`\n"
        yield f"Level `{line.level}`. {line.when}\n"
        yield from field_table(line.fields)
    yield "## Marks\n"
    yield "A field of type mark is an object.\n"
    yield from field_table(MARK)
    yield "## Slow requests\n"
    yield "A request that takes `slow_request_ms` (`[telemetry]`, 1,000 unless set) or longer is"
    yield "logged with `slow` and with `stages_ms`: the milliseconds in each stage that it met, in"
    yield "the order of its way. Time in no stage is the gateway's own, or of other requests.\n"
    yield "| stage | where the time went |\n|---|---|"
    for name, meaning in STAGES.items():
        yield f"| `{name}` | {meaning} |"


def field_table(fields: Iterable[LogField]) -> Iterator[str]:
    """The fields of one kind of line."""
    yield "| field | type | always | meaning |\n|---|---|---|---|"
    for field in fields:
        always = "no" if field.optional else "yes"
        yield f"| `{field.name}` | {field.type} | {always} | {field.meaning} |"
    yield ""


PAGES = {
    "cli.md": commands,
    "codes.md": codes,
    "settings.md": settings,
    "metrics.md": metrics,
    "logs.md": logs,
}


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
