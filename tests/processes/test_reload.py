"""Laws of SIGHUP: rules are exchanged whole or not at all, and never un-fence in silence."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until

Start = Callable[..., GatewayProcess]
POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[stores.files]
type = "files"
root = "files"
[[rules]]
match = "/files/reports/{x*}"
scope = "reports"
"""
SCOPE = 'scope = "reports"'


def put(gateway: GatewayProcess, name: str, token: int) -> int:
    headers = {"X-Fence-Token": str(token)}
    url = f"{gateway.url}/files/reports/{name}"
    return httpx.put(url, content="x", headers=headers, timeout=10).status_code


def digest(gateway: GatewayProcess) -> str:
    return str(httpx.get(f"{gateway.url}/readyz", timeout=5).json()["policy"])


def change(gateway: GatewayProcess, old: str, new: str) -> None:
    """Edit the policy file under the running gateway, and tell it."""
    text = gateway.policy_path.read_text()
    assert old in text
    gateway.policy_path.write_text(text.replace(old, new, 1))
    gateway.hang_up()


def told(gateway: GatewayProcess, event: str) -> dict[str, Any]:
    return gateway.wait_for_log(lambda r: (r["event"], r.get("part")) == (event, "policy"))


def test_a_changed_rule_is_in_force_after_hang_up(gateway_process: Start) -> None:
    """Methods are bounded from then on; the line names rule, file and digest; marks stay."""
    gateway = gateway_process(POLICY)
    assert put(gateway, "a", 5) == 201
    change(gateway, SCOPE, f'{SCOPE}\nmethods = ["GET"]')
    line = told(gateway, "reloaded")
    assert "rules[0] has another methods" in line["detail"]
    assert digest(gateway) in line["detail"]
    assert put(gateway, "a", 6) == 405
    assert httpx.get(f"{gateway.url}/files/reports/a", headers={"X-Fence-Token": "4"}).is_error


def test_the_digest_is_in_the_log_from_the_start_on(gateway_process: Start) -> None:
    """Each worker tells by which policy it goes: the digest that /readyz shows."""
    gateway = gateway_process(POLICY, arguments=("--workers", "2"))
    wait_until(lambda: len(starts(gateway)) == 2, 20, "both workers' lines")
    assert set(starts(gateway)) == {digest(gateway)}


def starts(gateway: GatewayProcess) -> list[str]:
    return [str(line["policy"]) for line in gateway.log() if line["event"] == "started"]


@pytest.mark.parametrize(
    "old, new, why",
    [
        (SCOPE, 'scop = "reports"', "policy.toml:11: rules[0].scop: there is no such key here"),
        (SCOPE, "scope = ", "policy.toml:11: "),
        ('root = "files"', 'root = "other"', "stores changed, which needs a restart"),
        (SCOPE, 'scope = "other"', "rules[0] has another scope: resources would get other scopes"),
    ],
)
def test_a_policy_that_cannot_be_taken_changes_nothing(
    gateway_process: Start, old: str, new: str, why: str
) -> None:
    """A mistake (file, line, key), another store, another scope over marks: the old one stays."""
    gateway = gateway_process(POLICY)
    assert put(gateway, "a", 5) == 201
    before = digest(gateway)
    change(gateway, old, new)
    assert why in told(gateway, "reload_failed")["error"]
    assert (put(gateway, "b", 4), digest(gateway)) == (412, before)


def test_another_scope_is_taken_while_no_mark_exists(gateway_process: Start) -> None:
    """Nothing can be un-fenced: no token was ever compared."""
    gateway = gateway_process(POLICY)
    before = digest(gateway)
    change(gateway, SCOPE, 'scope = "other"')
    told(gateway, "reloaded")
    assert digest(gateway) != before
    assert put(gateway, "a", 5) == 201


