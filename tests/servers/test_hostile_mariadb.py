"""Nothing of a stranger's is trusted because his process is called as MariaDB's, or because he listens where it did.

trimtab runs as root here, and the stranger as uid 65534.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER, PYTHON, STRANGER, his_directory
from tests.servers._private_mariadb import private
from trimtab.clock import SystemClock
from trimtab.errors import NotMeasured, UsageError
from trimtab.plants.mariadb import probe
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.link import Link
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.process import MariadbServer

pytestmark = [pytest.mark.server, pytest.mark.root]
PATIENCE_S = 60.0
LISTENS = """
import os, socket, sys
one = socket.socket(socket.AF_UNIX)
one.bind(sys.argv[1])
one.listen()
while True:
    link, _ = one.accept()
    open(sys.argv[2], "a").write("came\\n")
"""


@contextmanager
def called_mariadbd(directory: Path, *prefix: str) -> Iterator[int]:
    """A process of a program called mariadbd, which listens on a Unix socket and writes down who comes."""
    program = directory / "mariadbd"
    shutil.copy(os.path.realpath(PYTHON), program)
    argv = [*prefix, str(program), "-I", "-S", "-c", LISTENS, str(directory / "sock"), str(directory / "came")]
    process_ = subprocess.Popen(argv, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (directory / "sock").exists():
            assert process_.poll() is None and time.monotonic() < deadline, "it did not start"
            time.sleep(0.02)
        yield process_.pid
    finally:
        process_.kill()
        process_.wait()


@pytest.mark.alone  # the doctor looks at all servers of the machine
def test_what_another_user_runs_is_left_to_him() -> None:
    with his_directory() as his, called_mariadbd(his, *AS_STRANGER) as pid:
        (found,) = [one for one in probe() if f"pid {pid}" in one.subject]
        assert not found.usable
        with pytest.raises(UsageError) as refused:
            Mariadb.attach(SystemClock(), pid)
        for said in (str(refused.value), found.detail):
            assert f"uid {STRANGER}" in said and "run trimtab as that user" in said, said
        assert not (his / "came").exists(), "and not even connected to"


def test_a_program_that_others_can_change_is_refused() -> None:
    with his_directory() as his, called_mariadbd(his) as pid:
        with pytest.raises(UsageError, match="belongs to uid 65534"):
            Mariadb.attach(SystemClock(), pid)
        assert not (his / "came").exists()


def test_who_listens_in_its_place_gets_no_word(tmp_path: Path) -> None:
    with private(tmp_path) as bed:
        place = bed.testbed.socket
        place.rename(place.with_name("moved"))
        heard: list[bytes] = []
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(str(place))
            stranger.listen()

            def listen() -> None:
                link, _ = stranger.accept()
                with link:
                    heard.append(link.recv(100))

            thread = threading.Thread(target=listen)
            thread.start()
            with pytest.raises(UsageError, match=f"listens pid {os.getpid()}, not MariaDB"):
                Mariadb.attach(SystemClock(), bed.testbed.pid)
            thread.join(PATIENCE_S)
        assert heard == [b""]
        place.unlink()
        place.with_name("moved").rename(place)


class Asking(MariadbServer):
    """A server whose other end of the socket is this test."""

    peer: socket.socket

    def check(self) -> None:
        """It is there."""

    def connect(self, patience_s: float) -> socket.socket:
        """One end of a pair."""
        ours, theirs = socket.socketpair()
        ours.settimeout(patience_s)
        object.__setattr__(self, "peer", theirs)
        threading.Thread(target=self.ask, daemon=True).start()
        return ours

    said: list[bytes]

    def ask(self) -> None:
        """Greets as MariaDB does, and then wants the password in clear."""
        greeting = (
            b"\x0a10.11-MariaDB\0" + b"\1\0\0\0" + b"12345678\0" + b"\xff\xf7\x21\2\0\xff\x81\x15" + bytes(10)
        ) + b"123456789012\0mysql_native_password\0"
        self.peer.sendall(len(greeting).to_bytes(3, "little") + b"\0" + greeting)
        self.said.append(self.peer.recv(4096))
        wanted = b"\xfemysql_clear_password\0"
        self.peer.sendall(len(wanted).to_bytes(3, "little") + b"\2" + wanted)
        self.said.append(self.peer.recv(4096))


def test_a_server_that_asks_for_the_password_in_clear_does_not_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.plants.mariadb.link.vet", lambda server: None)
    server = Asking(os.getpid(), 1, Path("/usr/sbin/mariadbd"), (), 0)
    object.__setattr__(server, "said", [])
    link = Link(server, Credentials("root", "the secret"), PATIENCE_S, SystemClock())
    with pytest.raises((UsageError, NotMeasured), match="in clear"):
        link.ask("SELECT 1")
    link.close()
    deadline = time.monotonic() + PATIENCE_S
    while len(server.said) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(server.said) == 2
    assert not any(b"the secret" in one for one in server.said)


def test_a_journal_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    with private(tmp_path) as bed:
        mariadb = bed.attach()
        mariadb.apply({"max_connections": 101})
        (journal,) = tmp_path.iterdir()
        os.chown(journal, STRANGER, STRANGER)
        with pytest.raises(UsageError, match="belongs to uid"):
            mariadb.undo_leftover()
        os.chown(journal, 0, 0)
        text = journal.read_text()
        journal.write_text(text.replace("max_connections", "init_connect"))
        second = bed.attach()
        with pytest.raises(UsageError, match="unknown knob 'init_connect'"):
            second.undo_leftover()
        assert "unknown knob 'init_connect'" in second.leftover()
        journal.write_text(text)
        second.undo_leftover()
        assert second.configuration()["max_connections"] == 151
        for one in (mariadb, second):
            one.close()
