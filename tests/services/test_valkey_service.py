"""Valkey as the tests get it."""

import valkey


def test_it_keeps_and_counts(valkey_url: str) -> None:
    """The server answers the Redis protocol and its counter rises by one."""
    client = valkey.Valkey.from_url(valkey_url)
    try:
        client.delete("smoke")
        assert [client.incr("smoke") for _ in range(3)] == [1, 2, 3]
    finally:
        client.close()
