"""nginx, PHP-FPM and Python's own server, all unmodified: through the gate, without it, and through it again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers._any_server import AnyServer, under_run
from tests.servers._asking import PATIENCE_S, Asking, asking, pages
from tests.servers._under_gate import kill_together, until
from trimtab.sensors._shared_file import SharedFile
from trimtab.testbed._private import free_ports, worker_user

pytestmark = pytest.mark.server
TEXT = "a page\n" * 1500

NGINX = """
daemon {daemon};
worker_processes 2;
{user}
pid {d}/nginx.pid;
error_log {d}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {d}/t; proxy_temp_path {d}/t; fastcgi_temp_path {d}/t;
  uwsgi_temp_path {d}/t; scgi_temp_path {d}/t;
  {servers}
}}
"""
FPM = """
[global]
error_log = {d}/fpm.log
daemonize = no
[www]
{user}
listen = 127.0.0.1:{port}
listen.allowed_clients = 127.0.0.1
pm = {pm}
pm.max_children = 4
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A place that workers who have given up their rights can read; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory(prefix="trimtab-server-") as name:
        made = Path(name)
        made.chmod(0o755)
        (made / "www").mkdir(mode=0o755)
        (made / "t").mkdir()
        (made / "t").chmod(0o777)
        (made / "www" / "page.html").write_text(TEXT)
        (made / "www" / "page.php").write_text("<?php echo 'answered';")
        yield made


def program(*names: str) -> str:
    """The first of these programs that is installed."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
    found = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
    assert found is not None, f"none of {names} is installed"
    return found


@contextlib.contextmanager
def nginx(directory: Path, daemon: str = "off") -> Iterator[AnyServer]:
    port, config = free_ports(1)[0], directory / "nginx.conf"
    user = "user {} {};".format(*worker) if (worker := worker_user()) else ""
    servers = f"server {{ listen 127.0.0.1:{port}; root {directory}/www; }}"
    config.write_text(NGINX.format(d=directory, servers=servers, user=user, daemon=daemon))
    with under_run([program("nginx"), "-c", config], port, directory, workers=32) as server:
        yield server


@contextlib.contextmanager
def python(directory: Path) -> Iterator[AnyServer]:
    port = free_ports(1)[0]
    code = (
        "import functools, http.server as s;"
        f"h = functools.partial(s.SimpleHTTPRequestHandler, directory={os.fspath(directory / 'www')!r});"
        "s.SimpleHTTPRequestHandler.log_message = lambda *a: None;"
        f"s.ThreadingHTTPServer(('127.0.0.1', {port}), h).serve_forever()"
    )
    with under_run([sys.executable, "-c", code], port, directory, workers=8) as server:
        yield server


@contextlib.contextmanager
def fpm(directory: Path, pm: str) -> Iterator[AnyServer]:
    port, config = free_ports(1)[0], directory / "fpm.conf"
    user = "user = {}\ngroup = {}".format(*worker) if (worker := worker_user()) else ""
    config.write_text(FPM.format(d=directory, port=port, user=user, pm=pm))
    command = [program("php-fpm8.2", "php-fpm8.3", "php-fpm8.4", "php-fpm"), "-n", "-F", "-y", config]
    with under_run(command, port, directory, workers=4) as server:
        yield server


def fcgi(port: int, script: Path) -> Callable[[], int]:
    """One request to a FastCGI responder."""

    def record(kind: int, body: bytes) -> bytes:
        return struct.pack(">BBHHBx", 1, kind, 1, len(body), 0) + body

    given = {"SCRIPT_FILENAME": os.fspath(script), "REQUEST_METHOD": "GET", "SCRIPT_NAME": "/page.php"}
    words = b"".join(bytes((len(k), len(v))) + (k + v).encode() for k, v in given.items())
    begin = struct.pack(">HB5x", 1, 0)
    whole = record(1, begin) + record(4, words) + record(4, b"") + record(5, b"")

    def ask() -> int:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(whole)
            reply = bytearray()
            while got := connection.recv(65_536):
                reply += got
        if b"answered" not in reply:
            raise ConnectionError(f"no answer: {bytes(reply)!r}")
        return 1

    return ask


def children(server: AnyServer) -> list[int]:
    """The children of the server's first process, which is a child of `trimtab run` as the guardian is."""
    gate = server.gate_processes()
    return [child for one in offspring(server.process.pid) if one not in gate for child in offspring(one)]


