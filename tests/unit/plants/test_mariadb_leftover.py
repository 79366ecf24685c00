"""What an earlier run has left in a MariaDB: where that cannot be told, why."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.plants.test_mariadb_change import World, attach, fresh

__all__ = ["fresh"]


def test_where_nothing_was_left_nothing_is_said(fresh: Callable[[], World]) -> None:
    assert attach(fresh()).leftover() == ""


def test_of_a_server_that_has_ended_it_is_said_that_it_has(fresh: Callable[[], World]) -> None:
    world = fresh()
    plant = attach(world)
    world.started += 1
    assert plant.leftover() == "MariaDB has ended"


def test_of_a_journal_that_cannot_be_read_it_is_said_why(fresh: Callable[[], World]) -> None:
    world = fresh()
    attach(world).apply({"max_connections": 201})
    (journal,) = (world.directory / "journals").iterdir()
    journal.write_text("{")
    said = attach(world).leftover()
    assert str(journal) in said and "\n" not in said
