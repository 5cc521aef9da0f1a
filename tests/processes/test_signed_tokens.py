"""Signed tokens end to end: the command makes keys and tokens, a real gateway judges them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.services.gateway_process import GatewayProcess

CHECKOUT = Path(__file__).parents[2]
POLICY = """
[server]
listen = "127.0.0.1:8080"
[registry]
type = "sqlite"
[stores.files]
type = "files"
root = "files"
[[rules]]
match = "/files/reports/{team}/{rest*}"
scope = "reports/{team}"
signed = true
"""


def tokens(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`fencegate tokens …` in this directory."""
    return subprocess.run(
        [sys.executable, "-m", "gateway", "tokens", *arguments],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def put(gateway: GatewayProcess, token: str, team: str = "eu") -> tuple[int, str]:
    url = f"{gateway.url}/files/reports/{team}/x"
    answer = httpx.put(url, headers={"X-Fence-Token": token}, content=b"x", timeout=10)
    return answer.status_code, "" if answer.is_success else str(answer.json()["code"])


def test_from_a_key_to_a_refused_forgery(
    gateway_process: Callable[..., GatewayProcess], tmp_path: Path
) -> None:
    """Each refusal has its own code and learns nothing: the real holder is not locked out."""
    made = [tokens(tmp_path, "keygen", f"k{n}", "--private-key", f"k{n}.pem") for n in (1, 2, 3)]
    assert [m.returncode for m in made] == [0, 0, 0], made
    assert stat.S_IMODE((tmp_path / "k1.pem").stat().st_mode) == 0o600
    assert "PRIVATE" not in made[0].stdout + made[0].stderr
    policy = POLICY + made[0].stdout + made[1].stdout  # a rotation: both are taken
    gateway = gateway_process(policy)

    def signed(key: str, token: int, team: str = "eu", *more: str) -> str:
        scope = f"reports/{team}"
        done = tokens(tmp_path, "sign", scope, str(token), "--private-key", f"{key}.pem", *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    five, six = signed("k1", 5), signed("k2", 6, "eu", "--ttl-s", "3600")
    huge = 2**63 - 1
    assert put(gateway, five)[0] in {200, 201, 204}
    assert put(gateway, str(huge)) == (403, "fence_token_unsigned")
    assert put(gateway, signed("k3", huge)) == (403, "fence_token_forged")
    assert put(gateway, f"{huge}.{five.partition('.')[2]}") == (403, "fence_token_forged")
    assert put(gateway, signed("k1", huge, "us")) == (403, "fence_token_other_scope")
    assert put(gateway, "7.short") == (400, "fence_token_malformed")
    assert put(gateway, six)[0] in {200, 204}, "nothing of these was learnt"
    assert put(gateway, five) == (412, "fence_token_stale")
    told = tokens(tmp_path, "verify", "reports/eu", six, "--policy", str(gateway.policy_path))
    assert "ok: token 6" in told.stdout
    other = tokens(tmp_path, "verify", "reports/us", six, "--policy", str(gateway.policy_path))
    assert (other.returncode, other.stderr) == (1, "fencegate: fence_token_other_scope\n")
    log = "\n".join(gateway.lines())
    assert five.partition(".")[2] not in log, "a signature is a credential"
    for reason in ("unsigned", "forged", "other_scope"):
        name = f'fencegate_rejections_total{{reason="{reason}",store="files"}}'
        assert gateway.metrics()[name] >= 1


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    """The second keygen into one file fails, and the first key is still there."""
    assert tokens(tmp_path, "keygen", "a", "--private-key", "a.pem").returncode == 0
    before = (tmp_path / "a.pem").read_bytes()
    again = tokens(tmp_path, "keygen", "b", "--private-key", "a.pem")
    assert again.returncode == 1
    assert "never overwritten" in again.stderr
    assert (tmp_path / "a.pem").read_bytes() == before


def test_a_signed_rule_without_a_key_is_refused(tmp_path: Path) -> None:
    """`check` tells file, line and key, and the section that is missing."""
    (tmp_path / "p.toml").write_text(POLICY)
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "check", "p.toml"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "signed" in done.stderr
    assert "[[tokens.keys]]" in done.stderr
