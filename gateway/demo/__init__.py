"""`fencegate demo`: a stale holder meets the gateway, played with real processes."""

from gateway.demo.story import play

__all__ = ["play"]
