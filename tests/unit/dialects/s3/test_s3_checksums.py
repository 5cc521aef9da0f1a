"""The checksums, against the check values that their standards publish."""

from __future__ import annotations

import hashlib
import sys
import types
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.s3.checksums import (
    NEW_DIGEST,
    crc_updates,
    table_crc32c,
    table_crc64nvme,
)
from gateway.dialects.s3.operations import CHECKSUM_FIELDS

# The value of each CRC over the nine digits, as the CRC catalogue and the NVMe specification list.
NINE = b"123456789"


def test_the_published_check_values() -> None:
    """CRC32C and CRC64NVME of the nine digits, and of the RFC 3720 test patterns."""
    assert table_crc32c(NINE) == 0xE3069283
    assert table_crc64nvme(NINE) == 0xAE8B14860A799888
    assert table_crc32c(bytes(32)) == 0x8A9136AA
    assert table_crc32c(b"\xff" * 32) == 0x62A8AB43
    assert table_crc32c(bytes(range(32))) == 0x46DD794E
    assert table_crc64nvme(bytes(4096)) == 0x6482D367EB22B64E


@pytest.mark.parametrize(
    "name, expected",
    [
        ("crc32", zlib.crc32(NINE).to_bytes(4, "big")),
        ("crc32c", bytes.fromhex("e3069283")),
        ("crc64nvme", bytes.fromhex("ae8b14860a799888")),
        ("sha1", hashlib.sha1(NINE).digest()),
        ("sha256", hashlib.sha256(NINE).digest()),
    ],
)
def test_each_algorithm_in_the_form_of_its_field(name: str, expected: bytes) -> None:
    """Digests are written big-endian, and can be fed in pieces."""
    digest = NEW_DIGEST[name]()
    digest.update(NINE[:4])
    digest.update(NINE[4:])
    assert digest.digest() == expected


@given(pieces=st.lists(st.binary(max_size=50), max_size=5))
@pytest.mark.parametrize("name", NEW_DIGEST)
def test_pieces_do_not_matter(name: str, pieces: list[bytes]) -> None:
    """A running digest equals the digest of the whole."""
    running, whole = NEW_DIGEST[name](), NEW_DIGEST[name]()
    for piece in pieces:
        running.update(piece)
    whole.update(b"".join(pieces))
    assert running.digest() == whole.digest()


def test_every_checksum_field_has_an_algorithm() -> None:
    """A field on the allow-list without an algorithm would pass unverified."""
    assert {f"x-amz-checksum-{name}".encode() for name in NEW_DIGEST} == CHECKSUM_FIELDS


def test_compiled_checksums_are_used_where_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With awscrt its functions, without it the tables."""
    monkeypatch.setitem(sys.modules, "awscrt", None)
    monkeypatch.setitem(sys.modules, "awscrt.checksums", None)
    assert crc_updates() == (table_crc32c, table_crc64nvme)
    compiled = types.ModuleType("awscrt.checksums")
    compiled.crc32c, compiled.crc64nvme = object(), object()
    monkeypatch.setitem(sys.modules, "awscrt", types.ModuleType("awscrt"))
    monkeypatch.setitem(sys.modules, "awscrt.checksums", compiled)
    assert crc_updates() == (compiled.crc32c, compiled.crc64nvme)
