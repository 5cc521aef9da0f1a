"""The media types of the dialect, of answers and of bodies (RFC 9110 section 12.5.1)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gateway.dialects.rows.problems import RequestError, bad_body, no_media_type

JSON: Final = b"application/json; charset=utf-8"
SINGLE: Final = b"application/vnd.pgrst.object+json; charset=utf-8"
CSV: Final = b"text/csv; charset=utf-8"


class Shape(StrEnum):
    """What an answer with rows looks like: an array, one object, or lines of values."""

    ARRAY = "array"
    OBJECT = "object"
    CSV = "csv"


class BodyForm(StrEnum):
    """What a body with rows looks like."""

    JSON = "json"
    CSV = "csv"
    FIELDS = "fields"


_SINGLE_NAMES: Final = frozenset(
    {"application/vnd.pgrst.object+json", "application/vnd.pgrst.object"}
)
_SHAPES: Final = {
    **dict.fromkeys(("application/json", "application/*", "*/*"), Shape.ARRAY),
    **dict.fromkeys(_SINGLE_NAMES, Shape.OBJECT),
    **dict.fromkeys(("text/csv", "text/*"), Shape.CSV),
}
_FORMS: Final = {
    **dict.fromkeys((*_SINGLE_NAMES, "application/json"), BodyForm.JSON),
    "text/csv": BodyForm.CSV,
    "application/x-www-form-urlencoded": BodyForm.FIELDS,
}


def wanted_shape(values: list[bytes]) -> Shape:
    """What the client asks for in Accept, its favourite first. Raises RequestError."""
    text = b",".join(values).decode("latin-1")
    ranges = sorted(
        (_range(piece) for piece in text.split(",") if piece.strip()), key=lambda found: -found[0]
    )
    if not ranges:
        return Shape.ARRAY
    for quality, name in ranges:
        if quality > 0 and name in _SHAPES:
            return _SHAPES[name]
    raise RequestError(no_media_type(text))


def body_form(types: list[bytes], codings: list[bytes]) -> BodyForm:
    """What the body says to be; without a word, JSON. Raises RequestError."""
    for coding in codings:
        if coding.strip().lower() not in (b"", b"identity"):
            shown = coding.decode("latin-1")
            raise RequestError(bad_body(f"Content-Encoding not acceptable: {shown}; send identity"))
    form = BodyForm.JSON
    for value in types:
        name = _range(value.decode("latin-1"))[1]
        if name not in _FORMS:
            shown = value.decode("latin-1")
            raise RequestError(
                bad_body(f"Content-Type not acceptable: {shown}; send application/json")
            )
        form = _FORMS[name]
    return form


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
