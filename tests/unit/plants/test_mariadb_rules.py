"""What a MariaDB in memory is not let have: memory of others, too few connections, a restart that loses something."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from tests.unit.plants.test_mariadb_change import BASE, MORE, STACK, START, Link, World, attach, fresh
from trimtab.cli._plant import require_measured
from trimtab.core.memory import MIB, Room
from trimtab.errors import ApplyLater, ApplyRefused, OperatorEdit, UsageError
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.plant import Mariadb

__all__ = ["fresh"]

GIB = 1024 * MIB
POOL = "innodb_buffer_pool_size"


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Says how much others hold of a machine of 8 GiB, of which MariaDB itself holds 256 MiB."""

    def said(others_bytes: int) -> None:
        room = Room("the machine", 8 * GIB, others_bytes + 256 * MIB, 256 * MIB)
        monkeypatch.setattr("trimtab.plants.mariadb.attached.rooms", lambda pid: (room,))

    said(0)
    return said


def pool(plant: Mariadb, mib: int) -> str:
    """Why so large a buffer pool is refused."""
    return plant.objection({**plant.configuration(), POOL: mib * MIB})


def test_memory_that_others_hold_is_not_given_to_the_buffer_pool(
    fresh: Callable[[], World], beside: Callable[[int], None]
) -> None:
    assert pool(attach(fresh()), 6400) == ""
    beside(5 * GIB)
    plant = attach(fresh())
    assert "more than 90% of the 8192 MiB of the machine less the 5120 MiB that all else there needs" in pool(
        plant, 6400
    )
    assert pool(plant, 2048) == ""
    assert pool(plant, 128) == "", "what is in force stays"


def test_what_others_hold_is_looked_at_again_before_a_change(
    fresh: Callable[[], World], beside: Callable[[int], None]
) -> None:
    world = fresh()
    plant = attach(world)
    beside(5 * GIB)
    with pytest.raises(ApplyRefused, match="less the 5120 MiB that all else"):
        plant.apply({POOL: 6400 * MIB})
    assert world.values()[POOL] == 128 * MIB


