"""The laws by name, each with its seeds and its strategy: one table for pytest and `make fuzz`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz import mutations, seeds
from tests.fuzz.heads import check_head, check_token
from tests.fuzz.policies import check_pattern, check_policy
from tests.fuzz.signatures import check_credentials, check_signature
from tests.fuzz.targets import check_target


@dataclass(frozen=True)
class Law:
    """Bytes in; `check` raises AssertionError when they break it. `examples` bound a test's run."""

    check: Callable[[bytes], None]
    corpus: Sequence[bytes]
    words: Sequence[bytes]
    strategy: mutations.Bytes
    examples: int


LAWS = {
    "head": Law(
        check_head,
        seeds.HEADS,
        [*(f + b"\r\n" for f in seeds.FIELDS), *seeds.BODIES],
        mutations.heads,
        800,
    ),
    "token": Law(check_token, seeds.TOKENS, seeds.TOKENS, mutations.tokens, 500),
    "target": Law(check_target, seeds.TARGETS, seeds.PATHS, mutations.targets, 1000),
    "pattern": Law(check_pattern, seeds.PATTERNS, [b"{a}", b"{b*}"], mutations.patterns, 1000),
    "policy": Law(check_policy, seeds.DOCUMENTS, seeds.POLICY_LINES, mutations.documents(), 150),
    "credentials": Law(
        check_credentials, seeds.CREDENTIALS, [b"Signature="], mutations.credentials, 500
    ),
    "signature": Law(check_signature, seeds.SIGNED, seeds.PATHS, mutations.signed, 150),
}
