"""How a scope's record and a mark are written in etcd. Numbers are text: exact everywhere."""

from __future__ import annotations

import json
from typing import Any

from gateway.machines.ledger import EMPTY, Record
from gateway.model.claim import Generation, Registration, RegistrationId, ReplicaId
from gateway.model.mark import Era, Mark
from gateway.model.token import Holder
from gateway.registries.etcd.client import Stored, written


def mark_text(mark: Mark) -> str:
    """A mark as JSON."""
    return written(_mark_fields(mark))


def read_mark(text: str) -> Mark:
    """The mark of `mark_text`."""
    return _mark(json.loads(text))


def record_text(record: Record) -> str:
    """A record as JSON."""
    held = [[r.id, r.replica, r.generation, str(r.era), str(r.token)] for r in record.registrations]
    return written([_mark_fields(record.mark), held])


def read_record(stored: tuple[Stored, ...]) -> Record:
    """The record of `record_text`; the empty one when nothing is stored."""
    if not stored:
        return EMPTY
    mark, held = json.loads(stored[0].value)
    registrations = tuple(
        Registration(
            RegistrationId(id_), ReplicaId(replica), Generation(gen), Era(int(era)), int(token)
        )
        for id_, replica, gen, era, token in held
    )
    return Record(_mark(mark), registrations)


def _mark_fields(mark: Mark) -> list[Any]:
    return [str(mark.era), str(mark.token), mark.burnt, mark.holder]


def _mark(fields: list[Any]) -> Mark:
    era, token, burnt, holder = fields
    return Mark(Era(int(era)), int(token), burnt, None if holder is None else Holder(holder))
