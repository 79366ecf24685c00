"""What was set is put back on a MariaDB that stalls or fails, and nothing is on one that was restarted meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests._memory_plant import FakeClock, MemoryPlant
from tests.unit.plants.test_mariadb_change import (
    CHANGE,
    START,
    Link,
    World,
    attach,
    before_it,
    begun,
    fresh,
    steps_of,
)
from trimtab.errors import NotMeasured, PlantError
from trimtab.plants._stack import Stack
from trimtab.plants.mariadb.link import Rejected
from trimtab.plants.mariadb.plant import Mariadb

__all__ = ["fresh"]

POOL, TABLES = "innodb_buffer_pool_size", "table_open_cache"
PATIENCE_S = 60.0


@dataclass
class Stalled:
    """A stall of the server from now on, in which every answer takes as long as it is waited for.

    Args:
        clock: the plant's.
        for_s: how long it lasts; what is asked meanwhile is done when it is over, where it is `done`.
        done: whether it does what it was told, though it says nothing.
    """

    clock: FakeClock
    for_s: float
    done: bool = False
    refuses: bool = False
    told: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._until_s = self.clock.now_s() + self.for_s

    def ask(self, link: Link, statement: str, values: Sequence[object] = ()) -> tuple[tuple[object, ...], ...]:
        self.told.append(statement)
        found = re.fullmatch(r"SET GLOBAL (\w+) = IF\(@@GLOBAL.\1 IN \(([\d, ]+)\), (\d+), @@GLOBAL.\1\);", statement)
        world = link.server.world
        if found and self.done and world.values()[found[1]] in map(int, found[2].split(", ")):
            world.live[found[1]] = int(found[3])
        if self.refuses:
            raise Rejected("Access denied")
        if self.clock.now_s() < self._until_s:
            self.clock.sleep(PATIENCE_S)
            raise NotMeasured("MariaDB did not answer: timed out")
        return USUAL(link, statement, values) if not found else ()


USUAL = Link.ask


@pytest.fixture
def stall(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stalled]:
    """Stalls the server of a plant."""

    def begins(plant: Mariadb, for_s: float, **how: bool) -> Stalled:
        clock = plant.clock
        assert isinstance(clock, FakeClock)
        stalled = Stalled(clock, for_s, **how)
        monkeypatch.setattr(Link, "ask", lambda link, *words: stalled.ask(link, *words))
        return stalled

    return begins


def changed(world: World) -> Mariadb:
    """A plant that has set something."""
    plant = attach(world)
    plant.apply({TABLES: 1600, "max_connections": 201})
    return plant


def test_what_was_set_is_put_back_when_a_stall_of_minutes_is_over(
    fresh: Callable[[], World], stall: Callable[..., Stalled]
) -> None:
    world = fresh()
    plant = changed(world)
    stall(plant, 3 * PATIENCE_S)
    plant.restore()
    assert (world.state(), plant.leftover()) == (START, "")


def test_a_server_that_answers_nothing_is_told_all_the_same_and_what_the_operator_has_set_is_left_alone(
    fresh: Callable[[], World], stall: Callable[..., Stalled]
) -> None:
    world = fresh()
    plant = changed(world)
    world.live["max_connections"] = 777
    stalled = stall(plant, 3600.0, done=True)
    with pytest.raises(PlantError, match="did not answer"):
        plant.restore()
    assert (world.values()[TABLES], world.values()["max_connections"]) == (2000, 777)
    assert len(stalled.told) < 20, "it is not asked for ever"


def test_one_that_falls_silent_while_it_is_put_back_keeps_no_other_tier_waiting(
    fresh: Callable[[], World], stall: Callable[..., Stalled]
) -> None:
    world, front, asked = fresh(), MemoryPlant(), list[int]()
    plant = changed(world)
    plant.silent = lambda: False  # type: ignore[method-assign]
    stalled = stall(plant, 3 * PATIENCE_S)
    front.restore = lambda: asked.append(len(stalled.told))  # type: ignore[method-assign]
    Stack(front, plant).restore()
    assert (asked, world.state()) == ([1], START)


def test_what_the_operator_has_set_in_the_stall_is_left_alone_when_it_is_over(
    fresh: Callable[[], World], stall: Callable[..., Stalled]
) -> None:
    world = fresh()
    plant = changed(world)
    stalled = stall(plant, 3 * PATIENCE_S, done=True)
    stalled.clock.at.append((stalled.clock.now_s() - 100.0, lambda: world.live.update(max_connections=777)))
    plant.restore()
    assert (world.values()[TABLES], world.values()["max_connections"]) == (2000, 777)


def test_a_refusal_is_said_at_once(fresh: Callable[[], World], stall: Callable[..., Stalled]) -> None:
    plant = changed(fresh())
    stalled = stall(plant, 0.0, refuses=True)
    with pytest.raises(PlantError, match="Access denied"):
        plant.restore()
    assert len(stalled.told) == 1


def test_a_server_that_was_restarted_meanwhile_has_nothing_to_put_back(fresh: Callable[[], World]) -> None:
    world = fresh()
    plant = changed(world)
    world.start()
    plant.restore()
    plant.restore()
    assert world.values()[TABLES] == 2000


def test_one_that_ends_while_it_is_asked_again_has_nothing_to_put_back_either(
    fresh: Callable[[], World], stall: Callable[..., Stalled]
) -> None:
    world = fresh()
    plant = changed(world)
    stalled = stall(plant, 120.0)
    stalled.clock.at.append((stalled.clock.now_s() - 100.0 + 61.0, world.start))
    plant.restore()
    assert world.values()[TABLES] == 2000


@before_it
def test_what_could_not_be_put_back_either_is_by_restore(
    fresh: Callable[[], World], earlier: list[dict[str, int]]
) -> None:
    steps, twice = steps_of(fresh, earlier), 0
    for first in range(1, steps + 1):
        for second in range(first + 1, 2 * steps, 3):
            world, plant = begun(fresh, earlier)
            world.fail(first, second)
            try:
                plant.apply(CHANGE)
            except PlantError:
                twice += not world.faults
            over = bool(world.faults)  # it had no such step, and would have no later one
            world.fail()
            plant.restore()
            assert (world.state(), plant.leftover()) == (START, ""), f"steps {first} and {second}"
            if over:
                break
    assert twice > 30