def test_a_restart_does_not_rescope_in_silence_either(gateway_process: Start) -> None:
    """Without --accept-rescope the start is refused over marks; with it the policy is taken."""
    gateway = gateway_process(POLICY)
    assert put(gateway, "a", 5) == 201
    gateway.stop()
    document = gateway.document.replace(SCOPE, 'scope = "other"')
    gateway.policy_path.write_text(document)
    with pytest.raises(Exception, match="--accept-rescope"):
        gateway.start(deadline_s=90)
    data = f'data_dir = "{gateway.data_dir}"\n'
    accepted = gateway_process(
        document.replace("[registry]", data + "[registry]"), arguments=("--accept-rescope",)
    )
    assert put(accepted, "c", 4) == 201, "nobody has raised the mark of the new scope"
    change(accepted, 'scope = "other"', 'scope = "third"')
    failed = told(accepted, "reload_failed")["error"]
    assert "--accept-rescope" in failed, "it was accepted for the start alone"
    assert put(accepted, "d", 3) == 412


def test_a_store_is_not_renamed_over_marks_in_silence(gateway_process: Start) -> None:
    """No rule names it, so its scopes carry its name: stale holders would be let in again."""
    own = POLICY[: POLICY.index("[[rules]]")]
    gateway = gateway_process(own)
    assert put(gateway, "a", 9) == 201
    gateway.stop()
    renamed = gateway.document.replace("[stores.files]", '[stores.renamed]\nmount = "/files"')
    gateway.policy_path.write_text(renamed)
    with pytest.raises(Exception, match=r"stores\.files went: .*--accept-rescope"):
        gateway.start(deadline_s=90)
    gateway.policy_path.write_text(gateway.document)
    gateway.start()
    assert put(gateway, "a", 8) == 412


def test_every_worker_takes_the_change(gateway_process: Start) -> None:
    """The supervisor passes SIGHUP on; no worker goes by the old rules afterwards."""
    gateway = gateway_process(POLICY, arguments=("--workers", "2"))
    assert put(gateway, "a", 5) == 201
    change(gateway, SCOPE, f'{SCOPE}\nmethods = ["GET"]')
    wait_until(lambda: {put(gateway, "a", 6) for _ in range(20)} == {405}, 20, "405 of all workers")


def replace_worker(gateway: GatewayProcess) -> None:
    """End one worker, and wait until another has taken its place."""
    children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children")
    before = children.read_text().split()
    os.kill(int(before[0]), signal.SIGTERM)

    def replaced() -> bool:
        now = children.read_text().split()
        return len(now) == 2 and before[0] not in now

    wait_until(replaced, 20, "another worker")
    os.kill(int(before[1]), signal.SIGSTOP)  # so that the new one answers
    try:
        wait_until(gateway.ready, 30, "the new worker")
    finally:
        os.kill(int(before[1]), signal.SIGCONT)


def answers(gateway: GatewayProcess) -> set[int]:
    """What the workers say to a write; with six of them, each has most likely been asked."""
    return {put(gateway, "a", 6) for _ in range(6)}


def test_a_replaced_worker_knows_no_edit_that_the_others_do_not(gateway_process: Start) -> None:
    """An edit is nobody's until SIGHUP, and a mistake is nobody's at all."""
    gateway = gateway_process(POLICY, arguments=("--workers", "2"))
    assert put(gateway, "a", 5) == 201
    change(gateway, SCOPE, 'scop = "reports"')
    assert "policy.toml:11: rules[0].scop: there is" in told(gateway, "reload_failed")["error"]
    gateway.policy_path.write_text(gateway.document.replace(SCOPE, f'{SCOPE}\nmethods = ["GET"]'))
    replace_worker(gateway)
    assert answers(gateway) == {204}


def test_a_replaced_worker_goes_by_what_the_others_took(gateway_process: Start) -> None:
    """What SIGHUP brought is kept, whatever the file holds by then."""
    gateway = gateway_process(POLICY, arguments=("--workers", "2"))
    assert put(gateway, "a", 5) == 201
    change(gateway, SCOPE, f'{SCOPE}\nmethods = ["GET"]')
    wait_until(lambda: answers(gateway) == {405}, 20, "405 of all workers")
    gateway.policy_path.write_text("nonsense")
    replace_worker(gateway)
    assert answers(gateway) == {405}
