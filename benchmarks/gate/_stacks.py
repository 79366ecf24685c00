"""Servers to compare: Apache alone, under the gate, with the shim alone, and behind HAProxy and nginx.

Each has an Apache of its own, all of the same configuration, so that what each uses can be told apart and a proxy's
idle connections take nobody else's workers. All of them run at the same time; those that are not asked use no CPU.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from _bench import PATH, SIZE_BYTES, Placement

from trimtab import own
from trimtab.testbed import apache_config, content
from trimtab.testbed._private import free_ports, worker_user
from trimtab.testbed.apache import module_directory, program
from trimtab.testbed.apache_config import ApacheSpec, Mpm

PROCESSES = 128
PATIENCE_S = 60.0
KINDS = ("bare", "gate", "gate by path", "haproxy", "nginx")

# No connection waits for a budget: 50 clients, all of the second class.
GATE = """
listen = [{port}]
workers = {workers}
guarantee = "relative"
[[class]]
name = "premium"
match = [{rule}]
desired = 1
budget = 4
[[class]]
name = "basic"
desired = 3
budget = {rest}
queue = 100000
"""
SHIMS: dict[str, tuple[str, ...]] = {"shim": (), "shim, time set": ("--keep-alive=60s",)}
RULES = {"gate": '{ source = "127.0.1.0/24" }', "gate by path": '{ path = "/buy" }'}

HAPROXY = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend clients
    bind 127.0.0.1:{port}
    default_backend apache
backend apache
    server apache 127.0.0.1:{behind} maxconn {rest}
"""

