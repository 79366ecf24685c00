"""Servers that close a listener under a gate: the port goes and comes with them, and no client waits for ever."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.servers._any_server import AnyServer, listens, under_run
from tests.servers._asking import PATIENCE_S, Asking, asking, page, pages
from tests.servers._under_gate import catches, until
from tests.servers.test_shim_servers import NGINX, children, offspring, program
from trimtab.processes import parent_of
from trimtab.testbed._private import free_ports, worker_user

pytestmark = pytest.mark.server
PYTHON = """
import http.server, os, signal, socket, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")
        self.asked(self.path)
    def asked(self, path): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
first, second = map(int, sys.argv[1:])
"""
PROCESSES = """
Server.allow_reuse_port = True
processes = [os.fork()]
if processes[0]:
    processes.append(os.fork())
if 0 in processes:
    Server(("127.0.0.1", first), Handler).serve_forever()
def end(*_):
    for process in processes:
        os.kill(process, signal.SIGTERM)
    sys.exit()
signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()
"""
"""Each process has opened the port for itself."""
AGAIN = """
def asked(self, path):
    if path == "/again":
        threading.Thread(target=self.server.shutdown).start()
Handler.asked = asked
while True:
    with Server(("127.0.0.1", first), Handler) as server:
        server.serve_forever()
"""
"""The port is closed and opened anew at a request."""
RESTS = """
def asked(self, path):
    if path == "/rest":
        self.server.socket.shutdown(socket.SHUT_RDWR)
        self.server.socket.listen(64)
Handler.asked = asked
Server(("127.0.0.1", first), Handler).serve_forever()
"""
"""The port is shut down at a request, and listened at again by the same descriptor."""
ANOTHER = """
def asked(self, path):
    if path == "/another":
        threading.Thread(target=Server(("127.0.0.1", second), Handler).serve_forever).start()
Handler.asked = asked
Server(("127.0.0.1", first), Handler).serve_forever()
"""
"""Another port is opened at a request."""


@contextlib.contextmanager
def python(directory: Path, code: str) -> Iterator[tuple[AnyServer, Sequence[int]]]:
    """A server of Python's that may listen on two ports."""
    ports = free_ports(2)
    command = [sys.executable, "-c", PYTHON + code, *ports]
    with under_run(command, ports[0], directory, workers=4, more=ports[1:]) as server:
        yield server, ports


