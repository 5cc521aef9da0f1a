"""Laws of what comes from outside a policy: the admin key, secret files, the quick start."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.model.worker import secret_digest
from gateway.policy.document import PolicySet
from gateway.policy.load import loads
from gateway.settings import UnusableSecret, admin_key, policy_path, secret_file

HASHED = f"sha256:{secret_digest('the-same-secret').hex()}"


@pytest.fixture
def policy(tmp_path: Path) -> PolicySet:
    return loads(
        f'[server]\ndata_dir = "{tmp_path}/new/data"\n[stores.files]\ntype = "files"\nroot = "f"\n'
    )


def test_a_key_is_made_once_for_its_owner_alone(policy: PolicySet) -> None:
    """The first start makes it, later ones find it; nobody else can read it."""
    first = admin_key(policy, {})
    path = policy.data(Path("admin-key"))
    assert len(first) == 64
    assert admin_key(policy, {}) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_starts_agree_on_one_key(tmp_path: Path) -> None:
    """A key that is there is never written over."""
    (tmp_path / "key").write_text("chosen-by-hand\n")
    assert secret_file(tmp_path / "key") == "chosen-by-hand"
    assert (tmp_path / "key").read_text() == "chosen-by-hand\n"


def test_the_variable_wins_and_leaves_no_file(policy: PolicySet) -> None:
    """A key from the environment needs no file."""
    assert admin_key(policy, {"FENCEGATE_ADMIN_KEY": "from-outside"}) == "from-outside"
    assert not policy.server.data_dir.exists()


@pytest.mark.parametrize("text", ["", "\n", "short", "with blank in it", "ünicode-key-123"])
def test_an_unusable_key_is_told_and_not_repeated(tmp_path: Path, text: str) -> None:
    """An empty key would let everybody in; a strange one nobody."""
    (tmp_path / "key").write_text(text)
    with pytest.raises(UnusableSecret) as caught:
        secret_file(tmp_path / "key")
    assert str(tmp_path / "key") in str(caught.value)
    assert text.strip() == "" or text not in str(caught.value)


def test_an_unusable_variable_is_told_and_not_repeated(policy: PolicySet) -> None:
    """The same for the environment."""
    with pytest.raises(UnusableSecret, match="FENCEGATE_ADMIN_KEY") as caught:
        admin_key(policy, {"FENCEGATE_ADMIN_KEY": "a b c d e f"})
    assert "a b c" not in str(caught.value)


@pytest.mark.parametrize(
    "owner, named",
    [
        ('[[auth.keys]]\nid = "w"\nsecret = "the-same-secret"', "auth.keys w"),
        (f'[[auth.keys]]\nid = "h"\nsecret_hash = "{HASHED}"', "auth.keys h"),
        (f'[[admin.keys]]\nid = "ops"\nsecret_hash = "{HASHED}"', "admin.keys ops"),
    ],
)
@pytest.mark.parametrize("variable", [True, False])
def test_the_admin_key_is_nobody_elses(
    tmp_path: Path, owner: str, named: str, variable: bool
) -> None:
    """A worker's secret opens no control API, and the audit log tells admins apart."""
    text = f'[server]\ndata_dir = "{tmp_path}"\n[stores.f]\ntype = "files"\nroot = "f"\n'
    (tmp_path / "admin-key").write_text("the-same-secret")
    environ = {"FENCEGATE_ADMIN_KEY": "the-same-secret"} if variable else {}
    with pytest.raises(UnusableSecret, match=named) as caught:
        admin_key(loads(text + owner), environ)
    assert "the-same-secret" not in str(caught.value)
    assert ("FENCEGATE_ADMIN_KEY" if variable else "/admin-key") in str(caught.value)


def test_the_quick_start_is_found() -> None:
    """Without an argument there is a policy to serve."""
    assert policy_path().name == "quickstart.toml"
    assert policy_path().is_file()
