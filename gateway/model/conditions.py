"""The client's own If-Match and If-None-Match (RFC 9110 sections 13.1.1 and 13.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Conditions:
    """Entity tags as sent, quotes included; `("*",)` stands for any. None: no such header."""

    if_match: tuple[str, ...] | None = None
    if_none_match: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        """True when the client sent a condition at all."""
        return self.if_match is not None or self.if_none_match is not None


NO_CONDITIONS: Final = Conditions()
