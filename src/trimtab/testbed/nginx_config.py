"""The configuration of a private nginx, as a pure function of its specification."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError


@dataclass(frozen=True)
class NginxSpec:
    """A private nginx and its limits.

    Args:
        processes: worker processes.
        connections: connections that each may have at a time.
        status: whether it has a page of stub_status at /nginx_status.
        keep_alive_timeout_ms: how long it keeps an idle connection; 0 for not at all.
        listen_backlog: length of the accept queue; the kernel bounds it by net.core.somaxconn.
        specweb99_directories: directories of SPECweb99's set that it serves under /file_set/; 0 for none.
        fastcgi: where its pages of PHP are made, such as "unix:/run/fpm.sock"; empty for nowhere.
        cpus: the CPUs it may run on; None for all.
        cpu_weight: its claim on a CPU that others want too, where one ordinary process has 1; up to 100.

    Raises:
        UsageError: a value is outside what is allowed.
    """

    processes: int = 1
    connections: int = 4096
    status: bool = False
    keep_alive_timeout_ms: int = 75_000
    listen_backlog: int = 511
    specweb99_directories: int = 0
    fastcgi: str = ""
    cpus: tuple[int, ...] | None = None
    cpu_weight: int = 1

    def __post_init__(self) -> None:
        for name in ("processes", "connections"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is not allowed: it must be at least 1")
        if self.keep_alive_timeout_ms < 0:
            raise UsageError(
                f"keep_alive_timeout_ms {self.keep_alive_timeout_ms} is not allowed: it must be at least 0"
            )


def text(spec: NginxSpec, directory: Path, port: int, user: tuple[str, str] | None) -> str:
    """The configuration file.

    Args:
        spec: the server's specification.
        directory: the private prefix, which holds htdocs, logs and run.
        port: where it listens.
        user: user and group of the workers; None to keep the user who starts it.
    """
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    lines = [
        *([] if user is None else [f"user {user[0]} {user[1]};"]),
        "daemon off;",
        f"worker_processes {spec.processes};",
        f"pid {directory}/run/nginx.pid;",
        f"error_log {directory}/logs/error.log warn;",
        f"events {{ worker_connections {spec.connections}; }}",
        "http {",
        "    default_type text/html;",
        "    access_log off;",
        "    sendfile on;",
        f"    keepalive_timeout {spec.keep_alive_timeout_ms}ms;",
        *(f"    {place}_temp_path {directory}/run/{place};" for place in places),
        "    server {",
        *(["        location = /nginx_status { stub_status; }"] if spec.status else []),
        f"        listen 127.0.0.1:{port} backlog={spec.listen_backlog};",
        f"        root {directory}/htdocs;",
        *([] if not spec.fastcgi else [f"        location ~ \\.php$ {{ {_passed(spec.fastcgi)} }}"]),
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _passed(fastcgi: str) -> str:
    """Directives that pass a page on by FastCGI, as Debian's snippets/fastcgi-php.conf has them."""
    given = {
        "SCRIPT_FILENAME": "$document_root$fastcgi_script_name",
        "SCRIPT_NAME": "$fastcgi_script_name",
        "QUERY_STRING": "$query_string",
        "REQUEST_METHOD": "$request_method",
        "REQUEST_URI": "$request_uri",
        "SERVER_PROTOCOL": "$server_protocol",
        "SERVER_NAME": "$server_name",
        "SERVER_PORT": "$server_port",
        "REMOTE_ADDR": "$remote_addr",
    }
    return " ".join(
        [*(f"fastcgi_param {name} {value};" for name, value in given.items()), f"fastcgi_pass {fastcgi};"]
    )
