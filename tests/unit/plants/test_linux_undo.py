"""The kernel's knobs are put back after any end of a run, and only what is ours."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._family import CHANGE, Family, attached, in_a_child, more, named, seen, undone, until
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.errors import ApplyRefused, UsageError
from trimtab.plants.linux import from_arguments, knobs, putback
from trimtab.plants.linux.journal import Journal, left
from trimtab.plants.linux.plant import Linux
from trimtab.plants.stack import examined

pytestmark = pytest.mark.usefixtures("own_journals")


def _die_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends this process before that many more things have touched a thread, a file or the journal."""
    left = [step]

    def counted(done: Callable[..., object]) -> Callable[..., object]:
        def one(*given: object) -> object:
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            return done(*given)

        return one

    for where, name in ((putback, "write"), (putback, "write_file"), (Journal, "write")):
        monkeypatch.setattr(where, name, counted(getattr(where, name)))


@pytest.mark.parametrize("restoring", [False, True])
def test_killed_at_any_step_of_a_change_or_of_its_undo_everything_is_undone_by_the_next(
    family: Family, shared: Path, monkeypatch: pytest.MonkeyPatch, restoring: bool
) -> None:
    before, steps = seen(family), 0
    while True:
        child = os.fork()
        if child == 0:
            with attached(family, machine_wide=True) as plant:
                _die_at(steps, monkeypatch)
                plant.apply({**CHANGE, "vm_swappiness": 10})
                if restoring:
                    plant.restore()
                os._exit(0)
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        assert ended in (0, 9)
        if ended == 0 and not restoring:
            assert shared.read_text().strip() == "10"
        with attached(family, machine_wide=True) as plant:
            plant.undo_leftover()
        assert seen(family) == before, f"killed before step {steps}"
        assert shared.read_text().strip() == "60", f"killed before step {steps}"
        if ended == 0:
            break
        steps += 1
    assert steps >= (10 if restoring else 6)  # two journals, three threads and a file, and these four again


def test_what_a_killed_run_left_is_put_back_before_the_next_run_changes_anything(family: Family) -> None:
    before = seen(family)
    in_a_child(family, lambda plant: os._exit(9))
    trial = seen(family)
    assert trial != before
    with attached(family) as plant:
        plant.check_permissions()  # the doctor asks that too, who changes nothing
        assert seen(family) == trial
        plant.undo_killed()
        assert seen(family) == before


def test_the_doctor_of_a_stack_changes_nothing_of_what_a_killed_run_left(family: Family, tmp_path: Path) -> None:
    in_a_child(family, lambda plant: os._exit(9))
    trial, file = seen(family), tmp_path / "stack.toml"
    file.write_text(f'[tiers.kernel]\nplant = "linux"\npid = [{family.pid}]\n', encoding="utf-8")
    file.chmod(0o600)
    assert any(one.subject.endswith(knobs.SLICE) and one.usable for one in examined(file))
    assert seen(family) == trial


def test_what_was_kept_in_order_stays_until_it_is_undone(family: Family) -> None:
    before = seen(family)
    in_a_child(family, lambda plant: plant.close())
    with attached(family) as plant:
        plant.undo_killed()
        assert plant.configuration()[knobs.SLICE] == 10_000
    undone(family)
    assert seen(family) == before


def test_what_two_runs_have_left_is_undone_from_the_last_on_though_the_time_was_set_back_between_them(
    family: Family, tmp_path: Path
) -> None:
    """By the times of their files the first was undone first, whose values were not in force, and then to them."""
    before = seen(family)
    in_a_child(family, lambda plant: plant.close())
    (first,) = (tmp_path / "run" / "trimtab-kernel").iterdir()
    started = left()[0].owner.start_ticks
    until(lambda: processes.uptime_s() * processes.TICKS_HZ > started + 2)

    def other(plant: Linux) -> None:
        plant.apply({knobs.SLICE: 5_000})
        plant.close()

    in_a_child(family, other)
    os.utime(first, (4e9, 4e9))
    undone(family)
    assert seen(family) == before


def test_what_was_tried_and_taken_back_leaves_nothing_to_be_undone(family: Family) -> None:
    before = seen(family)
    with attached(family) as plant:
        first = plant.configuration()

    def ends(plant: Linux) -> None:
        plant.apply({name: first[name] for name in CHANGE})
        plant.close()

    in_a_child(family, ends)
    with attached(family) as plant:
        assert plant.leftover() == "" and not left()
    assert seen(family) == before


def test_the_printed_script_undoes_it_without_trimtab(family: Family) -> None:
    before = seen(family)
    with attached(family) as plant:
        plant.apply(CHANGE)
        more(family)
        script = plant.undo_script()
        said = subprocess.run(["sh"], input=script, capture_output=True, text=True, timeout=300, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (0, "undone\n", "")
        assert set(seen(family).values()) == set(before.values())


def test_a_thread_id_that_was_given_to_another_since_is_left_alone(family: Family) -> None:
    with attached(family) as plant:
        plant.apply(CHANGE)
        data = plant._journal.data()
    data = {
        **data,
        "roots": [],
        "threads": [[pid, tid, start + 1, *rest] for pid, tid, start, *rest in data["threads"]],
    }
    assert putback.undo(data) == []
    assert {now.slice_ns for now in seen(family).values()} == {10_000_000}


def test_a_file_that_a_killed_run_has_set_can_be_undone_when_the_server_is_gone(family: Family, shared: Path) -> None:
    def applied_and_killed(plant: Linux) -> None:
        plant.apply({"vm_swappiness": 10})
        os._exit(9)

    in_a_child(family, applied_and_killed)
    family.communicate("", timeout=300)
    assert shared.read_text() == "10\n"
    with pytest.raises(UsageError, match="no such process; what an earlier run set: python3 -I") as refused:
        from_arguments(named(pid=[family.pid]), SystemClock())
    command = str(refused.value).partition("run set: ")[2].split()
    assert subprocess.run(command, check=True, capture_output=True, timeout=300).stdout == b"undone\n"
    assert shared.read_text() == "60\n"


def test_a_journal_of_threads_that_have_all_ended_is_no_leftover(family: Family, tmp_path: Path) -> None:
    in_a_child(family, lambda plant: os._exit(9))
    family.communicate("", timeout=300)
    assert left() == ()
    assert list((tmp_path / "run" / "trimtab-kernel").iterdir()) == []


def test_journals_that_somebody_else_could_have_written_are_not_read(family: Family, tmp_path: Path) -> None:
    with attached(family) as plant:
        plant.apply(CHANGE)
        (tmp_path / "run" / "trimtab-kernel").chmod(0o777)
        with pytest.raises(UsageError, match="trimtab-kernel"):
            plant.undo_leftover()
        (tmp_path / "run" / "trimtab-kernel").chmod(0o700)
        plant.restore()


def test_two_trimtabs_do_not_move_the_same_threads(family: Family) -> None:
    ready, says = os.pipe()
    child = os.fork()
    if child == 0:
        with attached(family) as plant:
            plant.apply(CHANGE)
            os.write(says, b"!")
            signal.pause()
    os.read(ready, 1)
    try:
        with attached(family) as plant:
            with pytest.raises(UsageError, match=rf"another trimtab \(pid {child}\) moves the same threads"):
                plant.check_permissions()
            with pytest.raises(ApplyRefused, match="another trimtab"):
                plant.apply({knobs.SLICE: 5_000})
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(says)
    assert {now.slice_ns for now in seen(family).values()} == {10_000_000}
