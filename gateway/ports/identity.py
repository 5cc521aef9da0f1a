"""The port of whoever vouches for workers by signed tokens."""

from __future__ import annotations

from typing import Protocol

from gateway.model.problem import Problem
from gateway.model.worker import Grant


class UnusableKeys(ValueError):
    """An issuer's keys cannot be used; the text says where they were looked for, and why."""


class TokenVerifier(Protocol):
    """Verifies the tokens of the issuers that a policy names."""

    def verify(self, token: bytes, now_s: float) -> Grant | Problem:
        """What a token grants, or why it grants nothing. Never raises for what a client sends."""
        ...
