"""A listener's address, as a policy writes it: `host:port`."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener listens. Port 0 takes any free port, which the start-up prints."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it as `host:port`, with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """True when only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def wildcard(self) -> bool:
        """True when it listens on every address of the machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound


def parse_address(text: object) -> Address:
    """Read `host:port` or `[ipv6]:port`. Raises ValueError with what is expected."""
    if isinstance(text, Address):
        return text
    expected = 'expected "host:port", such as "127.0.0.1:8080" or "[::1]:8080"'
    if not isinstance(text, str):
        raise ValueError(expected)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(expected)
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise ValueError(expected)
    if int(port) > 65_535:
        raise ValueError("expected a port from 0 to 65535")
    return Address(host, int(port))
