"""Alert rules and dashboard in a real Prometheus: what wakes somebody, what panels show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import ServerProcess, free_port, wait_until

pytestmark = [pytest.mark.extra, pytest.mark.timeout(120)]

FOLDER = Path(__file__).parents[2] / "docs" / "operations"
ALERTS = FOLDER / "alerts.yaml"
TARGET = {"job": "fencegate", "instance": "a:8080"}
POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[stores.files]
type = "files"
root = "files"
"""


@dataclass(frozen=True)
class Case:
    """Series that raise an alert by `at`, and series as like them as can be that do not.

    Values are in promtool's notation, a minute a step: `0x5 1x30` is six zeros, then 31 ones.
    """

    fires: dict[str, str]
    silent: dict[str, str]
    at: str = "20m"
    labels: dict[str, str] = field(default_factory=lambda: dict(TARGET))


def series(name: str, **labels: str) -> str:
    """A series as a scrape of one gateway gives it."""
    pairs = ",".join(f'{key}="{value}"' for key, value in {**TARGET, **labels}.items())
    return f"{name}{{{pairs}}}"


def counted(name: str, keep: tuple[str, ...] = (), **labels: str) -> Case:
    """An alert on a counter that moves at all."""
    line = series(name, **labels)
    kept = {**TARGET, **labels}
    return Case({line: "0x10 1x20"}, {line: "7x30"}, labels=kept)


def _quantile(name: str, bound: str, **labels: str) -> dict[str, dict[str, str]]:
    """A histogram of which all is above `bound` (slow), and one of which all is below it (fast)."""
    within = series(f"{name}_bucket", **labels, le=bound)
    above = series(f"{name}_bucket", **labels, le="60")
    every = series(f"{name}_bucket", **labels, le="+Inf")
    return {
        "fires": {within: "0x60", above: "0+60x60", every: "0+60x60"},
        "silent": {within: "0+60x60", above: "0+60x60", every: "0+60x60"},
    }


REJECTED = "fencegate_rejections_total"
FAILURES, OPS = (
    series(f"fencegate_registry_{name}_total", op="claim") for name in ("failures", "ops")
)
RELOAD = series("fencegate_reloads_total", part="policy", outcome="failed")
READ_FAILED, READ_DONE = (
    series("fencegate_issuer_key_reads_total", issuer="i", outcome=outcome)
    for outcome in ("failed", "done")
)
CASES = {
    "TokenInTwoHands": counted("fencegate_token_duplicates_total"),
    "RegistryForgotMarks": counted("fencegate_registry_regressed_total"),
    "AnsweredAfterLapse": counted("fencegate_answered_after_lapse_total", store="s"),
    "GatewayFault": counted("fencegate_faults_total"),
    "TokensForged": counted(REJECTED, store="s", reason="forged"),
    "IssuerRegressed": counted(REJECTED, store="s", reason="regressed"),
    "ReplicasEvicted": counted("fencegate_evictions_total"),
    "StaleHolders": Case(
        {series(REJECTED, store="s", reason="stale"): "0+12x120"},
        {series(REJECTED, store="s", reason="stale"): "0+3x120"},
        "90m",
        {"store": "s"},
    ),
    "GatewayDown": Case({series("up"): "1x5 0x30"}, {series("up"): "1x17 0x1 1x30"}),
    "RegistryFailing": Case(
        {FAILURES: "0+6x60", OPS: "0+60x60"},
        {FAILURES: "0+1x60", OPS: "0+60x60"},
        labels={"instance": "a:8080", "op": "claim"},
    ),
    "OutcomesUnknown": Case(
        {series("fencegate_outcome_unknown_total", store="s"): "0+2x60"},
        {series("fencegate_outcome_unknown_total", store="s"): "0x30 2x30"},
        "45m",
        {"store": "s"},
    ),
    "RaisesDoNotDrain": Case(
        {series(REJECTED, store="s", reason="not_drained"): "0+1x60"},
        {series(REJECTED, store="s", reason="not_drained"): "0x13 1x60"},
        labels={"store": "s"},
    ),
    "WritesStuck": Case(
        {series("fencegate_tickets_open", store="s"): "1x60"},
        {series("fencegate_tickets_open", store="s"): "9x20 0x1 9x60"},
        "31m",
        {**TARGET, "store": "s"},
    ),
    "MembershipLost": Case(
        {series("fencegate_lapses_total"): "0x10 1x10 2x10 3x10"},
        {series("fencegate_lapses_total"): "3x60"},
        "35m",
    ),
    "StoreSlow": Case(
        **_quantile("fencegate_upstream_seconds", "5", store="s"), at="30m", labels={"store": "s"}
    ),
    "EventLoopLags": Case(
        **_quantile("fencegate_event_loop_lag_seconds", "0.25"), labels={"instance": "a:8080"}
    ),
    "ReloadFailed": Case(
        {RELOAD: "_x12 1x20"},
        {RELOAD: "1x30"},
        labels={**TARGET, "part": "policy", "outcome": "failed"},
    ),
    "IssuerKeysStale": Case(
        {READ_FAILED: "0+1x180", READ_DONE: "5x180"},
        {READ_FAILED: "0+1x180", READ_DONE: "0+1x180"},
        "150m",
        {**TARGET, "issuer": "i", "outcome": "failed"},
    ),
}


