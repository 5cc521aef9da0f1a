"""How a write ended whose answer was lost, and what was written under a client's key.

Only the stamp proves that a write took effect. That it did not is certain once no effect can come
any more (`settle_ms`), and the object is still the very version that was looked at before.
"""

from __future__ import annotations

from gateway.engine.refusals import key_reused
from gateway.model.mark import Era, Scope
from gateway.model.object_action import DeleteObject, PutObject
from gateway.model.operation import Operation
from gateway.model.problem import Code, Problem
from gateway.model.reply import ObjectPut
from gateway.model.version import Absent, Present
from gateway.model.write_id import Kin, kin, request_name
from gateway.ports.store import MaybeWritten, NotWritten, WriteFence, WriteResult, Written
from gateway.stores.s3 import answers
from gateway.stores.s3.site import Site


async def find_out(
    site: Site, operation: Operation, fence: WriteFence, age_s: float, settle_s: float
) -> WriteResult:
    """Look for the write in the object, `age_s` after its answer was lost."""
    action = operation.action
    unclear = MaybeWritten(answers.unknown(site.store, "the object cannot tell"))
    if not isinstance(action, PutObject | DeleteObject):
        return unclear
    now, size = await site.looker.measure(action.bucket, action.key, fence.scope)
    if not isinstance(now, Present):
        return unclear  # also when it is absent as before: it may have been there meanwhile
    if isinstance(action, PutObject) and now.stamp and now.stamp.write_id == fence.write_id:
        whole = not site.profile.keeps_half or size == action.length
        return Written(ObjectPut(now.etag, isinstance(fence.looked, Absent))) if whole else unclear
    if age_s >= settle_s and now == fence.looked:
        text = f"the store {site.store!r} has not carried the write out; nothing was written: retry"
        return NotWritten(Problem(Code.BUSY, text, retry_after_s=1))
    return unclear


async def recall(
    site: Site, operation: Operation, scope: Scope, era: Era | None
) -> WriteResult | None:
    """What an earlier attempt of the same request wrote, if the object still holds it."""
    action, name = operation.action, request_name(operation, scope)
    if name is None or not isinstance(action, PutObject):
        return None
    now, size = await site.looker.measure(action.bucket, action.key, scope)
    if not isinstance(now, Present) or now.stamp is None or now.stamp.era != era:
        return None
    match kin(now.stamp.write_id, name):
        case Kin.NONE:
            return None
        case Kin.REUSED:
            return NotWritten(key_reused())
        case Kin.EARLIER:
            half = site.profile.keeps_half and size != action.length
            return None if half else Written(ObjectPut(now.etag), earlier=True)
