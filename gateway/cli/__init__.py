"""The command line: what an operator types."""

from gateway.cli.commands import main

__all__ = ["main"]
