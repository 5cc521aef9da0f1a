"""The `redis` registry: marks shared by many replicas, on Redis 7 or Valkey."""

from gateway.registries.redis.client import redis_client
from gateway.registries.redis.registry import RedisRegistry

__all__ = ["RedisRegistry", "redis_client"]