def is_refused(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as one:
        one.settimeout(PATIENCE_S)
        return one.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def listeners(port: int) -> set[str]:
    """The sockets that listen there, by their inodes."""
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {words[9] for words in lines if words[1].endswith(f":{port:04X}") and words[3] == "0A"}


def test_a_port_that_nginx_gives_up_in_a_reload_is_refused_and_comes_back_in_the_next() -> None:
    ports = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="trimtab-server-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        config = directory / "nginx.conf"
        user = "user {} {};".format(*worker) if (worker := worker_user()) else ""

        def with_ports(*which: int) -> None:
            listing = (f"server {{ listen 127.0.0.1:{n}; location / {{ return 200 done; }} }}" for n in which)
            config.write_text(NGINX.format(d=directory, daemon="off", user=user, servers=" ".join(listing)))

        with_ports(*ports)
        command = [program("nginx"), "-c", config]
        with under_run(command, ports[0], directory, workers=32, more=ports[1:]) as server:
            client = Asking(pages(ports[0], "/"), 2)
            with asking(client):
                for _ in range(2):
                    assert pages(ports[1], "/")() == 1
                    with_ports(ports[0])
                    server.process.send_signal(signal.SIGHUP)
                    until(lambda: is_refused(ports[1]), "somebody listens at the port that was given up")
                    with_ports(*ports)
                    server.process.send_signal(signal.SIGHUP)
                    until(lambda: listens(ports[1]), "nginx did not get its port back")
            assert client.failed == {}


def test_clients_are_served_when_one_of_the_processes_ends_that_have_each_opened_the_port(tmp_path: Path) -> None:
    with python(tmp_path, PROCESSES) as (server, ports):
        until(lambda: len(listeners(ports[0])) == 2, "two processes do not listen")
        ended, stays = children(server)
        os.kill(ended, signal.SIGTERM)
        until(lambda: len(listeners(ports[0])) == 1, "the listener of the process that has ended is there yet")
        for _ in range(40):
            assert pages(ports[0], "/")() == 1
        os.kill(stays, signal.SIGTERM)
        until(lambda: is_refused(ports[0]), "nobody serves, and clients are not refused")


def test_a_server_can_close_its_port_and_open_it_anew_at_once(tmp_path: Path) -> None:
    with python(tmp_path, AGAIN) as (server, ports):
        for _ in range(5):
            before = listeners(ports[0])
            assert pages(ports[0], "/again")() == 1
            # What came before the port was closed may be reset, as without a gate.
            with contextlib.suppress(ConnectionError):
                pages(ports[0], "/")()
            until(lambda before=before: listeners(ports[0]) - before, "the port does not come back")  # type: ignore[misc]
            assert server.process.poll() is None


def test_a_port_is_gated_again_that_its_only_process_shuts_down_and_listens_at_again(tmp_path: Path) -> None:
    with python(tmp_path, RESTS) as (server, ports):
        for _ in range(3):
            assert pages(ports[0], "/rest")() == 1
            before = server.reading("dispatched")

            def is_gated(before: int = before) -> bool:
                # What comes in the moment of rest is refused or reset, as without a gate.
                with contextlib.suppress(ConnectionError):
                    pages(ports[0], "/")()
                return server.reading("dispatched") > before

            until(is_gated, "its clients are served without the gate")


def test_a_connection_keeps_its_slot_when_its_process_opens_another_port(tmp_path: Path) -> None:
    with (
        python(tmp_path, ANOTHER) as (server, ports),
        socket.create_connection(("127.0.0.1", ports[0]), PATIENCE_S) as kept,
    ):
        page(kept, "/another")
        until(lambda: listens(ports[1]), "no other port")
        assert pages(ports[1], "/")() == 1
        until(lambda: server.reading("in_service") == 1, "the connection counts no more, or another one does yet")
        page(kept, "/")
        assert server.reading("in_service") == 1


STARTED = """
import multiprocessing, signal, socket, sys
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\ndone"
def serve(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            if connection.recv(4096):
                connection.sendall(ANSWER)
if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    port, how = sys.argv[1:]
    starting = multiprocessing.get_context(how)
    with socket.create_server(("127.0.0.1", int(port))) as listener:
        processes = [starting.Process(target=serve, args=(listener,), daemon=True) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
"""


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_programs_that_python_starts_with_its_listener_take_connections(tmp_path: Path, how: str) -> None:
    """Spawned ones are executed after vfork with what Python says by ioctl; to the others the listener is passed."""
    port, code = free_ports(1)[0], tmp_path / "started.py"
    code.write_text(STARTED)
    with under_run([sys.executable, code, port, how], port, tmp_path, workers=4) as server:
        for _ in range(10):
            assert pages(port, "/")() == 1
        assert server.reading("dispatched") >= 10


HAPROXY = """
global
  maxconn 100
defaults
  mode http
  timeout client 60s
  timeout connect 5s
  timeout server 5s
frontend pages
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string done
"""


def test_no_client_of_haproxy_waits_for_ever_or_is_lost_when_it_is_reloaded(tmp_path: Path) -> None:
    """Its next process opens the port beside that of the one before, which closes it then."""
    port, config = free_ports(1)[0], tmp_path / "haproxy.cfg"
    config.write_text(HAPROXY.format(port=port))
    with under_run([program("haproxy"), "-W", "-db", "-f", config], port, tmp_path, workers=2) as server:
        client = Asking(pages(port, "/"), 6)
        with asking(client):
            for _ in range(3):
                before = set(children(server))
                (master,) = {parent_of(child) for child in before}
                # It executes itself once more after each start.
                until(lambda: catches(master, signal.SIGUSR2), "the master is not ready")  # noqa: B023
                server.process.send_signal(signal.SIGUSR2)
                until(lambda: set(children(server)).isdisjoint(before), "the process before stays")  # noqa: B023
                dispatched = server.reading("dispatched")
                until(lambda: server.reading("dispatched") > dispatched + 50, "nobody is served")  # noqa: B023
        assert client.failed == {}


SQUID = """
http_port 127.0.0.1:{port}
http_access allow manager
cache_log {d}/cache.log
access_log none
pid_filename none
coredump_dir {d}
pinger_enable off
netdb_filename none
shutdown_lifetime 0 seconds
"""


def test_squid_gets_its_port_back_that_it_closes_when_it_is_reloaded() -> None:
    with tempfile.TemporaryDirectory(prefix="trimtab-server-") as name:
        directory, port = Path(name), free_ports(1)[0]
        directory.chmod(0o755)
        config, its = directory / "squid.conf", directory / "its"
        its.mkdir()
        its.chmod(0o777)
        log = its / "cache.log"
        config.write_text(SQUID.format(port=port, d=its))
        command = [program("squid"), "-N", "-n", f"test{os.getpid()}", "-f", config]
        with under_run(command, port, directory, workers=8) as server:
            (squid,) = (one for one in offspring(server.process.pid) if one not in server.gate_processes())
            until(lambda: catches(squid, signal.SIGHUP), "Squid is not ready")
            for number in range(3):
                server.process.send_signal(signal.SIGHUP)
                opened = "Accepting HTTP Socket connections"
                until(lambda: log.read_text().count(opened) > number + 1, "no reload")  # noqa: B023
                until(lambda: listens(port), "nobody listens any more")
            assert server.process.poll() is None
