"""What one S3 server can do and how it says so, as learnt by the probe (facts about S3 stores).

Stores differ in the quotes they want around an ETag, in the answer for an absent key, in how they
tell the losers of a race, and in whether a DELETE can carry a condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gateway.machines.condition import Guard, bare

ConditionMode = Literal["etag", "none"]


@dataclass(frozen=True, slots=True)
class Profile:
    """Defaults are those of AWS.

    `conditions`: our conditions are sent at all. `quoted`: If-Match takes the ETag with its
    quotes. `absent_status`: the answer to If-Match on an absent key. `race_answers`: (status,
    code) with which losers of a race were answered, beside 412 and 409. `delete_if_match`: a
    DELETE honours If-Match. `unique_etags`: equal bytes get different ETags.
    `keeps_half`: an upload takes effect in part before it is complete, so that nothing of a body
    may leave before the gate.
    """

    conditions: bool = True
    quoted: bool = True
    absent_status: int = 404
    race_answers: frozenset[tuple[int, str]] = frozenset()
    delete_if_match: bool = True
    unique_etags: bool = False
    keeps_half: bool = False

    def fields(self, guard: Guard) -> list[tuple[bytes, bytes]]:
        """The condition as this store wants it."""
        if not self.conditions:
            return []
        if guard.if_none_match:
            return [(b"if-none-match", b"*")]
        if guard.if_match is None:
            return []
        tag = guard.if_match if self.quoted else bare(guard.if_match)
        return [(b"if-match", tag.encode("latin-1"))]


WEAK: Final = Profile(conditions=False, delete_if_match=False)


def guarantee(profile: Profile, settle_ms: int) -> str:
    """The promise for this store, for `explain` and the start-up."""
    drained = (
        f"exact while every effect of a request comes within settle_ms = {settle_ms} of its last "
        "byte (or of the reset of its connection)"
    )
    if profile.keeps_half:
        drained += (
            ". This store acts on an upload before it is complete, so bodies are held whole until "
            "the gate, and their size is bounded"
        )
    if not profile.conditions:
        return (
            f'{drained}. WEAKER: conditions = "none", so an effect later than that can overwrite '
            "what a newer holder wrote; clients' own conditions are refused"
        )
    kept = "" if profile.unique_etags else " with different bytes"
    text = (
        f"{drained}; later than that, objects that the newer holder has since rewritten{kept} are "
        "still protected by a condition on the version read at admission"
    )
    return text if profile.delete_if_match else f"{text} (PUT only: DELETE takes no condition here)"
