"""The `s3` dialect as the edge uses it: parse a request, render its outcome."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.dialects.s3.parse import parse_request
from gateway.dialects.s3.refused import RefusedError
from gateway.dialects.s3.render import render_outcome
from gateway.model.outcome import Outcome
from gateway.model.problem import Problem
from gateway.model.worker import WorkerKey
from gateway.ports.dialect import Parsed, RawRequest, Reply


class S3Dialect:
    """Speaks S3 (path style) for one store.

    `keys` are the gateway's own access keys by id; None switches authentication off, an empty
    mapping lets nobody in. `region` is the one that clients must sign for.
    """

    name = "s3"

    def __init__(
        self, store: str, keys: Mapping[str, WorkerKey] | None, region: str = "us-east-1"
    ) -> None:
        self._store = store
        self._keys = keys
        self._region = region

    async def parse(self, request: RawRequest) -> Parsed | Problem:
        """Verify and understand a request, without reading its body."""
        try:
            return parse_request(request, store=self._store, keys=self._keys, region=self._region)
        except RefusedError as refusal:
            return refusal.problem

    def render(self, request: RawRequest, parsed: Parsed | None, outcome: Outcome) -> Reply:
        """Give the outcome S3's form: its XML, its status, its fields."""
        return render_outcome(request, parsed, outcome, self._region)