def rules() -> dict[str, dict[str, Any]]:
    """The alert rules that ship, by name."""
    document = yaml.safe_load(ALERTS.read_text())
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


def expectation(name: str, case: Case, fires: bool) -> dict[str, Any]:
    """One test in promtool's form."""
    rule = rules()[name]
    labels = {**case.labels, **rule["labels"]}
    annotations = {
        key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
        for key, text in rule["annotations"].items()
    }
    told = [{"exp_labels": labels, "exp_annotations": annotations}]
    values = case.fires if fires else case.silent
    return {
        "interval": "1m",
        "input_series": [{"series": line, "values": value} for line, value in values.items()],
        "alert_rule_test": [
            {"eval_time": case.at, "alertname": name, "exp_alerts": told if fires else []}
        ],
    }


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is in Debian's package prometheus (requirements/debian.txt)"
    return found


def judged(folder: Path, alerts: str, tests: list[dict[str, Any]]) -> str:
    """What promtool says against the tests; nothing when they pass."""
    (folder / "alerts.yaml").write_text(alerts)
    document = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [program("promtool"), "test", "rules", "tests.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    """An alert that nobody has seen fire is none."""
    assert sorted(CASES) == sorted(rules())


def test_alerts_fire_on_what_they_are_for_and_on_nothing_like_it(tmp_path: Path) -> None:
    """promtool plays each case, with the labels and the sentence that a person reads."""
    tests = [
        expectation(name, case, fires) for name, case in CASES.items() for fires in (True, False)
    ]
    assert judged(tmp_path, ALERTS.read_text(), tests) == ""


@pytest.mark.parametrize("name", CASES)
def test_an_alert_that_never_fires_or_always_does_is_found(tmp_path: Path, name: str) -> None:
    """The control: with the rule deaf its firing case fails, with it always true the silent one."""
    document = yaml.safe_load(ALERTS.read_text())
    rule = next(r for g in document["groups"] for r in g["rules"] if r["alert"] == name)
    sound = rule["expr"]
    rule["expr"] = f"({sound}) and vector(0) > 1"
    deaf = judged(tmp_path, yaml.safe_dump(document), [expectation(name, CASES[name], True)])
    assert "FAILED" in deaf
    first = next(iter(CASES[name].silent))
    rule["expr"] = first.partition("{")[0]
    del document["groups"][1:]
    document["groups"][0]["rules"] = [{**rule, "for": "0m"}]
    shrill = judged(tmp_path, yaml.safe_dump(document), [expectation(name, CASES[name], False)])
    assert "FAILED" in shrill


@dataclass
class Prometheus:
    """A Prometheus that scrapes one gateway each 200 ms."""

    url: str

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of the HTTP API; raises when it is an error."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=10)
        document = answer.json()
        assert document["status"] == "success", f"{query}: {document}"
        return document["data"]

    def values(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found


@pytest.fixture
def gateway(gateway_process: Callable[..., GatewayProcess]) -> GatewayProcess:
    return gateway_process(POLICY)


@pytest.fixture
def prometheus(gateway: GatewayProcess, tmp_path: Path) -> Iterator[Prometheus]:
    port = free_port()
    scrape = {
        "job_name": "fencegate",
        "static_configs": [{"targets": [gateway.url.removeprefix("http://")]}],
        "authorization": {"credentials": gateway.admin_headers["Authorization"].split()[1]},
    }
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [scrape],
    }
    path = tmp_path / "prometheus.yaml"
    path.write_text(yaml.safe_dump(config))
    found = Prometheus(f"http://127.0.0.1:{port}")
    server = ServerProcess(
        "prometheus",
        [
            program("prometheus"),
            f"--config.file={path}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        directory=tmp_path,
        ready=lambda: _ready(found.url),
    )
    server.start()
    try:
        yield found
    finally:
        server.stop()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=1).is_success
    except httpx.HTTPError:
        return False


def panels() -> dict[str, str]:
    """The dashboard's expressions, its variables filled in as Grafana does."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    filled = {
        "$job": "fencegate",
        "$store": "files",
        "$__rate_interval": "5s",
        "$__range": "1m",
    }
    found = {}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for variable, value in filled.items():
                text = text.replace(variable, value)
            found[f"{panel['title']} {target['refId']}"] = text
    return found


