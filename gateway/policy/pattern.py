"""What a rule matches, and the scope it names: patterns, captures, templates.

Theory. Routes and patterns are compared in one normal form: every segment is percent-decoded and
escaped again outside `[A-Za-z0-9._~-]`. Two spellings of one path therefore match alike, and what a
capture holds can go into a scope as it is (decisions, "Scope names"). `{x}` is one segment that is
not empty; `{x*}` is everything behind the slash before it, and may be empty. A template may use one
capture per segment, so that no two different captures expand to the same scope.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

MAX_SCOPE_BYTES: Final = 512

_NORMAL: Final = re.compile(r"[A-Za-z0-9._~/-]*")
_CAPTURE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)(\*?)\}")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCOPE_TEXT: Final = re.compile(r"[A-Za-z0-9._~/-]*")
_DIGEST_CHARS: Final = len("~sha256-") + 64
_DIGESTED: Final = re.compile(r"~sha256-[0-9a-f]{64}\Z")


class PatternError(ValueError):
    """A pattern or template is not of the form; the text says what to write instead."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A segment that must be equal; `text` is in normal form."""

    text: str


@dataclass(frozen=True, slots=True)
class Capture:
    """A segment that is captured, or everything that follows when `rest`."""

    name: str
    rest: bool = False


Segment = Literal | Capture


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed `match`; only the last segment may be a rest."""

    segments: tuple[Segment, ...]

    @property
    def captures(self) -> tuple[Capture, ...]:
        """The captures, in order."""
        return tuple(s for s in self.segments if isinstance(s, Capture))

    @property
    def has_rest(self) -> bool:
        """True when the pattern ends in `{x*}`."""
        last = self.segments[-1]
        return isinstance(last, Capture) and last.rest

    @property
    def prefix(self) -> str:
        """What every match starts with, for a quick look before the expression runs."""
        text = ""
        for segment in self.segments:
            if isinstance(segment, Capture):
                return text + "/"
            text += "/" + segment.text
        return text

    def expression(self) -> str:
        """The regular expression of the whole path, one group per capture."""
        return "".join("/" + _segment_expression(s) for s in self.segments)


def _segment_expression(segment: Segment) -> str:
    match segment:
        case Literal(text):
            return re.escape(text)
        case Capture(rest=True):
            return "(.*)"
        case Capture():
            return "([^/]+)"


def normal_segment(text: str) -> str:
    """Escape a segment's bytes outside `[A-Za-z0-9._~-]`, whatever spelling they came in."""
    raw = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    return quote(raw, safe="")


def normal_path(path: str) -> str:
    """Bring a path into normal form; its slashes stay."""
    if _NORMAL.fullmatch(path):
        return path
    return "/".join(map(normal_segment, path.split("/")))


def parse_pattern(text: str) -> Pattern:
    """Read a `match`. Raises `PatternError`."""
    if not text.startswith("/"):
        raise PatternError('expected a path that starts with "/"')
    if "?" in text or "#" in text:
        raise PatternError('expected a path alone: the query is no part of it (escape "?" as %3F)')
    parts = text[1:].split("/")
    if "" in parts[:-1]:
        raise PatternError('an empty segment ("//") matches nothing here; use {rest*}')
    segments = tuple(_parse_segment(part) for part in parts)
    names = [s.name for s in segments if isinstance(s, Capture)]
    for name in names:
        if names.count(name) > 1:
            raise PatternError(f"{{{name}}} stands twice; give each capture a name of its own")
    if any(isinstance(s, Capture) and s.rest for s in segments[:-1]):
        raise PatternError("{x*} takes all that follows, so it must be the last segment")
    return Pattern(segments)


