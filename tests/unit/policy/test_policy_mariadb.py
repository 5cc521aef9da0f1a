"""The settings of a MariaDB store: what fits together, and what is told when it does not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gateway.app import StartError, build_store
from gateway.policy import mariadb_fit
from gateway.policy.complaint import PolicyError
from gateway.policy.document import PolicySet
from gateway.policy.load import loads

BASE = """
[stores.db]
type = "mariadb"
dsn = "mariadb://app@db.example:3307/app"
{more}
[stores.db.tables.jobs]
version_column = "version"
[[rules]]
store = "db"
match = "/db/jobs"
scope = "jobs"
"""


def loaded(more: str = "", tmp: Path | None = None) -> PolicySet:
    """The policy with more keys in its store."""
    text = BASE.format(more=more)
    if tmp is not None:
        text = f'[server]\ndata_dir = "{tmp}"\n{text}'
    return loads(text, name="p.toml")


def test_a_store_needs_an_address_and_a_table() -> None:
    """The rest has defaults; rows are the one dialect."""
    store = loaded().stores["db"]
    assert (store.type, store.dialect, store.mount) == ("mariadb", "rows", "/db")


@pytest.mark.parametrize(
    "more, told",
    [
        ('key_file = "k"', "key_file: is of no use without ca_file"),
        ('ca_file = "c"\nkey_file = "k"', "key_file: is of no use without cert_file"),
    ],
)
def test_keys_that_do_not_fit_are_told(more: str, told: str) -> None:
    """Each names the key and what to change."""
    with pytest.raises(PolicyError, match=told):
        loaded(more)


def test_two_passwords_are_one_too_many() -> None:
    """One in dsn and one in a file: which would be meant?"""
    text = BASE.format(more='password_file = "pw"').replace("app@db", "app:secret@db")
    with pytest.raises(PolicyError) as told:
        loads(text, name="p.toml")
    assert "dsn holds a password too" in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("dsn", ["postgresql://h/d", "mariadb://h", "mariadb://h/d?ssl=1"])
def test_an_address_has_one_form(dsn: str) -> None:
    """TLS is a matter of keys, where an error can be told, not of a query."""
    text = BASE.format(more="").replace("mariadb://app@db.example:3307/app", dsn)
    with pytest.raises(PolicyError, match=r"stores\.db\.dsn"):
        loads(text, name="p.toml")


def test_a_missing_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra to install is named before anything is started."""
    monkeypatch.setattr(mariadb_fit, "find_spec", lambda name: None)
    with pytest.raises(PolicyError, match=r"pip install 'fencegate\[mariadb\]'"):
        loaded()
    assert importlib.util.find_spec("asyncmy") is not None


def test_a_password_file_is_read_and_not_shown(tmp_path: Path) -> None:
    """A line break at its end is no part of it; an empty one is told by its path."""
    (tmp_path / "pw").write_text("a b\n")
    policy = loaded('password_file = "pw"', tmp_path)
    store = build_store(policy.stores["db"], policy)
    assert "a b" not in repr(store)
    (tmp_path / "pw").write_text("\n")
    with pytest.raises(StartError, match="pw is empty"):
        build_store(policy.stores["db"], policy)
    (tmp_path / "pw").unlink()
    with pytest.raises(StartError, match="pw"):
        build_store(policy.stores["db"], policy)


def test_files_of_tls_are_read_at_the_start(tmp_path: Path) -> None:
    """A file that is no certificate stops the start, not the first connection."""
    (tmp_path / "ca.pem").write_text("nothing")
    policy = loaded('ca_file = "ca.pem"', tmp_path)
    with pytest.raises(StartError, match="store db"):
        build_store(policy.stores["db"], policy)
