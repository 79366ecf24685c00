"""The kernel's knobs on processes of the test's own: set, followed, edited by others, put back after any end."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests._stranger import STRANGER, needs_root
from trimtab.clock import SystemClock
from trimtab.core import Domain
from trimtab.errors import ApplyFailed, ApplyRefused, OperatorEdit, PlantGone, UsageError
from trimtab.gate import run_directory
from trimtab.plants.linux import from_arguments, knobs, putback, target, watchdog
from trimtab.plants.linux.journal import Journal, left
from trimtab.plants.linux.plant import Allowed, Linux
from trimtab.plants.linux.putback import Scheduling

FAMILY = """
import subprocess, sys, threading, time
def busy():
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    return subprocess.Popen(["/bin/sleep", "3600"])
children = [busy()]
print("ready", flush=True)
for line in sys.stdin:
    children.append(busy())
    print("born", flush=True)
for child in children:
    child.kill()
"""
"""A parent with a thread and a child; each line has it start one more of both."""
CHANGE = {knobs.SLICE: 10_000, knobs.POLICY: 1}
Family = subprocess.Popen[str]


@pytest.fixture(autouse=True)
def _own_journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(run_directory, "base", lambda: tmp_path / "run" / "trimtab")


@pytest.fixture
def family() -> Iterator[Family]:
    with started() as process:
        yield process


@contextlib.contextmanager
def started() -> Iterator[Family]:
    """A family, until its end."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        with contextlib.suppress(BrokenPipeError):
            process.communicate("", timeout=10)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for a knob of the whole machine."""
    path = tmp_path / "swappiness"
    path.write_text("60\n")
    monkeypatch.setattr(knobs, "MACHINE", (replace(knobs.MACHINE[0], path=path),))
    return path


@contextlib.contextmanager
def attached(family: Family, **allowed: bool) -> Iterator[Linux]:
    plant = Linux(SystemClock(), target.find((), (family.pid,), ()), Allowed(sensors=False, **allowed))
    try:
        yield plant
    finally:
        plant.close()


def seen(family: Family) -> dict[int, Scheduling]:
    """How each thread of a family is scheduled."""
    start = putback.stat(family.pid)
    assert start is not None
    there = putback.threads([(family.pid, start[1])])
    return {tid: now for tid in there if (now := putback.read(tid)) is not None}


def more(family: Family) -> None:
    """Has it start one more child and one more thread."""
    assert family.stdin is not None and family.stdout is not None
    family.stdin.write("\n")
    family.stdin.flush()
    assert family.stdout.readline() == "born\n"


def undone(family: Family) -> None:
    """What the next trimtab does with what a dead one has left."""
    with attached(family, machine_wide=True) as plant:
        assert plant.leftover()
        plant.undo_leftover()
        assert plant.leftover() == ""


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
    _in_a_child(family, lambda plant: os._exit(9))
    assert seen(family) != before
    with attached(family) as plant:
        plant.check_permissions()
        assert seen(family) == before


def test_what_was_kept_in_order_stays_until_it_is_undone(family: Family) -> None:
    before = seen(family)
    _in_a_child(family, lambda plant: plant.close())
    with attached(family) as plant:
        plant.check_permissions()
        assert plant.configuration()[knobs.SLICE] == 10_000
    undone(family)
    assert seen(family) == before


def test_the_printed_script_undoes_it_without_trimtab(family: Family) -> None:
    before = seen(family)
    with attached(family) as plant:
        plant.apply(CHANGE)
        more(family)
        script = plant.undo_script()
        said = subprocess.run(["sh"], input=script, capture_output=True, text=True, timeout=60, check=False)
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


def test_a_thread_that_may_not_be_set_is_found_before_anything_is_changed(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(family)
    _refuse(monkeypatch, max(before))
    with attached(family) as plant, pytest.raises(UsageError, match="may not be set: Operation not permitted"):
        plant.check_permissions()
    assert seen(family) == before


def test_a_change_that_one_thread_refuses_is_taken_back_from_all(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(family)
    with attached(family) as plant:
        _refuse(monkeypatch, max(before))
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
        family.communicate("", timeout=10)
        with pytest.raises(PlantGone, match=f"pid {family.pid} has ended"):
            plant.configuration()
        plant.restore()


def test_a_file_that_a_killed_run_has_set_can_be_undone_when_the_server_is_gone(family: Family, shared: Path) -> None:
    def applied_and_killed(plant: Linux) -> None:
        plant.apply({"vm_swappiness": 10})
        os._exit(9)

    _in_a_child(family, applied_and_killed)
    family.communicate("", timeout=10)
    assert shared.read_text() == "10\n"
    with pytest.raises(UsageError, match="no such process; what an earlier run set: python3 -I") as refused:
        from_arguments(_named(pid=[family.pid]), SystemClock())
    command = str(refused.value).partition("run set: ")[2].split()
    assert subprocess.run(command, check=True, capture_output=True, timeout=60).stdout == b"undone\n"
    assert shared.read_text() == "60\n"


def test_a_journal_of_threads_that_have_all_ended_is_no_leftover(family: Family, tmp_path: Path) -> None:
    _in_a_child(family, lambda plant: os._exit(9))
    family.communicate("", timeout=10)
    assert left() == ()
    assert list((tmp_path / "run" / "trimtab-kernel").iterdir()) == []


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
        from_arguments(_named(**words), SystemClock())
    assert said in str(refused.value) and "\n" not in str(refused.value)


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


@needs_root
def test_real_time_is_taken_back_by_the_watchdog_when_trimtab_is_killed(family: Family) -> None:
    before = seen(family)
    child = _rr(family)
    assert {now.policy for now in seen(family).values()} == {putback.RR}
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    _until(lambda: seen(family) == before)


@needs_root
def test_real_time_is_taken_back_when_ordinary_programs_get_no_time(family: Family) -> None:
    before = seen(family)
    child = _rr(family)
    os.kill(child, signal.SIGSTOP)
    try:
        _until(lambda: seen(family) == before)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@needs_root
def test_real_time_does_not_outlive_the_run_whatever_is_kept(family: Family) -> None:
    before = seen(family)
    with attached(family, real_time=True) as plant:
        plant.apply({knobs.POLICY: 2, knobs.SLICE: 5_000})
        more(family)
        assert {now.policy for now in seen(family).values()} == {putback.RR, putback.OTHER}, "RR is not inherited"
        plant.configuration()
        assert {now.policy for now in seen(family).values()} == {putback.RR}
    assert {now.flags for now in seen(family).values()} == {0}
    assert {(now.policy, now.slice_ns) for now in seen(family).values()} == {(putback.OTHER, 5_000_000)}
    with attached(family) as plant:
        putback.undo(plant._journal.data())
    assert len(before) == 3


@needs_root
def test_real_time_without_a_bound_is_refused(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbound = tmp_path / "runtime"
    unbound.write_text("-1\n")
    monkeypatch.setattr(watchdog, "_RUNTIME", unbound)
    with pytest.raises(UsageError, match=r"kernel\.sched_rt_runtime_us is -1"), attached(family, real_time=True):
        pass


@needs_root
def test_what_comes_into_a_control_group_gets_it_and_keeps_what_it_had(tmp_path: Path) -> None:
    group = Path(f"/sys/fs/cgroup/pids/trimtab-test-{os.getpid()}")
    group.mkdir()
    try:
        with _asleep() as first, _asleep() as late:
            (group / "cgroup.procs").write_text(str(first))
            putback.write(late, Scheduling(putback.OTHER, 0, 7_000_000))
            plant = Linux(SystemClock(), target.find((), (), (group,)), Allowed(sensors=False))
            plant.apply({knobs.SLICE: 10_000})
            (group / "cgroup.procs").write_text(str(late))
            plant.configuration()
            assert _slice(late) == _slice(first) == 10_000_000
            plant.restore()
            assert (_slice(late), _slice(first)) == (7_000_000, knobs.base_slice_ns())
            plant.close()
    finally:
        group.rmdir()


@needs_root
def test_a_group_of_its_own_has_its_own_swappiness_and_one_that_is_shared_has_none() -> None:
    group = Path(f"/sys/fs/cgroup/memory/trimtab-test-{os.getpid()}")
    if not (group.parent / "memory.swappiness").exists():
        pytest.skip("control groups of version 2 have no swappiness")
    group.mkdir()
    try:
        with _asleep() as own, _asleep() as other:
            (group / "cgroup.procs").write_text(str(own))
            plant = Linux(SystemClock(), target.find((), (own,), ()), Allowed(sensors=False))
            plant.apply({"group_swappiness": 0})
            assert (group / "memory.swappiness").read_text() == "0\n"
            plant.restore()
            assert (group / "memory.swappiness").read_text() == "60\n"
            (group / "cgroup.procs").write_text(str(other))
            plant = Linux(SystemClock(), target.find((), (own,), ()), Allowed(sensors=False))
            assert "group_swappiness" not in plant.configuration()
    finally:
        group.rmdir()


@contextlib.contextmanager
def _asleep() -> Iterator[int]:
    """A process that sleeps."""
    with subprocess.Popen(["/bin/sleep", "3600"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def _named(**words: object) -> argparse.Namespace:
    """The servers as the command line names them."""
    usual = {"server": [], "pid": [], "cgroup": [], "allow_machine_wide": False, "allow_real_time": False}
    return argparse.Namespace(**{**usual, **words})


def _slice(tid: int) -> int:
    now = putback.read(tid)
    assert now is not None
    return now.slice_ns


def _refuse(monkeypatch: pytest.MonkeyPatch, tid: int) -> None:
    """Has the kernel refuse to set a thread."""
    write = putback.write

    def refusing(which: int, wanted: Scheduling) -> bool:
        if which == tid:
            raise PermissionError(1, "Operation not permitted")
        return write(which, wanted)

    monkeypatch.setattr(putback, "write", refusing)


def _as_stranger(tmp_path: Path, work: Callable[[], None]) -> str:
    """Does something as another user; what went wrong, empty when nothing did."""
    (tmp_path / "run" / "trimtab-kernel").mkdir()
    for path in (tmp_path, tmp_path / "run", tmp_path / "run" / "trimtab-kernel"):
        os.chown(path, STRANGER, STRANGER)
    for above in tmp_path.parents[:-2]:
        above.chmod(0o755)
    ready, says = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            os.chdir("/")
            work()
        except BaseException as error:
            os.write(says, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(says)
    os.waitpid(child, 0)
    with os.fdopen(ready) as said:
        return said.read()


@needs_root
def test_an_ordinary_user_moves_slices_and_policies_of_his_own_threads(tmp_path: Path) -> None:
    def work() -> None:
        with subprocess.Popen(["/bin/sleep", "3600"]) as process:
            try:
                plant = Linux(SystemClock(), target.find((), (process.pid,), ()), Allowed(sensors=False))
                plant.check_permissions()
                plant.apply(CHANGE)
                assert _slice(process.pid) == 10_000_000
                assert knobs.NICE not in plant.configuration(), "he could not put it back"
                plant.restore()
                assert _slice(process.pid) == knobs.base_slice_ns()
            finally:
                process.kill()

    assert _as_stranger(tmp_path, work) == ""


@needs_root
def test_an_ordinary_user_is_told_that_a_thread_of_another_may_not_be_set(family: Family, tmp_path: Path) -> None:
    def work() -> None:
        with attached(family) as plant:
            plant.check_permissions()

    said = _as_stranger(tmp_path, work)
    assert said.startswith(f"UsageError: thread {family.pid} of pid {family.pid} may not be set: "), said
    assert said.endswith("run trimtab as root or as the server's user")


def _in_a_child(family: Family, end: Callable[[Linux], None]) -> None:
    """Applies a change in a process that ends as it is told to."""
    child = os.fork()
    if child == 0:
        with attached(family, machine_wide=True) as plant:
            plant.apply(CHANGE)
            end(plant)
            os._exit(0)
    os.waitpid(child, 0)


def _rr(family: Family) -> int:
    """A process that holds a family in real time under a watchdog with a short lease, until it is killed."""
    ready, says = os.pipe()
    child = os.fork()
    if child == 0:
        with attached(family, real_time=True) as plant:
            plant._watchdog._lease_s = 1.0
            plant.apply({knobs.POLICY: 2})
            os.write(says, b"!")
            signal.pause()
            os._exit(0)
    os.close(says)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    return child


def _until(held: Callable[[], bool], patience_s: float = 30.0) -> None:
    clock = SystemClock()
    deadline_s = clock.now_s() + patience_s
    while not held():
        assert clock.now_s() < deadline_s
        clock.sleep(0.05)


def test_the_domain_of_a_slice_has_the_shipped_slices_of_every_machine() -> None:
    (domain,) = (knob.domain for knob in knobs.of_threads(1_400_000, False, False) if knob.name == knobs.SLICE)
    assert isinstance(domain, Domain)
    assert all(slice_us in domain for slice_us in (700, 750, 1400, 1500, 2100, 2250, 2800, 3000))
