"""The media types of the dialect: which one an answer gets (RFC 9110 section 12.5.1)."""

from __future__ import annotations

from typing import Final

from gateway.dialects.rows.problems import RequestError, bad_body, no_media_type

JSON: Final = b"application/json; charset=utf-8"
SINGLE: Final = b"application/vnd.pgrst.object+json; charset=utf-8"

_JSON_NAMES: Final = frozenset({"application/json", "application/*", "*/*"})
_SINGLE_NAMES: Final = frozenset(
    {"application/vnd.pgrst.object+json", "application/vnd.pgrst.object"}
)


def wants_single(values: list[bytes]) -> bool:
    """True when the client asks for one object, False for an array. Raises RequestError."""
    text = b",".join(values).decode("latin-1")
    ranges = sorted(
        (_range(piece) for piece in text.split(",") if piece.strip()), key=lambda found: -found[0]
    )
    if not ranges:
        return False
    for quality, name in ranges:
        if quality > 0 and name in _SINGLE_NAMES:
            return True
        if quality > 0 and name in _JSON_NAMES:
            return False
    raise RequestError(no_media_type(text))


def check_body_type(types: list[bytes], codings: list[bytes]) -> None:
    """Refuse a body that says to be something else than plain JSON. Raises RequestError."""
    for coding in codings:
        if coding.strip().lower() not in (b"", b"identity"):
            shown = coding.decode("latin-1")
            raise RequestError(bad_body(f"Content-Encoding not acceptable: {shown}; send identity"))
    for value in types:
        name = _range(value.decode("latin-1"))[1]
        if name not in (*_SINGLE_NAMES, "application/json"):
            shown = value.decode("latin-1")
            raise RequestError(
                bad_body(f"Content-Type not acceptable: {shown}; send application/json")
            )


def _range(text: str) -> tuple[float, str]:
    """Read one media range: its quality, and its type with all parameters but charset."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality, rest = 1.0, ""
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            quality = _quality(value.strip())
        elif key.strip() != "charset" and parameter:
            rest += ";" + parameter
    return quality, name + rest


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
