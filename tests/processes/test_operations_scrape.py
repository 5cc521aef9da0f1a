"""Alert rules and dashboard against a real scrape: all that they ask for is exposed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.services.gateway_process import GatewayProcess
from tests.services.token_issuer import TokenIssuer

Start = Callable[..., GatewayProcess]
Series = dict[str, list[dict[str, str]]]

FOLDER = Path(__file__).parents[2] / "docs" / "operations"
POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "memory"
[[auth.issuers]]
issuer = "https://id.tests"
audience = "fencegate"
jwks_file = "{keys}"
scopes_claim = "scopes"
[stores.files]
type = "files"
root = "files"
"""
OF_PROMETHEUS = {"up": {"job", "instance"}}
ADDED_AT_THE_SCRAPE = {"job", "instance"}
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_SELECTOR = re.compile(r"\b(up|(?:fencegate|process)_\w+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


def series_of(text: str) -> Series:
    """The label sets of each series of a scrape, by its name."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def missing(expression: str, series: Series) -> list[str]:
    """What an expression names that no series of a scrape has."""
    wrong, labels = [], set(ADDED_AT_THE_SCRAPE)
    for name, matchers in _SELECTOR.findall(expression):
        if name in OF_PROMETHEUS:
            continue
        if name not in series:
            wrong.append(f"no series {name}")
            continue
        sets = series[name]
        labels |= set().union(*sets)
        for label, operator, value in _MATCHER.findall(matchers):
            if label in ADDED_AT_THE_SCRAPE or (value.startswith("$") and label in sets[0]):
                continue
            if not any(operator == "=" and have.get(label) == value for have in sets):
                wrong.append(f'{name} has no {label}{operator}"{value}"')
    grouped = {label for g in _GROUPING.findall(expression) for label in re.findall(r"\w+", g)}
    return wrong + [f"nothing has the label {label}" for label in sorted(grouped - labels)]


def alert_expressions() -> dict[str, str]:
    document = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return {rule["alert"]: rule["expr"] for group in document["groups"] for rule in group["rules"]}


def dashboard_targets() -> dict[str, dict[str, str]]:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }


def lost_labels(expression: str, legend: str) -> set[str]:
    """The labels of a legend that the expression has summed away."""
    kept = {
        label
        for grouping in _GROUPING.findall(expression)
        for label in re.findall(r"\w+", grouping)
    }
    if not re.match(r"(sum|histogram_quantile)\b", expression):
        kept |= ADDED_AT_THE_SCRAPE
    return set(re.findall(r"\{\{(\w+)\}\}", legend)) - kept


@pytest.fixture
def scrape(gateway_process: Start, tmp_path: Path) -> str:
    """What a gateway exposes that was written to, and whose keys were read anew, well and badly."""
    keys = tmp_path / "jwks.json"
    issuer = TokenIssuer()
    keys.write_bytes(issuer.key_set())
    gateway = gateway_process(POLICY.replace("{keys}", str(keys)))
    bearer = issuer.token(scopes=["files:{x*}"])
    headers = {"X-Fence-Token": "1", "Authorization": f"Bearer {bearer}"}
    assert httpx.put(f"{gateway.url}/files/a", headers=headers, content=b"x").is_success
    os.kill(gateway.pid, signal.SIGHUP)
    gateway.wait_for_log(lambda line: line["event"] == "reloaded")
    keys.write_text("{")
    os.kill(gateway.pid, signal.SIGHUP)
    gateway.wait_for_log(lambda line: line["event"] == "reload_failed")
    answer = httpx.get(f"{gateway.url}/metrics", headers=gateway.admin_headers, timeout=5)
    return answer.raise_for_status().text


def test_all_that_is_asked_for_is_exposed(scrape: str) -> None:
    """Each metric, label and value of an alert or a panel is in a real scrape; nothing is typed."""
    series = series_of(scrape)
    panels = {name: target["expr"] for name, target in dashboard_targets().items()}
    expressions = {**alert_expressions(), **panels}
    assert len(expressions) > 40
    wrong = {name: missing(text, series) for name, text in expressions.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_legends_name_what_the_panels_keep() -> None:
    """A label in a legend is one that its expression keeps; one summed away would be blank."""
    targets = dashboard_targets()
    lost = {name: lost_labels(t["expr"], t["legendFormat"]) for name, t in targets.items()}
    assert {name: labels for name, labels in lost.items() if labels} == {}
    assert lost_labels("sum by (a) (x)", "{{a}} {{b}}") == {"b"}, "the control"


@pytest.mark.parametrize(
    "expression, told",
    [
        ("rate(fencegate_typo_total[5m])", "no series fencegate_typo_total"),
        ('fencegate_requests_total{outcome="aplied"}', 'no outcome="aplied"'),
        ('fencegate_requests_total{scope="a"}', 'no scope="a"'),
        ('fencegate_requests_total{scope=~"$store"}', 'no scope=~"$store"'),
        ("sum by (reason) (fencegate_requests_total)", "nothing has the label reason"),
    ],
)
def test_what_is_mistyped_is_found(expression: str, told: str) -> None:
    """The control: a wrong name of a metric, a label or a value in an expression is told."""
    series = {"fencegate_requests_total": [{"store": "files", "outcome": "applied"}]}
    (wrong,) = missing(expression, series)
    assert told in wrong


def promtool(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    assert program, "promtool is in Debian's package prometheus (requirements/debian.txt)"
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.extra
def test_prometheus_takes_the_rules_and_the_scrape(scrape: str, tmp_path: Path) -> None:
    """promtool finds no fault with the alert rules, nor with the exposition's names and format."""
    done = promtool("check", "rules", FOLDER / "alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    linted = promtool("check", "metrics", text=scrape)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text((FOLDER / "alerts.yaml").read_text().replace("== 0", "== ) 0"))
    assert promtool("check", "rules", broken).returncode != 0, "the control"


@pytest.mark.extra
def test_prometheus_can_evaluate_every_panel(tmp_path: Path) -> None:
    """Each expression of the dashboard is PromQL, once its variables are filled in."""
    filled = {
        name: target["expr"].replace("$__rate_interval", "5m").replace("$__range", "3h")
        for name, target in dashboard_targets().items()
    }
    rules = [{"record": f"panel:{i}", "expr": text} for i, text in enumerate(filled.values())]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr
