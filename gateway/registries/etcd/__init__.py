"""The `etcd` registry: the ledger in optimistic transactions, over etcd's JSON gateway."""

from gateway.registries.etcd.client import etcd_client
from gateway.registries.etcd.registry import EtcdRegistry

__all__ = ["EtcdRegistry", "etcd_client"]
