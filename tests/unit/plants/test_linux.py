"""The kernel's knobs on processes of the test's own: set, followed, edited by others, refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests._family import CHANGE, Family, asleep, attached, more, named, refuse, seen, started
from tests._memory_plant import FakeClock
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.core import Domain
from trimtab.errors import ApplyFailed, ApplyRefused, NotMeasured, OperatorEdit, PlantGone, UsageError
from trimtab.plants.linux import from_arguments, knobs, putback, target
from trimtab.plants.linux.plant import Allowed, Linux
from trimtab.plants.linux.putback import Scheduling

pytestmark = pytest.mark.usefixtures("own_journals")


def test_every_thread_of_parent_and_children_gets_it_and_the_kernel_says_so(family: Family) -> None:
    with attached(family) as plant:
        plant.apply(CHANGE)
        there = seen(family)
        assert len(there) == 3
        for tid, now in there.items():
            assert (now.policy, now.slice_ns) == (putback.BATCH, 10_000_000)
            lines = dict(
                line.split(":") for line in Path(f"/proc/{tid}/sched").read_text().splitlines() if ":" in line
            )
            fields = {name.strip(): value.strip() for name, value in lines.items()}
            assert (fields["policy"], fields["se.slice"]) == ("3", "10000000")
        plant.restore()


def test_threads_and_children_that_are_born_meanwhile_have_it_and_are_put_back_too(family: Family) -> None:
    before = seen(family)
    with attached(family) as plant:
        plant.apply(CHANGE)
        more(family)
        assert plant.configuration()[knobs.SLICE] == 10_000
        there = seen(family)
        assert len(there) == 5 and {now.slice_ns for now in there.values()} == {10_000_000}
        plant.restore()
    assert len(seen(family)) == 5 and set(seen(family).values()) == set(before.values())


def test_the_threads_are_looked_for_once_at_the_end_of_a_window(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    plant = Linux(clock, target.find((), (family.pid,), ()), Allowed(sensors=False))
    walks, walk = [0], putback.threads

    def counted(*words: Any) -> dict[int, putback.Thread]:
        walks[0] += 1
        return walk(*words)

    born = [1]
    monkeypatch.setattr(putback, "threads", counted)
    monkeypatch.setattr(processes, "last_born", lambda: born[0])
    queue = plant.sensors()[0]

    def window() -> int:
        before = walks[0]
        queue.begin()
        clock.sleep(1.0)
        queue.read()
        plant.configuration()
        clock.sleep(0.01)
        return walks[0] - before

    assert window() == 1
    assert [window(), window()] == [0, 0], "while nothing is born on the machine"
    born[0] += 1
    assert window() == 1
    clock.sleep(1.0)
    before = walks[0]
    plant.configuration()
    assert walks[0] == before + 1, "what the run queue saw long ago"
    family.communicate("", timeout=10)
    with pytest.raises(NotMeasured, match=f"pid {family.pid} has ended"):
        window()
    plant.close()


def test_no_birth_on_this_machine_goes_unseen() -> None:
    before = processes.last_born()
    with asleep() as pid:
        assert processes.last_born() != before
        assert processes.last_born() >= pid or processes.last_born() < before, (
            "ids are given in turn, round and round"
        )


def test_each_thread_gets_back_what_it_had_and_not_what_most_had(family: Family) -> None:
    odd = max(seen(family))
    putback.write(odd, Scheduling(putback.BATCH, 5, 3_000_000))
    before = seen(family)
    with attached(family) as plant:
        plant.apply(CHANGE)
        assert {(now.policy, now.slice_ns) for now in seen(family).values()} == {(putback.BATCH, 10_000_000)}
        assert seen(family)[odd].nice == 5
        plant.restore()
    assert seen(family) == before


def test_what_is_born_gets_back_what_its_own_parent_had(family: Family) -> None:
    with started() as other:
        for tid in seen(other):
            putback.write(tid, Scheduling(putback.OTHER, 0, 3_000_000))
        plant = Linux(SystemClock(), target.find((), (family.pid, other.pid), ()), Allowed(sensors=False))
        plant.apply(CHANGE)
        more(family)
        more(other)
        plant.restore()
        plant.close()
        assert {now.slice_ns for now in seen(other).values()} == {3_000_000}
        assert {now.slice_ns for now in seen(family).values()} == {knobs.base_slice_ns()}


def test_a_thread_in_real_time_or_idle_by_somebody_elses_will_is_left_alone(family: Family) -> None:
    idle = max(seen(family))
    putback.write(idle, Scheduling(5, 0, 0))
    with attached(family) as plant:
        plant.apply(CHANGE)
        assert seen(family)[idle].policy == 5
        assert any("left alone" in line for line in plant.notes)
        plant.restore()
    assert seen(family)[idle].policy == 5


def test_what_somebody_else_has_set_stands_down_and_stays_after_the_undo(family: Family) -> None:
    with attached(family) as plant:
        plant.apply(CHANGE)
        putback.write(family.pid, Scheduling(putback.BATCH, 0, 20_000_000))
        with pytest.raises(
            OperatorEdit, match=r"slice_us of thread .* is 20000, where trimtab had set 10000"
        ) as edit:
            plant.configuration()
        assert edit.value.knob == knobs.SLICE
        assert plant.configuration()[knobs.POLICY] == 1
        with pytest.raises(OperatorEdit):
            plant.apply({knobs.SLICE: 5_000})
        plant.restore()
    assert seen(family)[family.pid] == Scheduling(putback.OTHER, 0, 20_000_000)


def test_a_file_that_somebody_else_has_written_stands_down_and_stays(family: Family, shared: Path) -> None:
    with attached(family, machine_wide=True) as plant:
        plant.apply({"vm_swappiness": 10})
        shared.write_text("100\n")
        with pytest.raises(OperatorEdit, match="is 100, where trimtab had set 10"):
            plant.configuration()
        plant.restore()
    assert shared.read_text() == "100\n"


@pytest.mark.parametrize("killed", [False, True])
def test_what_somebody_else_has_set_stays_also_where_it_is_a_value_of_an_earlier_trial(
    family: Family, shared: Path, killed: bool
) -> None:
    before = seen(family)
    with attached(family, machine_wide=True) as plant:
        plant.apply({**CHANGE, "vm_swappiness": 10})
        plant.apply({knobs.SLICE: 5_000, knobs.POLICY: 0, "vm_swappiness": 20})
        putback.write(family.pid, Scheduling(putback.BATCH, 0, 10_000_000))
        shared.write_text("10\n")
        if killed:
            for _ in range(3):
                with pytest.raises(OperatorEdit):
                    plant.configuration()
            assert putback.main(["undo", str(plant._journal.path)]) == 0
        plant.restore()
    assert shared.read_text() == "10\n"
    assert seen(family) == {**before, family.pid: Scheduling(putback.BATCH, 0, 10_000_000)}


def test_a_thread_that_may_not_be_set_is_found_before_anything_is_changed(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(family)
    refuse(monkeypatch, max(before))
    with attached(family) as plant, pytest.raises(UsageError, match="may not be set: Operation not permitted"):
        plant.check_permissions()
    assert seen(family) == before


def test_a_change_that_one_thread_refuses_is_taken_back_from_all(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(family)
    with attached(family) as plant:
        refuse(monkeypatch, max(before))
        with pytest.raises(ApplyFailed, match="Operation not permitted; what was before is restored"):
            plant.apply(CHANGE)
        assert seen(family) == before


def test_a_file_that_does_not_take_it_takes_the_threads_back_too(
    family: Family, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = seen(family), putback.write_file
    monkeypatch.setattr(putback, "write_file", lambda path, text: write(path, "11" if text == "10" else text))
    with attached(family, machine_wide=True) as plant:
        with pytest.raises(ApplyFailed, match="is 11, not 10; what was before is restored"):
            plant.apply({**CHANGE, "vm_swappiness": 10})
        assert seen(family) == before
        assert shared.read_text() == "60\n"


@pytest.mark.parametrize("what", ["a thread", "a file"])
def test_an_interrupt_in_the_middle_of_a_change_puts_threads_and_files_back(
    family: Family, shared: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    before, name = seen(family), "write" if what == "a thread" else "write_file"
    write, calls = getattr(putback, name), list[object]()

    def interrupted(where: Any, value: Any) -> Any:
        done = write(where, value)
        if where:  # 0 is trimtab's own thread
            calls.append(where)
            if len(calls) == (2 if what == "a thread" else 1):
                raise KeyboardInterrupt
        return done

    with attached(family, machine_wide=True) as plant:
        monkeypatch.setattr(putback, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            plant.apply({**CHANGE, "vm_swappiness": 10})
        assert (seen(family), shared.read_text().strip()) == (before, "60")


def test_a_change_that_a_stack_takes_back_leaves_the_thread_that_somebody_else_has_set_meanwhile(
    family: Family,
) -> None:
    with attached(family) as plant:
        prepared = plant.prepare(CHANGE)
        plant.commit(prepared)
        putback.write(family.pid, Scheduling(putback.BATCH, 0, 20_000_000))
        plant.rollback(prepared)
        there = seen(family)
        assert there[family.pid].slice_ns == 20_000_000
        assert {now.policy for now in there.values()} == {putback.OTHER}
        plant.restore()


def test_what_the_machine_shares_is_moved_only_where_that_is_allowed(family: Family, shared: Path) -> None:
    with attached(family) as plant, pytest.raises(ApplyRefused, match="unknown knob 'vm_swappiness'"):
        plant.apply({"vm_swappiness": 10})
    assert shared.read_text() == "60\n"


def test_a_value_that_the_kernel_would_clip_is_refused(family: Family) -> None:
    before = seen(family)
    with attached(family) as plant:
        for wrong in (50, 200_000):
            with pytest.raises(ApplyRefused, match=r"outside 100\.\.100000 .*the kernel clips"):
                plant.apply({knobs.SLICE: wrong})
    assert seen(family) == before


def test_a_kernel_without_slices_offers_none(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "base_slice_ns", lambda: 0)
    with attached(family) as plant:
        assert knobs.SLICE not in plant.configuration()


def test_a_server_that_has_ended_is_said(family: Family) -> None:
    with attached(family) as plant:
        plant.apply(CHANGE)
        family.communicate("", timeout=300)
        with pytest.raises(PlantGone, match=f"pid {family.pid} has ended"):
            plant.configuration()
        plant.restore()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "no server: name one with --server"),
        ({"server": ["no-such-program"]}, "no running no-such-program found"),
        ({"pid": [1]}, "--pid 1 is the whole machine"),
        ({"pid": [2**22]}, "no such process"),
        ({"cgroup": [Path("/etc")]}, "/etc is not a control group"),
    ],
)
def test_what_names_no_server_is_refused_in_one_line(words: Mapping[str, list[object]], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        from_arguments(named(**words), SystemClock())
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_the_domain_of_a_slice_has_the_shipped_slices_of_every_machine() -> None:
    (domain,) = (knob.domain for knob in knobs.of_threads(1_400_000, False, False) if knob.name == knobs.SLICE)
    assert isinstance(domain, Domain)
    assert all(slice_us in domain for slice_us in (700, 750, 1400, 1500, 2100, 2250, 2800, 3000))
