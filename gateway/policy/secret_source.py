"""Secrets that lie in files, such as those that an orchestrator mounts."""

from __future__ import annotations

import re
from pathlib import Path


class UnreadableSecret(ValueError):
    """A file that should hold a secret does not; the text says what to change, without it."""


def read_secret(path: Path, form: str) -> str:
    """The secret of a file, of this form; white space around it is dropped.

    Raises `UnreadableSecret`."""
    try:
        text = path.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise UnreadableSecret(f"{path} cannot be read: {error.strerror}") from None
    if not re.fullmatch(form, text):
        raise UnreadableSecret(f"{path} must hold 8 to 128 visible ASCII characters, nothing else")
    return text
