"""Debian's nginx, HAProxy and Apache in front of a gateway, configured as the how-to says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.server_process import LOOPBACK, ServerProcess, accepts_connections, free_port

_HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "behind-a-front.md"
_APACHE_MODULES = Path("/usr/lib/apache2/modules")
_NGINX = """daemon off;
master_process off;
pid {home}/nginx.pid;
error_log stderr;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
{settings}
}}
"""
_APACHE = """{modules}
PidFile {home}/apache.pid
ServerName localhost
ErrorLog {home}/apache-error.log
DocumentRoot {home}
DefaultRuntimeDir {home}
User www-data
Group www-data
{settings}
"""

FRONTS = ("nginx", "haproxy", "apache")


def documented(front: str) -> str:
    """The settings of a front, as the how-to gives them."""
    found = re.search(rf"```{front}\n(.*?)```", _HOW_TO.read_text(), re.DOTALL)
    assert found is not None, front
    return found[1]


class FrontServer:
    """One front on a port of its own; `gateway_port` is where it sends everything."""

    def __init__(self, name: str, home: Path, gateway_port: int) -> None:
        self.name = name
        self.port = free_port()
        settings = documented(name).replace("127.0.0.1:8000", f"{LOOPBACK}:{self.port}")
        settings = settings.replace("127.0.0.1:8080", f"{LOOPBACK}:{gateway_port}")
        path = home / f"{name}.conf"
        argv: list[str | Path]
        if name == "nginx":
            path.write_text(_NGINX.format(home=home, settings=settings))
            argv = ["/usr/sbin/nginx", "-e", "stderr", "-p", home, "-c", path]
        elif name == "haproxy":
            path.write_text(settings)
            argv = ["/usr/sbin/haproxy", "-db", "-f", path]
        else:
            names = ("mpm_event", "authz_core", "proxy", "proxy_http")
            modules = "\n".join(
                f"LoadModule {n}_module {_APACHE_MODULES}/mod_{n}.so" for n in names
            )
            path.write_text(_APACHE.format(modules=modules, home=home, settings=settings))
            argv = ["/usr/sbin/apache2", "-DFOREGROUND", "-f", path]
        self.process = ServerProcess(
            name, argv, directory=home, ready=lambda: accepts_connections(self.port)
        )


@pytest.fixture
def new_front(tmp_path: Path) -> Iterator[Callable[[str, int], FrontServer]]:
    """Starts fronts by name, before a gateway's port; ends them when the test is over."""
    started: list[FrontServer] = []

    def start(name: str, gateway_port: int) -> FrontServer:
        home = tmp_path / name
        home.mkdir()
        front = FrontServer(name, home, gateway_port)
        front.process.start()
        started.append(front)
        return front

    yield start
    for front in started:
        front.process.stop()
        print(front.process.output_tail())
