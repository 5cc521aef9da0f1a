"""The checksums S3 clients send beside a body, each as an object with `update` and `digest`.

Source: S3 user guide, "Checking object integrity". CRC parameters: RFC 3720 appendix B.4 (CRC32C)
and the NVM Express base specification (CRC64NVME). The two that Python lacks come from `awscrt`
where it is installed and from a table otherwise (about 15 MB/s).
"""

from __future__ import annotations

import hashlib
import importlib
import zlib
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Protocol

CrcUpdate = Callable[[bytes, int], int]
"""Takes data and the value so far (0 at the start); returns the value with the data added."""


class Digest(Protocol):
    """A running hash."""

    def update(self, data: bytes, /) -> None:
        """Add data."""
        ...

    def digest(self) -> bytes:
        """Give the value over all data so far, as S3 writes it before base64."""
        ...


class Crc:
    """A running cyclic redundancy check, written big-endian."""

    def __init__(self, update: CrcUpdate, size_bytes: int) -> None:
        self._update = update
        self._size_bytes = size_bytes
        self._value = 0

    def update(self, data: bytes, /) -> None:
        """Add data."""
        self._value = self._update(data, self._value)

    def digest(self) -> bytes:
        """Give the value in network order."""
        return self._value.to_bytes(self._size_bytes, "big")


@lru_cache(maxsize=4)
def _table(polynomial: int) -> tuple[int, ...]:
    """Make the 256 remainders of a reflected polynomial."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _table_crc(data: bytes, value: int, polynomial: int, mask: int) -> int:
    table = _table(polynomial)
    value ^= mask
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ mask


def table_crc32c(data: bytes, value: int = 0) -> int:
    """CRC32C (Castagnoli, reflected polynomial 0x82F63B78) without any library."""
    return _table_crc(data, value, 0x82F63B78, 0xFFFF_FFFF)


def table_crc64nvme(data: bytes, value: int = 0) -> int:
    """CRC64NVME (reflected polynomial 0x9A6C9329AC4BC9B5) without any library."""
    return _table_crc(data, value, 0x9A6C_9329_AC4B_C9B5, 0xFFFF_FFFF_FFFF_FFFF)


def crc_updates() -> tuple[CrcUpdate, CrcUpdate]:
    """Choose CRC32C and CRC64NVME: the compiled ones where this Python has them."""
    try:
        compiled = importlib.import_module("awscrt.checksums")
    except ImportError:
        return table_crc32c, table_crc64nvme
    return compiled.crc32c, compiled.crc64nvme


_CRC32C, _CRC64NVME = crc_updates()

NEW_DIGEST: Final = MappingProxyType[str, Callable[[], Digest]](
    {
        "crc32": lambda: Crc(zlib.crc32, 4),
        "crc32c": lambda: Crc(_CRC32C, 4),
        "crc64nvme": lambda: Crc(_CRC64NVME, 8),
        "sha1": lambda: hashlib.sha1(usedforsecurity=False),
        "sha256": hashlib.sha256,
    }
)
"""How to start each algorithm, by the name that ends its x-amz-checksum- field."""
