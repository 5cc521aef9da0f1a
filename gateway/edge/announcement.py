"""What a gateway says when it serves: where what is, and what to try."""

from __future__ import annotations

from typing import TextIO

from gateway.edge.fronts import Listener
from gateway.policy.document import FilesSettings, PolicySet


def announce(policy: PolicySet, listeners: tuple[Listener, ...], out: TextIO) -> None:
    """Say where what is served, and three requests to try."""
    host, port = listeners[0].address
    scheme = "http" if policy.tls.cert_file is None else "https"
    base = f"{scheme}://{host}:{port}"
    out.write(f"fencegate serves {base} (control API, /metrics)\n")
    out.writelines(
        f"  {store.name:<10} {store.dialect:<5} {base}{store.mount}\n" for store in policy.mounted()
    )
    for store, listener in zip(policy.listening(), listeners[1:], strict=True):
        url = f"{scheme}://{listener.address[0]}:{listener.address[1]}"
        out.write(f"  {store.name:<10} {store.dialect:<5} {url}\n")
    files = next((s for s in policy.mounted() if isinstance(s, FilesSettings)), None)
    if files is not None and not policy.covered(files.name):
        url = f"{base}{files.mount}/reports/eu/july.txt"
        out.write(
            "Try:\n"
            f"  curl -i -X PUT -H 'X-Fence-Token: 2' -d new {url}   # 201: token 2 holds\n"
            f"  curl -i -X PUT -H 'X-Fence-Token: 1' -d old {url}   # 412: token 1 is stale\n"
            f"  curl -i -X PUT -d none {url}   # 428: no token\n"
        )
    out.flush()
