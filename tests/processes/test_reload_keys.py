"""Laws of SIGHUP over keys: who was let in is let in no more, at once, without a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from gateway.cli.tokens import tokens as tokens_group
from gateway.model.worker import secret_digest
from tests.services.gateway_process import GatewayProcess
from tests.services.server_process import wait_until
from tests.services.token_issuer import TokenIssuer

Start = Callable[..., GatewayProcess]
SECRETS = {name: f"secret-of-{name}-0123456789" for name in ("one", "two", "boss")}
STORES = """
[stores.files]
type = "files"
root = "files"
[stores.objects]
type = "files"
dialect = "s3"
listen = "127.0.0.1:9000"
root = "objects"
buckets = ["shelf"]
"""
LAKE = '[[auth.keys]]\nid = "lake"\nsecret = "secret-of-lake-0123456789"\nstores = ["objects"]\n'


def hashed(table: str, name: str, more: str = "") -> str:
    digest = secret_digest(SECRETS[name]).hex()
    return f'[[{table}]]\nid = "{name}"\nsecret_hash = "sha256:{digest}"\n{more}'


def key(name: str, more: str = "") -> str:
    return hashed("auth.keys", name, f'stores = ["files"]\n{more}')


def policy(*keys: str, auth: str = "", rules: str = "") -> str:
    server = f'[server]\nlisten = "127.0.0.1:8080"\n{auth}\n[registry]\ntype = "sqlite"\n'
    return server + "\n".join(keys) + STORES + rules


def put(gateway: GatewayProcess, secret: str | None, token: str = "3", path: str = "a") -> int:
    headers = {"X-Fence-Token": token}
    if secret is not None:
        headers["Authorization"] = f"Bearer {secret}"
    url = f"{gateway.url}/files/{path}"
    return httpx.put(url, content=b"x", headers=headers, timeout=10).status_code


def reload(gateway: GatewayProcess, old: str, new: str, event: str = "reloaded") -> dict[str, Any]:
    """Exchange a part of the policy, tell the gateway, and give the line that it wrote of it."""

    def lines() -> list[dict[str, Any]]:
        return [r for r in gateway.log() if (r["event"], r.get("part")) == (event, "policy")]

    text, before = gateway.policy_path.read_text(), len(lines())
    assert old in text
    gateway.policy_path.write_text(text.replace(old, new, 1))
    gateway.hang_up()
    wait_until(lambda: len(lines()) > before, 10, f"a line {event}")
    return lines()[-1]


def test_a_key_that_is_taken_away_opens_nothing_more(gateway_process: Start) -> None:
    """Withdrawn, added and limited by one SIGHUP; the line names the keys and tells no secret."""
    gateway = gateway_process(policy(key("one"), LAKE))
    assert (put(gateway, SECRETS["one"]), put(gateway, SECRETS["two"])) == (201, 401)
    line = reload(gateway, key("one"), key("two"))
    assert "auth.keys one went; auth.keys two came" in line["detail"]
    assert SECRETS["two"] not in line["detail"]
    assert secret_digest(SECRETS["two"]).hex() not in line["detail"]
    assert (put(gateway, SECRETS["one"]), put(gateway, SECRETS["two"])) == (401, 204)
    reload(gateway, key("two"), key("two", 'methods = ["GET"]\n'))
    assert put(gateway, SECRETS["two"]) == 403
    asked = httpx.get(
        f"{gateway.url}/v1/requests/none", headers={"Authorization": f"Bearer {SECRETS['one']}"}
    )
    assert asked.status_code == 401, "a worker that is none any more has no requests to ask about"


def test_the_secret_of_an_s3_key_is_exchanged(gateway_process: Start) -> None:
    """The old signature is refused, the new one taken."""
    gateway = gateway_process(policy(LAKE))
    store = gateway.object_store("objects")
    old, fence = store.client(), {"X-Fence-Token": "1"}

    def write(client: Any) -> None:
        client.meta.events.register(
            "before-call.s3", lambda params, **_: params["headers"].update(fence)
        )
        client.put_object(Bucket="shelf", Key="a", Body=b"x")

    write(old)
    reload(gateway, "secret-of-lake", "other-of-lake")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        write(old)


def test_every_worker_forgets_the_key(gateway_process: Start) -> None:
    """No process goes on letting it in."""
    gateway = gateway_process(policy(key("one"), LAKE), arguments=("--workers", "2"))
    assert put(gateway, SECRETS["one"]) == 201
    gateway.policy_path.write_text(gateway.document.replace(key("one"), key("two")))
    gateway.hang_up()
    wait_until(lambda: {put(gateway, SECRETS["one"]) for _ in range(9)} == {401}, 20, "401 of all")


def test_admins_change_too(gateway_process: Start) -> None:
    """A further admin comes and goes by SIGHUP; the one of the environment stays."""
    boss = hashed("admin.keys", "boss")
    gateway = gateway_process(policy(LAKE, boss))

    def seals(secret: str) -> int:
        headers = {"Authorization": f"Bearer {secret}"}
        url = f"{gateway.url}/v1/seal"
        return httpx.post(url, json={"scope": "files:a"}, headers=headers).status_code

    assert seals(SECRETS["boss"]) == 200
    assert "admin.keys boss went" in reload(gateway, boss, "")["detail"]
    assert seals(SECRETS["boss"]) == 401
    assert seals(gateway.admin_headers["Authorization"].removeprefix("Bearer ")) == 200


def test_a_reload_opens_no_store(gateway_process: Start) -> None:
    """Without its last key a store would be open to everybody: that takes a restart."""
    gateway = gateway_process(policy(key("one"), LAKE))
    line = reload(gateway, key("one"), "", "reload_failed")
    assert "no key would cover the store files any more" in line["error"]
    assert put(gateway, None) == 401
    assert put(gateway, SECRETS["one"]) == 201, "and nothing has changed"


def test_rules_and_keys_change_together_or_not_at_all(gateway_process: Start) -> None:
    """A key set that cannot be read keeps the old rules in force too."""
    gateway = gateway_process(policy(key("one"), LAKE))
    issuer = '[[auth.issuers]]\nissuer = "https://id.tests"\naudience = "fencegate"\n'
    file = f'{issuer}jwks_file = "keys.json"\n'
    rule = '[[rules]]\nmatch = "/files/{x*}"\nmode = "off"\n'
    text = gateway.policy_path.read_text()
    line = reload(gateway, text, text.replace(LAKE, LAKE + file) + rule, "reload_failed")
    assert "keys.json cannot be read" in line["error"]
    assert put(gateway, SECRETS["one"], "2") == 201
    assert put(gateway, SECRETS["one"], "1") == 412, "the rule that fences nothing is not in force"
    keys = TokenIssuer()
    (gateway.data_dir / "keys.json").write_bytes(keys.key_set())
    reload(gateway, rule, "")
    assert put(gateway, keys.token()) == 204
    reload(gateway, 'audience = "fencegate"', 'audience = "others"')
    assert put(gateway, keys.token()) == 401
    assert put(gateway, keys.token(aud="others")) == 204
    reload(gateway, file.replace('"fencegate"', '"others"'), "")
    assert put(gateway, keys.token(aud="others")) == 401


def test_signers_of_tokens_are_exchanged(gateway_process: Start, tmp_path: Any) -> None:
    """A signature that held is checked again: its key is gone."""

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(tokens_group, arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    made = [run("keygen", f"k{n}", "--private-key", str(tmp_path / f"{n}.pem")) for n in (1, 2)]
    signed = [
        run("sign", "files:a", "5", "--private-key", str(tmp_path / f"{n}.pem")).strip()
        for n in (1, 2)
    ]
    rule = '[[rules]]\nmatch = "/files/{x*}"\nsigned = true\n'
    gateway = gateway_process(policy(key("one"), LAKE, made[0], rules=rule))
    assert [put(gateway, SECRETS["one"], token) for token in signed] == [201, 403]
    reload(gateway, made[0], made[1])
    assert [put(gateway, SECRETS["one"], token) for token in signed] == [403, 204]
