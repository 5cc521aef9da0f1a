"""`GET /v1/replicas`: who is a member of the registry, and so may admit writes."""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from gateway.model.claim import Generation, Member


class ReplicasDesk(Protocol):
    """What the engine offers for it."""

    async def replicas(self) -> tuple[tuple[Member, ...], Generation | None]:
        """All members, and which one answers; None: it is not a member now.

        Raises `RegistryUnavailable`.
        """
        ...


class ReplicaView(BaseModel):
    """A membership. `beats` counts its renewals; one that stands still is evicted.

    `answering`: it is the one that gave this answer.
    """

    replica: str
    generation: str
    beats: int
    answering: bool


class ReplicasView(BaseModel):
    """All memberships that have not ended."""

    replicas: list[ReplicaView]


def replicas_routes(desk: ReplicasDesk) -> APIRouter:
    """The route, over the engine's desk."""
    scheme = HTTPBearer(scheme_name="admin", auto_error=False)
    router = APIRouter(prefix="/v1", dependencies=[Security(scheme)])

    @router.get("/replicas")
    async def replicas() -> ReplicasView:
        """All replicas that share the registry. Needs the admin key."""
        members, own = await desk.replicas()
        return ReplicasView(
            replicas=[
                ReplicaView(
                    replica=member.replica,
                    generation=member.generation,
                    beats=member.beat,
                    answering=member.generation == own,
                )
                for member in sorted(members)
            ]
        )

    return router