def test_temporary_tables_of_connections_are_counted(
    fresh: Callable[[], World], beside: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded(monkeypatch, 100)
    now = attach(fresh()).configuration()
    assert attach(fresh()).objection({**now, "tmp_table_size": 256 * MIB}) == "", "the lesser of both counts"
    both = {**now, "tmp_table_size": 128 * MIB, "max_heap_table_size": 128 * MIB}
    assert "buffers of 128 connections" in attach(fresh()).objection(both)


def test_no_memory_table_is_made_that_is_full_sooner_than_before(fresh: Callable[[], World]) -> None:
    world = fresh()
    with pytest.raises(ApplyRefused, match=r"max_heap_table_size .* is outside 16777216\.\."):
        attach(world).apply({"max_heap_table_size": 8 * MIB})
    assert attach(world).apply({"max_heap_table_size": 32 * MIB, "tmp_table_size": 8 * MIB}).notes


def test_no_connections_are_refused_that_there_have_been(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded(monkeypatch, 140)
    world = fresh()
    plant = attach(world)
    with pytest.raises(ApplyRefused, match="max_connections 51 is less than the 151 to plan for: 140 were open"):
        plant.apply({"max_connections": 51})
    assert plant.objection({**plant.configuration(), "max_connections": 101}), "known before the first change"
    crowded(monkeypatch, 60)
    assert plant.objection({**plant.configuration(), "max_connections": 101}), "also after FLUSH STATUS"
    assert attach(fresh()).objection({**plant.configuration(), "max_connections": 101}) == ""


def test_as_many_connections_as_the_operator_has_chosen_are_enough(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded(monkeypatch, 151)
    now = attach(fresh()).configuration()
    assert attach(fresh()).objection(now) == ""


def test_what_the_operator_has_chosen_can_be_put_back_whatever_has_been_tried_since(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = attach(fresh())
    chosen = plant.configuration()
    plant.apply({"max_connections": 401})
    crowded(monkeypatch, 200)
    assert plant.objection(chosen) == ""
    plant.apply({"max_connections": chosen["max_connections"]})
    assert plant.configuration() == chosen


def test_what_had_room_before_a_trial_goes_back_also_where_others_have_taken_it_since(
    fresh: Callable[[], World], beside: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attached, "_await_resize", lambda self, wanted_bytes: None)
    world = fresh()
    plant = attach(world)
    for mib in (4096, 5120):
        plant.apply({POOL: mib * MIB})
    beside(5 * GIB)
    with pytest.raises(ApplyRefused, match="less the 5120 MiB that all else"):
        plant.apply({POOL: 4224 * MIB})
    plant.apply({POOL: 4096 * MIB})
    assert world.values()[POOL] == 4096 * MIB
    with pytest.raises(ApplyRefused, match="less the 5120 MiB that all else"):
        plant.apply({POOL: 5120 * MIB})


def test_a_way_back_that_would_refuse_connections_is_refused_all_the_same(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = attach(fresh())
    for connections in (101, 201):
        plant.apply({"max_connections": connections})
    crowded(monkeypatch, 140)
    with pytest.raises(ApplyRefused, match="max_connections 101 is less than the 151 to plan for"):
        plant.apply({"max_connections": 101})


@pytest.mark.parametrize(("most", "said"), [(149, False), (150, True)])
def test_that_trimtab_holds_connections_is_said_where_there_are_few_left(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch, most: int, said: bool
) -> None:
    crowded(monkeypatch, most)
    wanted = f"{most} of 151 connections were open at a time, and trimtab holds 2 while it runs"
    assert (wanted in attach(fresh()).notes) is said


def test_that_a_release_does_not_count_the_time_of_statements_is_said_at_the_start(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "10.11.6-MariaDB counts no time of its statements (Query_time)"
    assert not any(said in note for note in attach(fresh()).notes)
    require_measured(attach(fresh()), ["response_time_s"])
    answering(monkeypatch, "Query_time", ())
    plant = attach(fresh())
    assert any(said in note for note in plant.notes)
    for name in ("response_time_s", "service_time_s", "requests_under_way"):
        with pytest.raises(UsageError, match=re.escape(f"{name} is not measured on mariadb here; {said}")):
            require_measured(plant, [name])


@pytest.mark.parametrize("version", ["5.5.68-MariaDB", "10.2.11-MariaDB", "10.3.39-MariaDB"])
def test_a_release_that_is_too_old_for_it_is_not_restarted_and_tuned_without(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    answering(monkeypatch, "VERSION()", ((version,),))
    with pytest.raises(UsageError, match=r"from 10\.5 on"):
        attach(fresh())
    assert attach(fresh(), may_restart=False).apply({"table_open_cache": 1600})


def crowded(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Lets a server have had so many connections at once."""
    counted(monkeypatch, "Max_used_connections", most)


def counted(monkeypatch: pytest.MonkeyPatch, name: str, count: int) -> None:
    """Lets a server have such a counter."""
    answering(monkeypatch, name, (("", count),))


def answering(monkeypatch: pytest.MonkeyPatch, name: str, rows: tuple[tuple[object, ...], ...]) -> None:
    """Lets a server answer so to what has that in it."""
    usual = Link.ask

    def ask(link: Link, statement: str, values: Sequence[object] = ()) -> tuple[tuple[object, ...], ...]:
        found = usual(link, statement, values)
        return rows if name in statement else found

    monkeypatch.setattr(Link, "ask", ask)


def test_a_buffer_pool_is_no_smaller_than_it_was_unless_memory_is_short(
    fresh: Callable[[], World], beside: Callable[[int], None]
) -> None:
    assert "a buffer pool of 64 MiB, less than its 128" in pool(attach(fresh()), 64)
    assert pool(attach(fresh()), 136) == ""
    beside(8 * GIB)
    assert pool(attach(fresh()), 64) == ""


def test_what_the_operator_makes_smaller_in_mid_run_is_no_reason_against_other_changes(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change until the end of the run was refused for it, the way back from what was on trial too."""
    crowded(monkeypatch, 60)
    world = fresh()
    plant = attach(world)
    plant.apply({"table_open_cache": 1600})
    world.live |= {POOL: 64 * MIB, "max_connections": 50}
    assert plant.apply({"table_open_cache": 2000}).configuration["table_open_cache"] == 2000
    with pytest.raises(OperatorEdit, match="max_connections was set to 50 by somebody else"):
        plant.apply({"max_connections": 101})
    plant.restore()
    assert (world.values()[POOL], world.values()["max_connections"]) == (64 * MIB, 50)


def test_what_a_restart_would_lose_since_the_run_began_hinders_a_trial_and_no_way_back(
    fresh: Callable[[], World],
) -> None:
    world = fresh()
    plant = attach(world)
    plant.apply({"thread_stack": MORE})
    world.in_memory = (("web", "sessions"),)
    with pytest.raises(ApplyRefused, match=r"table web\.sessions is in memory"):
        plant.apply({"thread_stack": STACK})
    world.in_memory, world.live["read_only"] = (), 1
    with pytest.raises(ApplyRefused, match=r"read_only was set while MariaDB ran"):
        plant.apply({"thread_stack": STACK})
    assert world.restarts == 1
    plant.apply({"thread_stack": BASE["thread_stack"]})
    assert world.restarts == 2


def test_no_restart_back_to_what_was_there_empties_a_table_in_memory(fresh: Callable[[], World]) -> None:
    """One that was made while the run went on was emptied at its end, or by an undo, without a word."""
    world = fresh()
    plant = attach(world)
    plant.apply({"thread_stack": MORE, "max_connections": 201})
    world.in_memory = (("web", "sessions"),)
    said = r"table web\.sessions is in memory .* would empty it: .*'trimtab runs undo' restarts"
    with pytest.raises(ApplyLater, match=said):
        plant.apply({name: BASE[name] for name in ("thread_stack", "max_connections")})
    with pytest.raises(ApplyLater, match=said):
        plant.restore()
    assert world.values()["max_connections"] == BASE["max_connections"], "which takes no restart"
    later = attach(world)
    with pytest.raises(ApplyLater, match=said):
        later.undo_leftover()
    assert world.restarts == 1 and world.snippet.exists()
    world.in_memory = ()
    later.undo_leftover()
    assert (world.state(), later.leftover(), world.restarts) == (START, "", 2)
