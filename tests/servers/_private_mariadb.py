"""A private MariaDB and trimtab attached to it, as the tests of the plant need them; also as a service of systemd."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed, _as_its_user
from trimtab.plants.mariadb.restart import Service
from trimtab.processes import start_of

DEBIAN = {
    "max_connections": 151,
    "innodb_buffer_pool_size": 128 << 20,
    "table_open_cache": 2000,
    "thread_cache_size": 151,
    "innodb_io_capacity": 200,
    "innodb_log_file_size": 96 << 20,
    "join_buffer_size": 256 << 10,
    "sort_buffer_size": 2 << 20,
    "tmp_table_size": 16 << 20,
    "max_heap_table_size": 16 << 20,
    "query_cache_size": 1 << 20,
    "query_cache_type": 0,
    "binlog_cache_size": 32 << 10,
    "net_buffer_length": 16 << 10,
    "delayed_insert_limit": 100,
    "delayed_queue_size": 1000,
}
"""What Debian ships."""
_SWITCH = {"OFF": 0, "ON": 1}
"""How MariaDB says a choice."""

SYSTEMCTL = """#!/bin/sh
runs() {{ [ -e /proc/$1 ] && ! grep -q '^State:.Z' /proc/$1/status; }}
case $1 in
show)
    case $2 in
    *MainPID) cat {state} ;;
    *) runs "$(cat {state})" && echo active || echo failed ;;
    esac ;;
restart)
    kill "$(cat {state})" 2>/dev/null || true
    while runs "$(cat {state})"; do sleep 0.05; done
    [ ! -e {state}.broken ] || {{ rm {state}.broken; exit 0; }}
    setsid {command} > {state}.log 2>&1 &
    echo $! > {state}
    n=0
    while [ $n -lt 1200 ] && runs "$(cat {state})" && ! grep -q 'ready for connections' {state}.log; do
        sleep 0.05; n=$((n+1))
    done ;;
esac
"""


@dataclass(frozen=True)
class Bed:
    """A private MariaDB.

    Args:
        testbed: the server.
        journals: where trimtab's journals of it are.
    """

    testbed: MariadbTestbed
    journals: Path

    def attach(
        self, clock: Clock | None = None, who: Credentials | None = None, less_durable: bool = False
    ) -> Mariadb:
        """trimtab attached to it."""
        return Mariadb.attach(clock or SystemClock(), self.testbed.pid, who, less_durable, self.journals)

    def root(self) -> Any:
        """A connection of the operator's."""
        return pymysql.connect(unix_socket=str(self.testbed.socket), user="root", autocommit=True)

    def shop(self, host: str = "127.0.0.1") -> Any:
        """A connection of the application's."""
        password = self.testbed.password()
        return pymysql.connect(
            host=host, port=self.testbed.port, user="shop", password=password, database="shop", autocommit=True
        )

    def sql(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """What the last of an operator's statements gives."""
        rows: tuple[tuple[Any, ...], ...] = ()
        connection = self.root()
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = tuple(cursor.fetchall())
        return rows

    def values(self) -> dict[str, int]:
        """What is in force, as the operator sees it."""
        (row,) = self.sql(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in DEBIAN)}")
        return {name: _SWITCH.get(value, value) for name, value in zip(DEBIAN, row, strict=True)}

    def set(self, values: Mapping[str, int]) -> None:
        """The operator's own settings."""
        self.sql(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))


@functools.cache
def _first() -> tempfile.TemporaryDirectory[str]:
    """Holds the data of a MariaDB that was just made, which takes its own program longer than to start it."""
    made = tempfile.TemporaryDirectory(prefix="trimtab-first-data-")
    Path(made.name).chmod(0o755)
    with MariadbTestbed(MariadbSpec(directory=Path(made.name, "data"))):
        return made


class Copied(MariadbTestbed):
    """One whose data begin as a copy, where they are removed with it."""

    def furnish(self) -> None:
        if self.spec.directory is None:
            copy = ("cp", "--archive", "--sparse=always", Path(_first().name, "data"), self.data)
            subprocess.run(copy, check=True)
        super().furnish()


@contextmanager
def private(journals: Path, **fields: object) -> Iterator[Bed]:
    """A private MariaDB with Debian's settings."""
    with Copied(MariadbSpec(**fields)) as testbed:  # type: ignore[arg-type]
        yield Bed(testbed, journals)


@contextmanager
def as_service(
    testbed: MariadbTestbed, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Service, Path]]:
    """The unit that seems to run a private MariaDB, with a program in systemctl's place; what it starts ends with it.

    Args:
        testbed: the server.
        directory: for the program and its files.
        monkeypatch: to have trimtab take it for the unit.

    Returns:
        The unit, and the file with the process id of its server.
    """
    state, systemctl = directory / "state", directory / "systemctl"
    state.write_text(f"{testbed.pid}\n")
    runner = [word for word in _as_its_user() if not word.startswith("--pdeathsig")]
    command = [*runner, "/usr/sbin/mariadbd", f"--defaults-file={testbed.config_file}"]
    systemctl.write_text(SYSTEMCTL.format(state=state, command=" ".join(command)))
    systemctl.chmod(0o755)
    service = Service("mariadb.service", str(systemctl), (f"--defaults-file={testbed.config_file}",))
    monkeypatch.setattr("trimtab.plants.mariadb.restart.Service.of", lambda server: service)
    # pytest's own directory is in one that everybody may write in, where nothing is to be trusted.
    monkeypatch.setattr("trimtab.plants.mariadb.restart.require_trusted", lambda path: None)
    yield service, state
    pid = int(state.read_text())
    if pid != testbed.pid:
        started = start_of(pid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: started is None or start_of(pid) != started, "the server did not end")