def offspring(pid: int) -> list[int]:
    """The child processes of one, which may have ended."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def goes_and_comes_back(server: AnyServer, ask: Callable[[], int]) -> tuple[int, dict[str, int]]:
    """Through the gate; without it, when both its processes are dead; and through its successor.

    Returns:
        (connections that the first gate dispatched of ten requests, failed requests during the return by kind).
    """
    before = server.reading("dispatched")
    for _ in range(10):
        ask()
    dispatched = server.reading("dispatched") - before
    until(lambda: server.reading("in_service") == 0, "slots were not given back")
    first = server.gate_processes()
    assert len(first) == 2
    kill_together(first)
    for _ in range(5):
        ask()
    until(lambda: len(set(server.gate_processes()) - set(first)) == 2, "no new gate")
    clients = Asking(ask, 4)
    with asking(clients):
        before = server.reading("dispatched")
        until(lambda: server.reading("dispatched") > before + 20, "the server did not return to the gate")
    until(lambda: server.reading("in_service") == 0, "slots were not given back")
    return dispatched, dict(clients.failed)


def test_nginx_goes_through_the_gate_without_it_and_through_it_again(directory: Path) -> None:
    with nginx(directory) as server:
        assert goes_and_comes_back(server, pages(server.port, "/page.html")) == (10, {})


def test_each_address_of_one_port_is_answered_with_its_own_pages_when_a_budget_binds(directory: Path) -> None:
    """nginx has a set of virtual servers for each listener, and takes those of the listener at which it accepts."""
    port, config = free_ports(1)[0], directory / "nginx.conf"
    both = (f"server {{ listen 127.0.0.{n}:{port}; location / {{ return 200 {n}; }} }}" for n in (1, 2))
    config.write_text(NGINX.format(d=directory, servers=" ".join(both), user="", daemon="off"))
    with under_run([program("nginx"), "-c", config], port, directory, workers=2) as server:

        def asked(address: str) -> socket.socket:
            connection = socket.create_connection((address, port), timeout=PATIENCE_S)
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return connection

        def answer(connection: socket.socket) -> bytes:
            reply = connection.recv(65_536)
            while b"\r\n\r\n" not in reply or reply.endswith(b"\r\n\r\n"):
                reply += connection.recv(65_536)
            return reply[-1:]

        shared = SharedFile(server.run_dir.shared)
        for _ in range(3):
            until(shared.lends, "the workers may not accept for themselves")
            with contextlib.ExitStack() as stack:
                held = [stack.enter_context(asked(f"127.0.0.{n}")) for n in (1, 2)]
                assert [answer(one) for one in held] == [b"1", b"2"]
                # The first of them is handed over by a worker, who finds the budget used up.
                waiting = [stack.enter_context(asked(f"127.0.0.{n}")) for n in (2, 1)]
                until(lambda: server.reading("queue") == 2, "nobody waits")
                for one in held:
                    one.close()
                assert [answer(one) for one in waiting] == [b"2", b"1"]
        shared.close()


def test_a_reload_of_nginx_loses_no_request(directory: Path) -> None:
    with nginx(directory) as server:
        clients = [Asking(pages(server.port, "/page.html", n), 3) for n in (1, 5)]
        with asking(*clients):
            for _ in range(2):
                before = server.reading("dispatched")
                server.process.send_signal(signal.SIGHUP)
                until(lambda: server.reading("dispatched") > before + 200, "nginx did not go on")  # noqa: B023
        assert [client.failed for client in clients] == [{}, {}]


def test_an_upgrade_of_nginx_stays_at_the_gate_and_loses_no_request(directory: Path) -> None:
    """The new program gets an environment that nginx has made, without a word of the shim in it."""
    with nginx(directory, daemon="on") as server:
        file, renamed = directory / "nginx.pid", directory / "nginx.pid.oldbin"
        old = int(file.read_text())
        client = Asking(pages(server.port, "/page.html"), 3)
        with asking(client):
            os.kill(old, signal.SIGUSR2)
            until(renamed.exists, "nginx does not upgrade")  # from here on the name is the next program's
            until(lambda: file.exists() and file.read_text() != "", "no new program")
            os.kill(old, signal.SIGQUIT)
            until(lambda: not Path(f"/proc/{old}").exists(), "the old program stays")
            before = server.reading("dispatched")
            until(lambda: server.reading("dispatched") > before + 200, "the new program is not at the gate")
        assert client.failed == {}
        assert goes_and_comes_back(server, pages(server.port, "/page.html")) == (10, {})


def test_pythons_server_goes_through_the_gate_without_it_and_through_it_again(directory: Path) -> None:
    with python(directory) as server:
        assert goes_and_comes_back(server, pages(server.port, "/page.html")) == (10, {})


@pytest.mark.parametrize("pm", ["static", "ondemand"])
def test_php_fpm_goes_through_the_gate_without_it_and_through_it_again(directory: Path, pm: str) -> None:
    with fpm(directory, pm) as server:
        assert goes_and_comes_back(server, fcgi(server.port, directory / "www" / "page.php")) == (10, {})


def test_php_fpm_stays_at_the_gate_when_it_executes_itself_anew(directory: Path) -> None:
    with fpm(directory, "static") as server:
        ask = fcgi(server.port, directory / "www" / "page.php")
        ask()
        log = directory / "fpm.log"
        starts = log.read_text().count("ready to handle connections")
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: log.read_text().count("ready to handle connections") > starts, "PHP-FPM did not reload")
        assert goes_and_comes_back(server, ask) == (10, {})


def test_php_fpm_that_executes_itself_anew_when_its_gate_is_gone_for_good_goes_on(directory: Path) -> None:
    """Its master waits at the listener, so it has that back, as the gate left it, when it executes itself."""
    with fpm(directory, "ondemand") as server, contextlib.ExitStack() as stack:
        ask = fcgi(server.port, directory / "www" / "page.php")
        ask()
        gate = server.gate_processes()
        (master,) = (one for one in offspring(server.process.pid) if one not in gate)
        stack.callback(until, lambda: not Path(f"/proc/{master}").exists(), "PHP-FPM stays")
        stack.callback(os.kill, master, signal.SIGTERM)
        stack.callback(server.run_dir.release)
        server.process.kill()
        kill_together(gate)
        ask()
        log = directory / "fpm.log"
        starts = log.read_text().count("ready to handle connections")
        os.kill(master, signal.SIGUSR2)
        until(lambda: log.read_text().count("ready to handle connections") > starts, "PHP-FPM did not reload")
        for _ in range(8):
            assert ask() == 1
        assert " exited with code 0 " not in log.read_text().rpartition("ready to handle connections")[2]


def test_a_master_that_only_waits_learns_that_the_gate_has_died(directory: Path) -> None:
    """Without a child nobody but PHP-FPM's master, which never accepts, can notice it."""
    with fpm(directory, "ondemand\npm.process_idle_timeout = 1s") as server:
        ask = fcgi(server.port, directory / "www" / "page.php")
        ask()
        until(lambda: children(server) == [], "the idle child stays")
        kill_together(first := server.gate_processes())
        assert ask() == 1
        until(lambda: len(set(server.gate_processes()) - set(first)) == 2, "no new gate")
        until(lambda: children(server) == [], "the idle child stays at the next gate")
        assert ask() == 1
