"""DSNs and session settings: where to, under which limits, and nothing told of the password."""

from __future__ import annotations

import pytest

from gateway.stores.postgres.connection import Target, session_settings


@pytest.mark.parametrize(
    "dsn, where",
    [
        ("postgresql://u:p@db.example:6543/app", "db.example:6543/app"),
        ("postgresql://u:p@db.example", "db.example:5432/u"),
        ("postgres://u@[::1]:1/a%20b", "::1:1/a b"),
        ("postgresql:///app", "localhost:5432/app"),
        ("postgresql://u:p@h:notaport/x", "the address in dsn"),
        ("postgresql://u:p@[::1/x", "the address in dsn"),
    ],
)
def test_where_names_the_place_alone(dsn: str, where: str) -> None:
    """Host, port and database, also of a DSN that cannot be parsed."""
    assert Target("db", dsn).where == where


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:s%40cret@h/d",
        "postgresql://u@h/d?password=s%40cret",
        "postgresql://u@h/d?sslmode=require&password=s@cret",
    ],
)
def test_passwords_are_taken_out_of_others_words(dsn: str) -> None:
    """Encoded or not, wherever the DSN carries it."""
    target = Target("db", dsn)
    text = target.hide(f"failed for s@cret and s%40cret at {dsn}")
    assert "s@cret" not in text
    assert "s%40cret" not in text
    assert "cret" not in repr(target)


def test_a_dsn_without_password_hides_nothing() -> None:
    """An empty password is in every text, and must not be replaced everywhere."""
    assert Target("db", "postgresql://u@h/d").hide("as it was") == "as it was"


def test_sessions_are_bounded_and_read_committed() -> None:
    """The server itself enforces the limits and the isolation; names are cut to what fits."""
    settings = session_settings("s" * 90, lock_timeout_ms=2_000, statement_timeout_ms=10_000)
    assert settings["default_transaction_isolation"] == "read committed"
    assert settings["lock_timeout"] == "2000"
    assert settings["statement_timeout"] == "10000"
    assert settings["idle_in_transaction_session_timeout"] == "10000"
    assert len(settings["application_name"]) == 63
