"""A private MariaDB and trimtab attached to it, as the tests of the plant need them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from trimtab.clock import SystemClock
from trimtab.core import Clock
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed

PATIENCE_S = 60.0
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
    "binlog_cache_size": 32 << 10,
    "net_buffer_length": 16 << 10,
    "delayed_insert_limit": 100,
    "delayed_queue_size": 1000,
}
"""What Debian ships."""


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
        return dict(zip(DEBIAN, row, strict=True))

    def set(self, values: Mapping[str, int]) -> None:
        """The operator's own settings."""
        self.sql(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))


def until(condition: object, why: str) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


@contextmanager
def private(journals: Path, **fields: object) -> Iterator[Bed]:
    """A private MariaDB with Debian's settings."""
    with MariadbTestbed(MariadbSpec(**fields)) as testbed:  # type: ignore[arg-type]
        yield Bed(testbed, journals)
