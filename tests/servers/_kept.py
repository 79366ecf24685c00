"""Apache with each MPM and nginx under `trimtab run --ports`, for tests of what happens to idle connections."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tests.servers._under_gate import PATIENCE_S, a_name, trimtab_run, until
from trimtab.gate import run_directory
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import processes_of
from trimtab.sensors._shared_file import MODE_FIXED, Histograms, Idle, KeepAlive, SharedFile
from trimtab.testbed import apache_config
from trimtab.testbed._private import free_ports, worker_user
from trimtab.testbed.apache import module_directory
from trimtab.testbed.apache import program as _apache
from trimtab.testbed.apache_config import ApacheSpec

Server = Literal["prefork", "worker", "event", "nginx"]
SERVERS: tuple[Server, ...] = get_args(Server)
POLLING: tuple[Server, ...] = ("prefork", "worker")
"""Those in which a worker waits for nothing but its one connection."""
OPEN = {"01", "08"}
"""ESTABLISHED, and CLOSE_WAIT: the client has closed, the server has not yet."""
PAGE, BODY = "/page.html", "a page\n" * 500
_WORKERS = 16
_APACHE = """
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
LoadModule ssl_module {modules}/mod_ssl.so
LoadModule mime_module {modules}/mod_mime.so
TypesConfig /dev/null
AddType image/svg+xml svg
MaxKeepAliveRequests 0
ProxyPass /back/ http://127.0.0.1:{backend}/ upgrade=websocket flushpackets=on
Listen 127.0.0.1:{tls}
<VirtualHost *:{tls}>
SSLEngine on
SSLCertificateFile {d}/certificate.pem
SSLCertificateKeyFile {d}/key.pem
</VirtualHost>
"""
_NGINX = """
daemon off;
worker_processes 2;
{user}
pid {d}/nginx.pid;
error_log {d}/logs/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  keepalive_timeout {keep_alive_ms}ms;
  keepalive_requests 1000000;
  client_body_temp_path {d}/t; proxy_temp_path {d}/t; fastcgi_temp_path {d}/t;
  uwsgi_temp_path {d}/t; scgi_temp_path {d}/t;
  types {{ text/html html; image/svg+xml svg; }}
  server {{
    listen 127.0.0.1:{port};
    listen 127.0.0.1:{tls} ssl;
    ssl_certificate {d}/certificate.pem;
    ssl_certificate_key {d}/key.pem;
    root {d}/htdocs;
    location /back/ {{
      proxy_pass http://127.0.0.1:{backend}/;
      proxy_http_version 1.1;
      proxy_buffering off;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $http_connection;
    }}
  }}
}}
"""


@dataclass
class Kept:
    """A server whose idle connections are watched; what is counted is counted from `begin` on.

    Args:
        server: which.
        process: `trimtab run`.
        run_dir: its run directory.
        port: of the pages in clear.
        tls: of the same pages over TLS.
        documents: where the pages lie.
    """

    server: Server
    process: subprocess.Popen[str]
    run_dir: RunDirectory
    port: int
    tls: int
    documents: Path

    def begin(self) -> None:
        """Waits until nobody is connected any more, and counts from then on."""
        until(lambda: not connected(self.port, self.tls), "the server does not close what its clients have closed")
        self._before = self._now()

    def keep(self, time_ms: int, trial_ms: int = 0, every: int = 0) -> None:
        """Takes charge of the keep-alive time, and sets it; with 0 the server's own stays in force."""
        with contextlib.closing(SharedFile(self.run_dir.shared, write=True)) as file:
            file.set_keep_alive(KeepAlive(time_ms * 10**6, trial_ms * 10**6, every, MODE_FIXED))

    def idle(self) -> Idle:
        """What idle periods have come to; the server's own time is that of now."""
        (now, _), (before, _) = self._now(), self._before
        grown = {key: value - getattr(before, key) for key, value in vars(now).items()}
        return Idle(**{**grown, "server_ms": now.server_ms})

    def steps(self) -> dict[int, int]:
        """Request intervals by steps of 50 ms, as far as there are any."""
        (_, now), (_, before) = self._now(), self._before
        found = zip(now.intervals_50ms, before.intervals_50ms, strict=True)
        return {step: a - b for step, (a, b) in enumerate(found) if a > b}

    def ended(self) -> tuple[int, int]:
        """How many lengths there are of idle periods that the shim or the server ended, and that clients ended."""
        (_, now), (_, before) = self._now(), self._before
        return sum(now.ended) - sum(before.ended), sum(now.left) - sum(before.left)

    def _now(self) -> tuple[Idle, Histograms]:
        with contextlib.closing(SharedFile(self.run_dir.shared)) as file:
            return file.idle(), file.histograms()

    def connect(self) -> socket.socket:
        """A connection in clear."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def connect_tls(self) -> ssl.SSLSocket:
        """A connection over TLS, after its handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.tls), timeout=PATIENCE_S))


