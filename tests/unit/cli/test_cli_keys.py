"""Laws of `fencegate keys new`: the secret is shown once, and what is pasted does not hold it."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from gateway.cli import commands
from gateway.model.worker import secret_digest
from gateway.policy.load import loads

STORES = '\n[stores.files]\ntype = "files"\nroot = "files"\n'


def new(*arguments: str) -> tuple[str, str, int]:
    result = CliRunner().invoke(commands.app, ["keys", "new", *arguments])
    return result.stdout, result.stderr, result.exit_code


def secret_in(text: str) -> str:
    found = re.findall(r"fgk_[A-Za-z0-9_-]{43}", text)
    assert len(found) == 1
    return str(found[0])


def test_a_key_that_works() -> None:
    """What is printed is a policy's key of that secret, with the limits asked for."""
    out, err, code = new(
        *("w", "--store", "files", "--scope", "files:{x*}"),
        *("--method", "PUT", "--method", "GET", "--days", "1"),
    )
    assert code == 0
    assert "fgk_" not in out
    (key,) = loads(out + STORES).worker_keys("files")
    assert key.has(secret_digest(secret_in(err)))
    assert key.secret is None
    assert key.grant.covers("files:a")
    assert not key.grant.allows("DELETE")
    assert key.grant.expires_s is not None


def test_two_keys_differ() -> None:
    """A secret is made anew each time."""
    assert secret_in(new("w")[1]) != secret_in(new("w")[1])


def test_for_s3_the_secret_comes_from_outside() -> None:
    """The TOML names a variable, and the operator is told that the gateway needs the secret."""
    out, err, _ = new("lake-1", "--s3")
    assert 'secret = "${WORKER_KEY_LAKE_1}"' in out
    assert "WORKER_KEY_LAKE_1" in err
    secret = secret_in(err)
    (key,) = loads(out + STORES, environ={"WORKER_KEY_LAKE_1": secret}).worker_keys("files")
    assert key.secret == secret


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["a b"], "is no id"),
        (["w", "--scope", "a*"], "write {name} for one segment"),
        (["w", "--method", "PTU"], "did you mean PUT?"),
    ],
)
def test_mistakes(arguments: list[str], told: str) -> None:
    """Exit code 2 and a line; no key is made."""
    out, err, code = new(*arguments)
    assert (out, code) == ("", commands.WRONG_INPUT)
    assert told in err


def test_no_two_ids_share_a_variable() -> None:
    """Case, signs and doubled hyphens tell ids apart, so they must tell variables apart too."""
    ids = ("a-b", "a_b", "a.b", "a~b", "A-B", "a-B", "a--b", "a-b-", "_a-b", "ab")
    names = set()
    for name in ids:
        out, _, _ = new(name, "--s3")
        (variable,) = re.findall(r"\$\{([A-Z][A-Z0-9_]*)\}", out)
        names.add(variable)
    assert len(names) == len(ids)
    assert "WORKER_KEY_A_B" in names, "the common form is read without a dictionary"
