"""Debian's nginx as a WebDAV server: a real HTTP origin, which looks at no condition of a write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.server_process import LOOPBACK, ServerProcess, accepts_connections, free_port

_CONFIGURATION = """
{user}
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr;
events {{ worker_connections 128; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen {host}:{port};
        location / {{
            root {directory}/root;
            dav_methods PUT DELETE MKCOL;
            create_full_put_path on;
        }}
    }}
}}
"""


@pytest.fixture
def nginx_dav(tmp_path: Path) -> Iterator[str]:
    """The address of a fresh, empty server."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    port = free_port()
    (tmp_path / "root").mkdir()
    configuration = tmp_path / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(
        _CONFIGURATION.format(user=user, directory=tmp_path, host=LOOPBACK, port=port)
    )
    argv = [program, "-p", tmp_path, "-c", configuration]
    nginx = ServerProcess(
        "nginx", argv, directory=tmp_path, ready=lambda: accepts_connections(port)
    )
    nginx.start()
    yield f"http://{LOOPBACK}:{port}"
    nginx.stop()
