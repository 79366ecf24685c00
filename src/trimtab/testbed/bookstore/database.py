"""Fills an empty database with the bookstore's tables and their population."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pymysql

from trimtab.testbed.bookstore.population import Population

HERE = Path(__file__).parent


def fill(
    database: pymysql.connections.Connection, population: Population, scratch: Path, say: Callable[[str], None]
) -> None:
    """Makes the tables, loads their rows, and adds the keys at the end, which is faster.

    The server reads the rows itself: who may be asked for a file can be asked for any that he can read.

    Args:
        database: a connection of an account that may have the server read files (FILE).
        population: the rows.
        scratch: a directory that the server can read, for one table's rows at a time.
        say: told of each step.
    """
    with database.cursor() as cursor:
        cursor.execute("SET SESSION foreign_key_checks = 0, SESSION unique_checks = 0")
        for statement in _statements("schema.sql"):
            cursor.execute(statement)
        for table in population.tables:
            say(f"loading {table}")
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=scratch) as file:
                file.writelines(population.rows(table))
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                cursor.execute(f"LOAD DATA INFILE %s INTO TABLE {table} CHARACTER SET utf8mb4", (file.name,))
        database.commit()
        say("adding keys")
        for statement in _statements("keys.sql"):
            cursor.execute(statement)
        cursor.execute(f"ANALYZE TABLE {', '.join(population.tables)}")


def sources() -> list[Path]:
    """All files that a filled database is made from."""
    names = ("schema.sql", "keys.sql", "countries.txt", "population.py", "words.py", "database.py")
    return [HERE / name for name in names]


def _statements(file: str) -> list[str]:
    text = (HERE / file).read_text(encoding="utf-8")
    return [statement for statement in text.split(";") if statement.strip()]
