"""What the dialect remembers of a request for its answer: handed from parse to render."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.dialects.rows.accept import Shape
from gateway.dialects.rows.prefer import Resolution, Returning


@dataclass(frozen=True, slots=True)
class RowsContext:
    """How to write the answer. `location` is the path of the table, with the mount.

    `applied` is the value of Preference-Applied; `content_location` that of a read's field.
    """

    location: str
    shape: Shape = Shape.ARRAY
    counted: bool = False
    resolution: Resolution | None = None
    returning: Returning = Returning.MINIMAL
    applied: str = ""
    content_location: str = ""
    primary_key: tuple[str, ...] = ()
