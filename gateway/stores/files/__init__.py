"""The `files` store: objects as files of a local directory, exact under file locks (rule 11)."""

from gateway.stores.files.buckets import BucketStore
from gateway.stores.files.tree import TreeStore

__all__ = ["BucketStore", "TreeStore"]
