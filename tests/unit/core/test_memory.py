"""What configurations may fill: together within what all else leaves under their limit."""

from __future__ import annotations

from dataclasses import replace

from trimtab.core.memory import MIB, Need, Room, overfull, under

GIB = 1024 * MIB


def pool(size_bytes: int, others_bytes: int, held_bytes: int = 0) -> tuple[Need, ...]:
    """The need of a pool on a machine of 8 GiB, where others hold so much."""
    return under("the pool", size_bytes, [Room("the machine", 8 * GIB, others_bytes + held_bytes, held_bytes)])


def test_what_others_hold_is_not_planned_for() -> None:
    start = pool(GIB // 8, 5 * GIB)
    assert not overfull(pool(2 * GIB, 5 * GIB), start)
    why = overfull(pool(3 * GIB, 5 * GIB), start)
    assert why.startswith("the pool (3072 MiB): more than 90% of the 8192 MiB of the machine")
    assert why.endswith("less the 5120 MiB that all else there needs")
    assert not overfull(pool(3 * GIB, 0), start), "alone it fits"


def test_what_a_server_holds_itself_is_not_held_by_others() -> None:
    assert not overfull(pool(6 * GIB, GIB, 4 * GIB), pool(4 * GIB, GIB))
    assert overfull(pool(2 * GIB, 5 * GIB, 3 * GIB), pool(GIB, 0)), "but what it holds beyond its need is in the way"


def test_what_was_in_force_at_the_start_is_refused_by_no_neighbour() -> None:
    start = pool(4 * GIB, 7 * GIB)
    assert not overfull(start, start)
    assert overfull(pool(4 * GIB + MIB, 7 * GIB), start)


def test_what_tiers_hold_is_not_in_the_way_of_each_other() -> None:
    tiers = [Need(name, 3 * GIB, "here", 8 * GIB, 5 * GIB, 2 * GIB) for name in ("a", "b")]
    assert not overfull(tiers, ())
    assert overfull([replace(one, held_bytes=0) for one in tiers], ()), "unlike what others hold"


def test_every_limit_counts() -> None:
    rooms = [Room("group x", 6 * GIB), Room("the machine", 8 * GIB, 5 * GIB)]
    assert "of the machine" in overfull(under("the pool", 4 * GIB, rooms), ())
