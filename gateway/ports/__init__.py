"""The small protocols between the engine and the world: store, registry, body, clock, observer."""
