"""Pools of connections in front of a MariaDB, which have what is copied at a connection's begin."""

from __future__ import annotations

from collections.abc import Callable

from tests._memory_plant import MemoryPlant
from tests.unit.plants.test_mariadb_change import World, begun, fresh

__all__ = ["fresh"]


class Pooled(MemoryPlant):
    """A server in front of it with a pool of connections."""

    pools = ("books",)

    def __init__(self) -> None:
        super().__init__()
        self.renewed = 0

    def renew(self, notes: list[str]) -> None:
        self.renewed += 1


def test_pools_in_front_make_their_connections_anew_where_what_is_set_is_copied_at_their_begin(
    fresh: Callable[[], World],
) -> None:
    _, plant = begun(fresh, [])
    front = Pooled()
    plant.in_front = (front,)
    assert any("but for pools in front" in note for note in plant.notes)
    plant.apply({"max_connections": 201})
    assert front.renewed == 0
    (note,) = plant.apply({"join_buffer_size": 512 << 10}).notes
    assert note == "connections that are open, and of no pool in front, keep their join_buffer_size"
    assert front.renewed == 1
    plant.restore()
    assert front.renewed == 2, "what was there before comes into force likewise"
