"""What an earlier run has left in a MariaDB: where that cannot be told, why."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._memory_plant import FakeClock
from tests.unit.plants.test_mariadb_change import (
    BASE,
    STACK,
    START,
    Front,
    Killed,
    World,
    attach,
    begun,
    fresh,
    killed_in_the_restart,
)
from trimtab.errors import ApplyFailed, UsageError
from trimtab.plants import _own_file, mariadb
from trimtab.plants.mariadb import restart
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.link import Rejected
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.process import MariadbServer

__all__ = ["fresh"]


@pytest.mark.parametrize("end", ["restore", "undo_leftover"])
def test_a_kill_at_any_step_of_a_way_back_is_made_good_by_the_next_trimtab(
    fresh: Callable[[], World], end: str
) -> None:
    """Between our file's going and the restart to that nothing told of it any more."""

    def tried() -> tuple[World, Mariadb]:
        world = fresh()
        plant = attach(world)
        plant.apply({"max_connections": 201, "thread_stack": STACK})
        after = plant if end == "restore" else attach(world)
        world.fail()
        return world, after

    world, plant = tried()
    getattr(plant, end)()
    gone = 0
    for step in range(1, world.steps + 1):
        world, plant = tried()
        world.fail(step, how="kill")
        with pytest.raises(Killed):
            getattr(plant, end)()
        world.killed = False
        after, ours = attach(world), {name for name, value in world.values().items() if value != BASE[name]}
        gone += "thread_stack" in ours and not world.snippet.exists()
        assert after._restarts is not None
        assert bool(after._restarts.script()) is ("thread_stack" in ours or world.snippet.exists()), f"step {step}"
        assert {name for name in ours if name in after.leftover()} == ours, f"step {step}"
        after.undo_leftover()
        assert (world.state(), after.leftover()) == (START, ""), f"step {step}"
    assert gone, "between the two"


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


def test_it_is_undone_also_where_nothing_can_be_written(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = fresh()
    attach(world).apply({"max_connections": 201})

    def read_only(path: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("trimtab.plants._journal.remove", read_only)
    later = attach(world)
    later.undo_leftover()
    assert (world.values()["max_connections"], later.leftover()) == (BASE["max_connections"], "")


def test_once_it_is_undone_what_is_in_force_is_what_the_operator_has_chosen(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed trial of a larger pool was taken for that, so what an earlier run had kept could not be set again."""
    monkeypatch.setattr(Attached, "_await_resize", lambda self, wanted_bytes: None)
    world = fresh()
    attach(world).apply({"innodb_buffer_pool_size": 192 << 20})
    later = attach(world)
    later.undo_leftover()
    assert later.apply({"table_open_cache": 1600}).configuration["table_open_cache"] == 1600


def test_what_an_earlier_run_has_kept_in_our_file_stays_beside_what_a_later_one_restarts_for(
    fresh: Callable[[], World],
) -> None:
    world = fresh()
    attach(world).apply({"thread_stack": STACK})
    text, later = world.snippet.read_text(), attach(world)
    later.apply({"thread_handling": 1})
    assert (world.values()["thread_stack"], world.values()["thread_handling"]) == (STACK, 1)
    later.apply({"thread_handling": 0})
    assert (world.values()["thread_stack"], world.values()["thread_handling"]) == (STACK, 0)
    later.restore()
    assert world.snippet.read_text() == text and world.values()["thread_stack"] == STACK


def test_what_a_restart_alone_undoes_is_named_where_none_is_allowed(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = fresh()
    attach(world).apply({"max_connections": 201, "thread_stack": STACK})
    without = attach(world, may_restart=False)
    without.undo_leftover()
    assert world.values() == {**BASE, "thread_stack": STACK}
    assert without.out_of_reach() == {"thread_stack": ""}, "an undo of the run that set it does it"
    later = attach(world)
    assert later.out_of_reach() == {}
    later.undo_leftover()
    assert attach(world, may_restart=False).out_of_reach() == {}

    def older(attached: Attached, name: str) -> list[str]:
        raise Rejected("Unknown column 'GLOBAL_VALUE_PATH'")

    monkeypatch.setattr(Attached, "read_from", older)
    assert without.out_of_reach() == {}


def test_what_a_run_that_was_killed_before_its_restart_has_left_there_is_not_brought_into_force(
    fresh: Callable[[], World],
) -> None:
    world = fresh()
    attach(world).apply({"thread_stack": STACK})
    world.read = {}  # as MariaDB was before the restart
    attach(world).apply({"thread_handling": 1})
    assert world.values()["thread_stack"] == BASE["thread_stack"]


def test_what_a_killed_restart_has_forgotten_is_set_again_before_the_next_run_whatever_stays(
    fresh: Callable[[], World],
) -> None:
    """As after a kill in the restart at a run's end: no trial was in force, and what the operator had set was not."""
    world = killed_in_the_restart(fresh)
    text, later = world.snippet.read_text(), attach(world)
    assert "max_allowed_packet not as it was set live" in later.not_loaded()
    later.undo_killed()
    assert (world.values()["max_allowed_packet"], world.snippet.read_text()) == (32 << 20, text)
    assert later.not_loaded() == ""
    assert later.configuration()["thread_stack"] != BASE["thread_stack"], "and nothing is taken for somebody else's"


@pytest.mark.parametrize(
    ("before", "mend"), [(None, "remove it"), ("[mariadbd]\n", "put back what it says was there before")]
)
@pytest.mark.parametrize("name", [restart.NAME, "zz-trimtab_b.cnf"])
def test_where_none_runs_the_file_is_named_with_which_it_may_not_start(
    name: str, before: str | None, mend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it waited for a MariaDB that its trial kept from starting, trimtab could undo nothing any more."""
    monkeypatch.setattr(MariadbServer, "running", list)
    parser = argparse.ArgumentParser()
    mariadb.add_arguments(parser)
    args = parser.parse_args(["--allow-restart", "--snippet-directory", str(tmp_path)])
    file = tmp_path / name
    file.write_text(_own_file.compose(f"[mariadbd]\nthread_stack = {STACK}\n", before))
    with pytest.raises(UsageError, match=f"{file}, of an earlier run, .* should MariaDB not start with it, {mend}$"):
        mariadb.from_arguments(args, FakeClock())
    file.write_text("# an operator's\n")
    with pytest.raises(UsageError, match=r"no running MariaDB found \([^;]*$"):
        mariadb.from_arguments(args, FakeClock())


def called_off(world: World, plant: Mariadb) -> None:
    """A change whose restart is not begun, as the server in front cannot hold requests back for it."""
    front = Front(world)
    plant.in_front, front.error, before = (front,), ApplyFailed("it does not answer"), world.restarts
    with pytest.raises(ApplyFailed, match="it does not answer"):
        plant.apply({"thread_stack": STACK})
    assert world.restarts == before


def test_after_a_restart_of_ours_that_was_called_off_what_the_operators_own_forgets_is_not_set_again(
    fresh: Callable[[], World],
) -> None:
    world, plant = begun(fresh, [])
    called_off(world, plant)
    world.start()
    later = attach(world)
    assert later.leftover() == ""
    later.apply({"thread_stack": STACK})
    assert world.values()["max_allowed_packet"] == BASE["max_allowed_packet"]


def test_what_a_killed_restart_has_forgotten_is_known_also_after_one_that_was_called_off(
    fresh: Callable[[], World],
) -> None:
    world = killed_in_the_restart(fresh)
    called_off(world, attach(world))
    attach(world).undo_leftover()
    assert world.values()["max_allowed_packet"] == 32 << 20
