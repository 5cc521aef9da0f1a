"""The HTTP edge: strict parsing, raw ASGI data plane, control API."""
