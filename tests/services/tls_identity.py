"""A certificate for 127.0.0.1 that tests serve TLS with. Its key is public: trust it nowhere."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBtDCCAVmgAwIBAgIUXTUPWIJG4VjKRnBX/G01jX391hAwCgYIKoZIzj0EAwIw
IDEeMBwGA1UEAwwVZmVuY2VnYXRlIHRlc3Qgb3JpZ2luMCAXDTI2MTEyOTIyMDkz
OVoYDzIxMjYxMTA1MjIwOTM5WjAgMR4wHAYDVQQDDBVmZW5jZWdhdGUgdGVzdCBv
cmlnaW4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASjeau6QgjGwsWasjU46Qk9
pviqzMkepSoz9UqNCA8yfxorFpI9rI9pLY0tFpa1dH1d/ikesMVRjsaWHb+FQHrj
o28wbTAdBgNVHQ4EFgQUOn2aXualbORs63XUWuFybQqaClcwHwYDVR0jBBgwFoAU
On2aXualbORs63XUWuFybQqaClcwDwYDVR0TAQH/BAUwAwEB/zAaBgNVHREEEzAR
hwR/AAABgglsb2NhbGhvc3QwCgYIKoZIzj0EAwIDSQAwRgIhALnMh1G8WASFqOC6
IhZgrDRUy7yobUbaGY12V6rJjYj2AiEAh+5AY1s4fQHHr87L86yvx9WbhQiDHBJ1
g6MbTlvoyBI=
-----END CERTIFICATE-----
"""
_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQghrRnfH9hqYVGb9Sg
iVcwwzXs0URVngFcokw/szDa5dOhRANCAASjeau6QgjGwsWasjU46Qk9pviqzMke
pSoz9UqNCA8yfxorFpI9rI9pLY0tFpa1dH1d/ikesMVRjsaWHb+FQHrj
-----END PRIVATE KEY-----
"""


def server_context() -> ssl.SSLContext:
    """What a test server listens with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as home:
        chain = Path(home) / "chain.pem"
        chain.write_text(_CERTIFICATE + _KEY)
        context.load_cert_chain(chain)
    return context


def client_context() -> ssl.SSLContext:
    """What a client trusts: this certificate alone."""
    return ssl.create_default_context(cadata=_CERTIFICATE)