def _parse_segment(part: str) -> Segment:
    found = _CAPTURE.fullmatch(part)
    if found:
        return Capture(found[1], rest=bool(found[2]))
    if "{" in part or "}" in part:
        raise PatternError(
            f'"{part}": a capture is a whole segment, {{name}} or {{name*}}, and its name is '
            "a lower-case word"
        )
    if "*" in part:
        raise PatternError(f'"{part}": write {{name}} for one segment, {{name*}} for the rest')
    if _BAD_ESCAPE.search(part):
        raise PatternError(f'"{part}": "%" must be followed by two hex digits (itself: %25)')
    return Literal(normal_segment(part))


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed `scope`: texts, and captures by the number of their group."""

    parts: tuple[str | int, ...]

    def expand(self, groups: tuple[str, ...]) -> str:
        """Put the captures in. They are in normal form already."""
        return "".join(groups[p] if isinstance(p, int) else p for p in self.parts)

    def uses(self, group: int) -> bool:
        """True when this capture has a part in the scope."""
        return group in self.parts

    def expression(self) -> str:
        """The regular expression of every scope that the template can yield."""
        return "".join(".*" if isinstance(p, int) else re.escape(p) for p in self.parts)


def parse_template(text: str, pattern: Pattern) -> Template:
    """Read a `scope` for the captures of its rule's pattern. Raises `PatternError`."""
    names = {capture.name: index for index, capture in enumerate(pattern.captures)}
    rests = {capture.name for capture in pattern.captures if capture.rest}
    parts: list[str | int] = []
    end = 0
    for found in _CAPTURE.finditer(text):
        parts += [_scope_text(text[end : found.start()]), _group(found, names, rests)]
        end = found.end()
    parts.append(_scope_text(text[end:]))
    if any(len(_CAPTURE.findall(piece)) > 1 for piece in text.split("/")):
        raise PatternError(
            'two captures need a "/" between them, else different paths could share a scope'
        )
    if all(isinstance(p, int) and pattern.captures[p].rest for p in parts if p != ""):
        raise PatternError("{x*} can be empty, so a scope needs more than it; put a name before it")
    if len(text.encode()) > MAX_SCOPE_BYTES:
        raise PatternError(f"a scope has at most {MAX_SCOPE_BYTES} bytes")
    return Template(tuple(p for p in parts if p != ""))


def _scope_text(text: str) -> str:
    if "{" in text or "}" in text:
        raise PatternError("a capture is written {name}, with the name that match gave it")
    if not _SCOPE_TEXT.fullmatch(text):
        raise PatternError(
            f'"{text}": a scope is made of letters, digits, ". _ ~ / -" and captures'
        )
    return text


def _group(found: re.Match[str], names: dict[str, int], rests: set[str]) -> int:
    name, star = found[1], found[2]
    if name not in names:
        known = ", ".join(f"{{{n}}}" for n in names) or "no captures"
        raise PatternError(f"{{{name}}} is not captured by match, which has {known}")
    if star and name not in rests:
        raise PatternError(f"{{{name}*}} is one segment in match; write {{{name}}}")
    return names[name]


def bounded_scope(text: str) -> str:
    """Keep a scope within `MAX_SCOPE_BYTES`: a prefix, then `~sha256-` and the whole one's digest.

    A text that itself ends like a digest is digested too, so that the two cannot be confused.
    """
    if len(text) < _DIGEST_CHARS:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_SCOPE_BYTES and not is_digest(text):
        return text
    kept = raw[: MAX_SCOPE_BYTES - _DIGEST_CHARS].decode("utf-8", "ignore")
    return f"{kept}~sha256-{hashlib.sha256(raw).hexdigest()}"


def is_digest(scope: str) -> bool:
    """True when a scope was too long, and ends in the digest of what it stands for."""
    return _DIGESTED.search(scope) is not None


def covers(wide: Pattern, narrow: Pattern) -> bool:
    """True when every path that `narrow` matches is matched by `wide`."""
    for index, segment in enumerate(wide.segments):
        if isinstance(segment, Capture) and segment.rest:
            return len(narrow.segments) > index
        if index >= len(narrow.segments):
            return False
        if not _covers_segment(segment, narrow.segments[index]):
            return False
    return len(narrow.segments) == len(wide.segments)


def _covers_segment(wide: Segment, narrow: Segment) -> bool:
    if isinstance(narrow, Capture) and narrow.rest:
        return False
    if isinstance(wide, Literal):
        return wide == narrow
    return not (isinstance(narrow, Literal) and narrow.text == "")