MOVED_BY_WRITES = {
    "Requests A": "applied",
    "Refusals A": "stale",
    "Raises A": "files",
    "Time to answer A": "write",
    "Stores A": "files",
    "Registry operations A": "claim",
}


def test_panels_show_what_a_gateway_did(gateway: GatewayProcess, prometheus: Prometheus) -> None:
    """Each panel has a value in Prometheus, and those of writes and refusals move with them."""
    deadline, token = time.monotonic() + 30, 1

    def moved() -> bool:
        nonlocal token
        token += 1
        for offered, status in ((token, {200, 201, 204}), (1, {412})):
            done = httpx.put(
                f"{gateway.url}/files/a", headers={"X-Fence-Token": str(offered)}, content=b"x"
            )
            assert done.status_code in status
        return all(
            any(
                label in series["metric"].values() and float(series["value"][1]) > 0
                for series in prometheus.values(panels()[name])
            )
            for name, label in MOVED_BY_WRITES.items()
        )

    wait_until(moved, deadline - time.monotonic(), "panels that show writes and refusals")
    empty = [name for name, text in panels().items() if not prometheus.values(text)]
    assert empty == []
    assert prometheus.values("fencegate_typo_total") == [], "the control: an empty panel is seen"


def test_alerts_are_loaded_and_healthy(gateway: GatewayProcess, prometheus: Prometheus) -> None:
    """Each rule is evaluated without an error; a gateway at rest wakes nobody, one gone does."""
    wait_until(lambda: bool(prometheus.values('up{job="fencegate"} == 1')), 20, "a scrape")

    def states() -> dict[str, tuple[str, str]]:
        groups = prometheus.ask("rules")["groups"]
        return {r["name"]: (r["health"], r["state"]) for g in groups for r in g["rules"]}

    wait_until(lambda: all(h == "ok" for h, _ in states().values()), 20, "rules evaluated")
    assert states() == dict.fromkeys(CASES, ("ok", "inactive"))
    gateway.stop()
    wait_until(lambda: states()["GatewayDown"][1] == "pending", 20, "GatewayDown pending")
