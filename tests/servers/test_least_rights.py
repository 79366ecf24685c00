"""What needs no root is done by an ordinary user, with trimtab and Apache started by him: docs/least-rights.md."""

from __future__ import annotations

import contextlib
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests._stranger import PYTHON, STRANGER, his_directory, needs_root
from tests.servers._under_gate import PATIENCE_S, a_name, until
from trimtab import native
from trimtab.testbed import apache_config, content
from trimtab.testbed._private import free_ports
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed, module_directory, program

pytestmark = [pytest.mark.server, pytest.mark.apache, pytest.mark.root, needs_root]

SOURCES = Path(native.__file__).parents[1]
CLASSES = """
listen = [{port}]
workers = 8
period = "1s"
guarantee = "relative"
[[class]]
name = "premium"
match = [{{ source = "127.0.1.0/24" }}]
desired = 1
[[class]]
name = "basic"
desired = 3
"""


@dataclass(frozen=True)
class User:
    """An ordinary user and his home."""

    home: Path

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """trimtab, started by him in his home, with an environment of his own."""
        libraries = [entry for entry in sys.path if entry.endswith("site-packages")]
        environment = {
            "HOME": os.fspath(self.home),
            "XDG_RUNTIME_DIR": os.fspath(self.home),
            "PATH": f"{native.program().parent}:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join((os.fspath(SOURCES), *libraries)),
        }
        return subprocess.Popen(
            [PYTHON, "-m", "trimtab", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=STRANGER,
            group=STRANGER,
            extra_groups=[],
            cwd=self.home,
            env=environment,
        )

    def does(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, output and errors of one verb."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=2 * PATIENCE_S)
        finally:
            process.kill()
        return process.returncode, out, err


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Answers, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def user() -> Iterator[User]:
    with his_directory() as home:
        yield User(home)


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("observe", "simulated", "--duration", "10s"),
        ("tune", "simulated", "--duration", "1m"),
        ("runs", "list"),
        ("lab", "list"),
        ("lab", "run", "demo", "--report", "demo.html"),
        ("design", "--model", "0.74,-0.37,0.95,-0.12"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_touches_no_server_of_others_works_for_everybody(user: User, arguments: tuple[str, ...]) -> None:
    code, _, err = user.does(*arguments)
    assert (code, err) == (0, "")


def test_load_is_sent_by_everybody(user: User) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        how = ("--workload", "closed-loop", "--connections", 2, "--duration", "1s")
        assert user.does("load", url, *how)[0] == 0
        server.shutdown()


@contextlib.contextmanager
def his_apache(user: User) -> Iterator[tuple[str, int, int]]:
    """An Apache of his own under a gate of his own: the run's name, its page's port and its status page's."""
    spec = ApacheSpec("prefork", 8, 16, 1, keep_alive_timeout_ms=200)
    page, status = free_ports(2)
    for part in ("logs", "run", "php", "conf-enabled"):
        (user.home / part).mkdir(mode=0o755)
    content.write(user.home)
    modules = apache_config.modules(spec, module_directory())
    config = user.home / "apache2.conf"
    config.write_text(apache_config.text(spec, user.home, modules, (page, status), None))
    (user.home / "classes.toml").write_text(CLASSES.format(port=page))
    for path in user.home.rglob("*"):
        os.chown(path, STRANGER, STRANGER)
    name = a_name()
    server = (program(), "-f", config, "-d", user.home, "-DFOREGROUND")
    process = user.start("run", "--name", name, "--gate", "classes.toml", "--keep-alive", "auto", "--", *server)
    try:
        until(lambda: user.does("keep-alive", "show", "--name", name)[0] == 0, "the run did not come up")
        pid_file = user.home / "run" / "apache2.pid"
        until(lambda: pid_file.exists() and pid_file.read_text().strip() != "", "Apache did not start")
        yield name, page, status
    finally:
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, "")


def test_a_server_of_ones_own_is_run_watched_and_steered_without_root(user: User) -> None:
    with his_apache(user) as (name, _, status):
        window = ("--window", "1s", "--duration", "2s")
        apache = ("apache", "--pid", parent_of(user), "--status-url", f"http://127.0.0.1:{status}/server-status")
        for arguments in (
            ("observe", *apache, *window),
            ("observe", "keep-alive", "--name", name, *window),
            ("keep-alive", "set", "300ms", "--name", name),
            ("tune", "keep-alive", "--name", name, *window),
            ("tune", "gate", "--name", name, *window),
            ("guarantee", "classes.toml", "--name", name, "--gain", 0.3, "--zero", 0.05, "--duration", "2s"),
            ("tune", *apache, "--controller", "fuzzy", *window),
        ):
            code, _, err = user.does(*arguments)
            assert code == 0, (arguments, err)


def test_a_server_of_roots_is_left_alone_with_a_line_that_says_who_may(user: User) -> None:
    with ApacheTestbed(ApacheSpec(max_request_workers=4)) as bed:
        for verb in ("observe", "tune"):
            code, out, err = user.does(verb, "apache", "--pid", bed.pid, "--status-url", bed.status_url)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert "run as root or as its user" in err


def parent_of(user: User) -> int:
    """The first process of his Apache."""
    return int((user.home / "run" / "apache2.pid").read_text())