NGINX = """
daemon off;
{user}
worker_processes {cpus};
pid {directory}/nginx.pid;
error_log {directory}/logs/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    upstream apache {{
        server 127.0.0.1:{behind};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=511;
        location / {{
            proxy_pass http://apache;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Stack:
    """A server and what stands before it.

    Args:
        name: what it is.
        port: where it answers.
        roots: its first processes, whose descendants belong to it.
        directory: its files.
    """

    name: str
    port: int
    roots: tuple[int, ...]
    directory: Path

    def members(self) -> list[int]:
        """Its processes."""
        parents = {int(e): _parent(int(e)) for e in os.listdir("/proc") if e.isdigit()}
        found = list(self.roots)
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def cpu_s(self) -> float:
        """CPU seconds of all its living threads, to the nanosecond that the scheduler counts; none of them ends."""
        total_ns = 0
        for pid in self.members():
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    total_ns += int((task / "schedstat").read_text().split()[0])
        return total_ns / 1e9


@contextlib.contextmanager
def stacks(mpm: Mpm, kinds: Sequence[str], where: Placement) -> Iterator[list[Stack]]:
    """Starts servers, and ends them."""
    with contextlib.ExitStack() as all_of_them:
        yield [all_of_them.enter_context(stack(mpm, kind, where)) for kind in kinds]


def spec(mpm: Mpm) -> ApacheSpec:
    """An Apache with a worker for each of the clients, and some to spare."""
    if mpm == "prefork":
        return ApacheSpec(mpm, PROCESSES, PROCESSES, keep_alive_timeout_ms=60_000)
    # A thread for every connection in every process: the event MPM drops idle connections when all its threads work.
    return ApacheSpec(mpm, 2 * 64, 2, threads_per_child=64, keep_alive_timeout_ms=60_000)


@contextlib.contextmanager
def stack(mpm: Mpm, kind: str, where: Placement, apache: ApacheSpec | None = None) -> Iterator[Stack]:
    """Starts one server, and ends it.

    Args:
        mpm: of its Apache.
        kind: one of `KINDS` or `SHIMS`; any other name is bare Apache.
        where: it runs.
        apache: another Apache than that of `spec`.
    """
    apache = apache or spec(mpm)
    with tempfile.TemporaryDirectory(prefix="trimtab-benchmark-") as name, contextlib.ExitStack() as running:
        directory = Path(name)
        behind, port = free_ports(2)
        server = furnish(directory, apache, behind)
        if kind in RULES:
            # On the event MPM a budget counts connections, of which it holds three for each worker (Apache's
            # AsyncRequestWorkerFactor + 1): those that end linger without one.
            workers = apache.max_request_workers * (1 if mpm == "prefork" else 3)
            text = GATE.format(port=behind, workers=workers, rule=RULES[kind], rest=max(workers - 4, 1))
            (directory / "classes.toml").write_text(text)
            server = [*_run(f"--gate={directory}/classes.toml"), "--", *server]
        elif kind in SHIMS:
            server = [*_run(f"--ports={behind}", *SHIMS[kind]), "--", *server]
        roots = [running.enter_context(_process([*where.before(where.server), *server], directory))]
        await_answer(behind, directory)
        if kind in ("haproxy", "nginx"):
            proxy = _proxy(kind, directory, port, behind, where, apache)
            roots.append(running.enter_context(_process([*where.before(where.server), *proxy], directory)))
            await_answer(port, directory)
        else:
            port = behind
        yield Stack(kind, port, tuple(roots), directory)


def furnish(directory: Path, apache: ApacheSpec, port: int) -> list[str]:
    """Writes what an Apache needs, and gives its command.

    It listens on one port, as Debian ships it: with a second one its workers would take turns at a mutex.
    """
    user = worker_user()
    directory.chmod(0o755)
    for part in ("logs", "run", "php", "conf-enabled"):
        (directory / part).mkdir(mode=0o755)
    content.write(directory)
    (directory / "htdocs" / PATH[1:]).write_bytes(b"x" * SIZE_BYTES)
    (directory / "conf-enabled" / "benchmark.conf").write_text("MaxKeepAliveRequests 0\nTimeout 600\n")
    modules = apache_config.modules(apache, module_directory())
    config = directory / "apache2.conf"
    text = apache_config.text(apache, directory, modules, (port, port), user)
    config.write_text(text.replace(f"Listen 127.0.0.1:{port}\n", "", 1))
    return [program(), "-f", str(config), "-d", str(directory), "-DFOREGROUND"]


def _run(*how: str) -> list[str]:
    """`trimtab run`, under a name of its own."""
    return [*own.TRIMTAB, "run", f"--name=benchmark-{os.getpid()}-{time.monotonic_ns()}", *how]


def _proxy(kind: str, directory: Path, port: int, behind: int, where: Placement, apache: ApacheSpec) -> list[str]:
    """Writes a proxy's configuration, and gives its command."""
    user = f"user {' '.join(worker)};" if (worker := worker_user()) else ""
    text = {"haproxy": HAPROXY, "nginx": NGINX}[kind].format(
        port=port,
        behind=behind,
        rest=apache.max_request_workers - 4,
        directory=directory,
        cpus=where.cpus(),
        user=user,
    )
    config = directory / f"{kind}.conf"
    config.write_text(text)
    if kind == "haproxy":
        return ["/usr/sbin/haproxy", "-db", "-f", str(config)]
    return ["/usr/sbin/nginx", "-e", f"{directory}/logs/nginx.log", "-p", str(directory), "-c", str(config)]


@contextlib.contextmanager
def _process(command: list[str], directory: Path) -> Iterator[int]:
    """A process in a session of its own: Apache in the foreground ends its whole process group when it ends."""
    with (directory / "logs" / "output.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_answer(port: int, directory: Path) -> None:
    """Waits until the page comes.

    Raises:
        SystemExit: it does not.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            with contextlib.closing(client):
                client.request("GET", PATH)
                if client.getresponse().read() == b"x" * SIZE_BYTES:
                    return
        time.sleep(0.05)
    logs = "".join(log.read_text(errors="replace") for log in (directory / "logs").iterdir())
    raise SystemExit(f"no answer on port {port}: {logs[-2000:]}")


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])