@contextlib.contextmanager
def kept(server: Server, keep_alive_ms: int = 300_000, backend: int = 9) -> Iterator[Kept]:
    """Starts a small server; what is left at the end is ended.

    Args:
        server: which.
        keep_alive_ms: its own keep-alive time.
        backend: port of what it is a proxy of under /back/.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-kept-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        _fill(directory)
        port, other, tls = free_ports(3)
        if server == "nginx":
            user = "user {} {};".format(*worker) if (worker := worker_user()) else ""
            ports = {"port": port, "tls": tls, "backend": backend}
            config = directory / "nginx.conf"
            config.write_text(_NGINX.format(d=directory, user=user, keep_alive_ms=keep_alive_ms, **ports))
            command: list[object] = [_nginx(), "-c", config]
        else:
            command = _apache_command(server, keep_alive_ms, directory, (port, other), tls, backend)
        ours = a_name()
        process = trimtab_run("--name", ours, "--ports", f"{port},{tls}", "--", *command)
        bed = Kept(server, process, run_directory.named(ours), port, tls, directory / "htdocs")
        try:
            until(lambda: _listens(bed), f"{server} did not start")
            bed.begin()
            yield bed
        finally:
            _stop(bed)


def connected(*ports: int) -> bool:
    """Whether a connection that was made to one of these ports is open at the server's side."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(int(local.rpartition(":")[2], 16) in ports and state in OPEN for _, local, _, state, *_ in rows)


def _fill(directory: Path) -> None:
    for part in ("htdocs", "cgi-bin", "logs", "run", "php", "conf-enabled", "t"):
        (directory / part).mkdir(mode=0o755)
    (directory / "t").chmod(0o777)
    (directory / "htdocs" / PAGE[1:]).write_text(BODY)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", directory / "key.pem")
    certificate = ("-subj", "/CN=localhost", "-days", "2", "-out", directory / "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", *key, *certificate], check=True, capture_output=True)


def _apache_command(
    mpm: Literal["prefork", "worker", "event"],
    keep_alive_ms: int,
    directory: Path,
    ports: tuple[int, int],
    tls: int,
    backend: int,
) -> list[object]:
    threads = 1 if mpm == "prefork" else 8
    spec = ApacheSpec(mpm, _WORKERS, _WORKERS // threads, threads, keep_alive_timeout_ms=keep_alive_ms)
    user = worker_user()
    modules = apache_config.modules(spec, module_directory())
    config = directory / "apache2.conf"
    config.write_text(apache_config.text(spec, directory, modules, ports, user))
    more = _APACHE.format(modules=module_directory(), backend=backend, tls=tls, d=directory)
    (directory / "conf-enabled" / "kept.conf").write_text(more)
    return [_apache(), "-f", config, "-d", directory, "-DFOREGROUND"]


def _nginx() -> str:
    found = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
    assert found is not None, "nginx is not installed"
    return found


def _listens(bed: Kept) -> bool:
    assert bed.process.poll() is None, bed.process.communicate()
    with socket.socket() as one:
        one.settimeout(5)
        return one.connect_ex(("127.0.0.1", bed.port)) == 0


def _stop(bed: Kept) -> None:
    if bed.process.poll() is None:
        bed.process.send_signal(signal.SIGTERM)
    try:
        bed.process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        bed.process.kill()
        bed.process.communicate()
    for left in processes_of(bed.run_dir):
        with contextlib.suppress(ProcessLookupError):
            os.kill(left.pid, signal.SIGKILL)
