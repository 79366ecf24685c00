"""The bookstore's rows are read by the server that gets them, and no file is sent to whoever listens in its place."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests._mariadb_packets import OK, greeting, packet
from trimtab.testbed import shop
from trimtab.testbed.bookstore import database
from trimtab.testbed.bookstore.population import Population

PATIENCE_S = 120.0


class Database:
    """A connection that notes the statements, and what the files that they name hold."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.files: list[tuple[Path, int, str]] = []

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Database]:
        yield self

    def execute(self, statement: str, values: tuple[str, ...] = ()) -> None:
        self.statements.append(statement)
        self.files += [(Path(one), Path(one).stat().st_mode & 0o777, Path(one).read_text("utf-8")) for one in values]

    def commit(self) -> None:
        pass


def test_the_server_reads_the_rows_from_a_file_that_it_may_read_and_not_change(tmp_path: Path) -> None:
    there, rows = Database(), ["1\tÜrzig\n", "2\tTrier\n"]
    connection: Any = there
    population: Any = SimpleNamespace(tables=("country",), rows=lambda table: iter(rows))
    database.fill(connection, population, tmp_path, lambda text: None)
    ((path, mode, text),) = there.files
    assert (path.parent, mode, text) == (tmp_path, 0o644, "".join(rows))
    (loads,) = [one for one in there.statements if one.startswith("LOAD DATA")]
    assert "LOCAL" not in loads
    assert not path.exists(), "and is taken away"


class Bed:
    """A database whose socket is somebody else's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "sock"

    def __enter__(self) -> Bed:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stop(self, patience_s: float) -> None:
        pass


def test_who_listens_in_the_loaders_place_gets_no_file_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, heard = tmp_path / "secret", list[bytes]()
    secret.write_text("the secret")
    bed = Bed(tmp_path)
    monkeypatch.setattr(shop, "MariadbTestbed", lambda *_, **__: bed)

    def ask_for_it(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link:
            link.settimeout(PATIENCE_S)
            link.sendall(packet(0, greeting()))
            for number in (2, 1, 1):  # it is let in, sets its character set, and has no autocommit
                heard.append(link.recv(4096))
                link.sendall(packet(number, OK))
            heard.append(link.recv(4096))
            link.sendall(packet(1, b"\xfb" + bytes(secret)))
            heard.append(link.recv(4096))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(bed.socket))
        listener.listen()
        thread = threading.Thread(target=ask_for_it, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(RuntimeError, match="LOAD_LOCAL"):
            shop._populate(tmp_path, Population(50, 1), lambda text: None)
        thread.join(PATIENCE_S)
    assert len(heard) == 5 and b"foreign_key_checks" in heard[3]
    assert not any(b"the secret" in one for one in heard)
