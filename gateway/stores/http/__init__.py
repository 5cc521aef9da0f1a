"""The `http` store: any HTTP origin, fenced by path, streamed both ways."""

from gateway.stores.http.configured import origin_store
from gateway.stores.http.store import OriginStore

__all__ = ["OriginStore", "origin_store"]
