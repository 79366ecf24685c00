"""The configuration of a private Apache, as a pure function of its specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trimtab.errors import UsageError
from trimtab.testbed.cgroup import Limits

Mpm = Literal["prefork", "worker", "event"]

MODULES = ("authz_core", "authz_host", "alias", "status")


@dataclass(frozen=True)
class ApacheSpec(Limits):
    """A private Apache and its limits. The values are those that Debian ships, except where said.

    Args:
        mpm: how it processes: one process per connection, or threads.
        max_request_workers: connections served at a time.
        server_limit: the largest number of processes.
        threads_per_child: threads in a process (worker, event).
        start_servers: processes from the start; None for as many as `max_request_workers` asks for.
        spare_workers: least and most idle workers; None for the whole pool, so that the pool has
            `max_request_workers` at any time, as liu2003 varies it. Not what Debian ships.
        keep_alive_timeout_ms: how long a worker waits for the next request of a connection; 0 for KeepAlive Off.
        listen_backlog: length of the accept queue; the kernel bounds it by net.core.somaxconn.
        php: whether mod_php is loaded; only prefork can.
        fastcgi: where its pages of PHP are made, such as "unix:/run/fpm.sock|fcgi://localhost"; empty for nowhere.
        surge_files: files of SURGE's set that it serves under /surge/; 0 for none.
        specweb99_directories: directories of SPECweb99's set that it serves under /file_set/; 0 for none.

    Raises:
        UsageError: the combination cannot work.
    """

    mpm: Mpm = "prefork"
    max_request_workers: int = 150
    server_limit: int = 256
    threads_per_child: int = 25
    start_servers: int | None = None
    spare_workers: tuple[int, int] | None = None
    keep_alive_timeout_ms: int = 5000
    listen_backlog: int = 511
    php: bool = False
    fastcgi: str = ""
    surge_files: int = 0
    specweb99_directories: int = 0

    def __post_init__(self) -> None:
        if self.php and self.mpm != "prefork":
            raise UsageError(f"php needs mpm prefork, not {self.mpm}: mod_php is not safe with threads")
        if self.max_request_workers > self.most_workers():
            limit = f"server_limit {self.server_limit} allows {self.most_workers()}"
            raise UsageError(f"max_request_workers {self.max_request_workers}: {limit}")
        if self.mpm != "prefork" and self.max_request_workers % self.threads_per_child:
            raise UsageError(
                f"max_request_workers {self.max_request_workers} is no multiple of {self.threads_per_child} threads"
            )

    def most_workers(self) -> int:
        """The largest `max_request_workers` without a restart."""
        return self.server_limit * (1 if self.mpm == "prefork" else self.threads_per_child)


def modules(spec: ApacheSpec, directory: Path) -> list[tuple[str, Path]]:
    """Names and files of the modules to load.

    Args:
        spec: the server's specification.
        directory: where Apache's modules are.

    Raises:
        UsageError: one is not installed.
    """
    cgi = "cgi" if spec.mpm == "prefork" else "cgid"
    proxy = ("proxy", "proxy_fcgi") if spec.fastcgi else ()
    files = {name: directory / f"mod_{name}.so" for name in (f"mpm_{spec.mpm}", *MODULES, *proxy, cgi)}
    wanted = [(f"{name}_module", file) for name, file in files.items()]
    if spec.php:
        found = sorted(directory.glob("libphp*.so"))
        if not found:
            raise UsageError(f"mod_php is not in {directory}; install libapache2-mod-php")
        wanted.append(("php_module", found[-1]))
    absent = [file.name for _, file in wanted if not file.exists()]
    if absent:
        raise UsageError(f"Apache's modules {', '.join(absent)} are not in {directory}; install apache2")
    return wanted


def processing(spec: ApacheSpec) -> list[str]:
    """The directives of the MPM."""
    low, high = spec.spare_workers or (1, spec.most_workers())
    if spec.mpm == "prefork":
        start = spec.start_servers if spec.start_servers is not None else spec.server_limit
        lines = [f"MinSpareServers {low}", f"MaxSpareServers {high}"]
    else:
        start = spec.start_servers if spec.start_servers is not None else spec.max_request_workers
        start = start if spec.start_servers is not None else start // spec.threads_per_child
        lines = [
            f"ThreadsPerChild {spec.threads_per_child}",
            f"ThreadLimit {max(64, spec.threads_per_child)}",
            f"MinSpareThreads {low}",
            f"MaxSpareThreads {high}",
        ]
    return [
        f"ServerLimit {spec.server_limit}",
        f"StartServers {start}",
        *lines,
        f"MaxRequestWorkers {spec.max_request_workers}",
        "MaxConnectionsPerChild 0",
    ]


def text(
    spec: ApacheSpec,
    directory: Path,
    loaded: Sequence[tuple[str, Path]],
    ports: tuple[int, int],
    user: tuple[str, str] | None,
) -> str:
    """The configuration file.

    Args:
        spec: the server's specification.
        directory: the private server root, which holds htdocs, cgi-bin, logs, run, php and conf-enabled.
        loaded: names and files of the modules.
        ports: that of the pages and that of the status page.
        user: user and group of the workers; None to keep the user who starts it.
    """
    quoted = f'"{directory}'
    lines = [
        f'ServerRoot {quoted}"',
        "ServerName 127.0.0.1",
        f'DefaultRuntimeDir {quoted}/run"',
        f'PidFile {quoted}/run/apache2.pid"',
        f'ErrorLog {quoted}/logs/error.log"',
        "LogLevel warn",
        *(f"LoadModule {name} {file}" for name, file in loaded),
        *([] if user is None else [f"User {user[0]}", f"Group {user[1]}"]),
        *(f"Listen 127.0.0.1:{port}" for port in ports),
        f"ListenBacklog {spec.listen_backlog}",
        "Timeout 60",
        *_keep_alive(spec),
        *processing(spec),
        "ExtendedStatus On",
        *_pages(quoted),
    ]
    if spec.mpm != "prefork":
        lines.append(f'ScriptSock {quoted}/run/cgid.sock"')
    if spec.php:
        lines += [f'PHPIniDir {quoted}/php"', '<FilesMatch "\\.php$">', "    SetHandler application/x-httpd-php"]
        lines.append("</FilesMatch>")
    if spec.fastcgi:
        lines += ['<FilesMatch "\\.php$">', f'    SetHandler "proxy:{spec.fastcgi}"', "</FilesMatch>"]
    lines.append(f'IncludeOptional {quoted}/conf-enabled/*.conf"')
    return "\n".join(lines) + "\n"


def _keep_alive(spec: ApacheSpec) -> list[str]:
    """The directives of persistent connections."""
    if spec.keep_alive_timeout_ms == 0:
        return ["KeepAlive Off"]
    return [
        "KeepAlive On",
        "MaxKeepAliveRequests 100",
        f"KeepAliveTimeout {spec.keep_alive_timeout_ms}ms",
    ]


def _pages(quoted: str) -> list[str]:
    """Who may see what: the static files, the CGI programs and the status page.

    Args:
        quoted: the server root, behind an opening quotation mark.
    """
    return [
        "<Directory />",
        "    AllowOverride None",
        "    Require all denied",
        "</Directory>",
        f'DocumentRoot {quoted}/htdocs"',
        f'<Directory {quoted}/htdocs">',
        "    Require all granted",
        '    <FilesMatch "\\.html$">',
        "        ForceType text/html",
        "    </FilesMatch>",
        "</Directory>",
        f'ScriptAlias /cgi-bin/ {quoted}/cgi-bin/"',
        f'<Directory {quoted}/cgi-bin">',
        "    Options +ExecCGI",
        "    Require all granted",
        "</Directory>",
        "<Location /server-status>",
        "    SetHandler server-status",
        "    Require local",
        "</Location>",
    ]
