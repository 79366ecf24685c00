"""Where a MariaDB listens, and the undo script that speaks with it there."""

from __future__ import annotations

import dataclasses
import os
import shlex
import socket
import subprocess
from pathlib import Path

import pytest

from tests._own_name import HOSTILE, name
from trimtab.errors import UsageError
from trimtab.plants.mariadb import undo
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.journal import Entry
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.processes import start_of
from trimtab.sensors._unix_diag import UnixSocket

__all__ = ["name"]


def listening(monkeypatch: pytest.MonkeyPatch, path: str) -> MariadbServer:
    """A MariaDB that listens at a path."""
    there = (UnixSocket(7, socket.SOCK_STREAM, True, path), UnixSocket(8, socket.SOCK_STREAM, True, "/run/other"))
    monkeypatch.setattr(MariadbServer, "check", lambda self: None)
    monkeypatch.setattr("trimtab.plants.mariadb.process.descriptors", lambda pid, kind: frozenset({"socket:[7]"}))
    monkeypatch.setattr("trimtab.plants.mariadb.process.unix_sockets", lambda pid: there)
    return MariadbServer(os.getpid(), 1, Path("/usr/sbin/mariadbd"), (), 0)


def test_a_mysql_is_asked_at_the_socket_at_which_it_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """At that of its X plugin it "says that it is '\\x08\\x05\\x1a'"."""
    server = listening(monkeypatch, "")
    sockets = {7: "/var/run/mysqld/mysqlx.sock", 9: "/var/run/mysqld/mysqld.sock"}
    there = tuple(UnixSocket(inode, socket.SOCK_STREAM, True, path) for inode, path in sockets.items())
    held = frozenset(one.target for one in there)
    monkeypatch.setattr("trimtab.plants.mariadb.process.descriptors", lambda pid, kind: held)
    for order in (there, there[::-1]):
        monkeypatch.setattr("trimtab.plants.mariadb.process.unix_sockets", lambda pid, order=order: order)
        assert server.listen() == Path("/var/run/mysqld/mysqld.sock")


def test_a_socket_whose_name_steers_a_terminal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listening(monkeypatch, "/run/mysqld/mysqld.sock").listen() == Path("/run/mysqld/mysqld.sock")
    for path in ("/tmp/\x1b[2J", "/tmp/\ufffd\x07"):
        with pytest.raises(UsageError, match="listens on no Unix socket: it is still starting, or has none"):
            listening(monkeypatch, path).listen()


def test_the_undo_script_sends_no_file_to_a_server_that_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    server = listening(monkeypatch, "/tmp/a'b`id`$(id);c")
    script = undo.script(server, Credentials("root"), {"max_connections": Entry(151, (101,))}, lambda _, n: str(n))
    (line,) = [line for line in script.splitlines() if line.lstrip().startswith("mariadb ")]
    options = ["--no-defaults", "--local-infile=0", "--socket=/tmp/a'b`id`$(id);c", "--user=root"]
    assert shlex.split(line) == ["mariadb", *options, "<<END"]


@pytest.mark.parametrize("called", [b"mariadbd", *HOSTILE], ids=repr)
def test_whatever_a_server_calls_itself_the_undo_script_knows_it_and_what_it_says_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: Path, called: bytes
) -> None:
    name.write_bytes(called)
    client = tmp_path / "mariadb"
    client.write_text("#!/bin/sh\ncat > \"$0.told\"\nprintf 'ERROR 1045: \\033]0;mine\\007 \\233no\\n' >&2\nexit 3\n")
    client.chmod(0o755)
    server = listening(monkeypatch, "/run/mysqld/mysqld.sock")
    server = dataclasses.replace(server, pid=os.getpid(), started=start_of(os.getpid()) or 0)
    script = undo.script(server, Credentials("root"), {"max_connections": Entry(151, (101,))}, lambda _, n: str(n))
    path = f"{tmp_path}:{os.environ['PATH']}"
    ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, env={"PATH": path})
    assert (ended.stdout, ended.stderr) == (b"", b"ERROR 1045: ]0;mine no\n")
    assert ended.returncode == 3
    told = (tmp_path / "mariadb.told").read_text()
    assert told.startswith("SET SESSION max_statement_time = 0;\nSET GLOBAL max_connections = IF(")
