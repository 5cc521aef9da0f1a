"""Names of header fields: which ones the gateway acts on, and which ones alias them.

Peers that turn `-` into `_` (CGI and its heirs) cannot tell `X_Fence_Token` from `X-Fence-Token`:
a name that folds onto one of ours is refused. Others with `_` are legal (`x-amz-meta-my_key`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_OURS: Final = frozenset(
    {
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-md5",
        b"content-range",
        b"content-type",
        b"expect",
        b"host",
        b"idempotency-key",
        b"prefer",
        b"range",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OUR_PREFIXES: Final = (b"x-fence-", b"if-", b"x-amz-", b"amz-sdk-")
_USER_METADATA: Final = b"x-amz-meta-"
_STAMP: Final = b"x-amz-meta-fencegate"


def is_field_name(name: bytes) -> bool:
    """True when it consists of token characters (RFC 9110, section 5.6.2)."""
    return _NAME.fullmatch(name) is not None


def acts_on(name: bytes) -> bool:
    """True for a lower-cased name that the gateway or a store gives a meaning to."""
    return name in _OURS or name.startswith(_OUR_PREFIXES)


def folds_onto_ours(name: bytes) -> bool:
    """True when a peer that confuses `_` with `-` would take it for a name of ours."""
    if b"_" not in name:
        return False
    folded = name.replace(b"_", b"-")
    if folded.startswith(_USER_METADATA):
        return folded.startswith(_STAMP)
    return acts_on(folded)


@lru_cache(maxsize=4096)
def complaint_about(name: bytes) -> str | None:
    """What is wrong with a lower-cased field name, or None. Cached: names repeat."""
    if not is_field_name(name):
        return "a field name holds a character that names cannot have"
    if folds_onto_ours(name):
        return f"write the field {name.decode('ascii')} with hyphens instead of underscores"
    return None
