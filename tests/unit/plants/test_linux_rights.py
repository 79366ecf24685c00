"""Real time, control groups and other users: who may move what of the kernel's knobs."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._family import CHANGE, Family, asleep, attached, more, seen, slice_of, until
from tests._stranger import STRANGER, let_in, needs_root
from trimtab.clock import SystemClock
from trimtab.errors import OperatorEdit, UsageError
from trimtab.plants.linux import knobs, putback, target, watchdog
from trimtab.plants.linux.findings import findings
from trimtab.plants.linux.plant import Allowed, Linux
from trimtab.plants.linux.putback import Scheduling

pytestmark = pytest.mark.usefixtures("own_journals")


@needs_root
def test_real_time_is_taken_back_by_the_watchdog_when_trimtab_is_killed(family: Family) -> None:
    before = seen(family)
    child = _rr(family)
    assert {now.policy for now in seen(family).values()} == {putback.RR}
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    until(lambda: seen(family) == before)


@needs_root
def test_real_time_is_taken_back_when_ordinary_programs_get_no_time(family: Family) -> None:
    before = seen(family)
    child = _rr(family)
    assert {now.policy for now in seen(family).values()} == {putback.RR}
    os.kill(child, signal.SIGSTOP)
    try:
        until(lambda: seen(family) == before)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@needs_root
def test_nobody_moves_a_nice_level_that_he_could_not_put_back_whatever_capabilities_he_has() -> None:
    """Root of a rootless container has CAP_SYS_NICE, and the kernel asks for that of the machine."""
    said = (
        "from trimtab.plants.linux import knobs; from trimtab.processes import capable; "
        "print(capable(23), knobs.may_raise(), *(one.name for one in knobs.of_threads(0, knobs.may_raise(), False)), "
        "knobs.lets_raise(), sep='; ')"
    )
    inside = [*("unshare", "--user", "--map-root-user", sys.executable), "-c", said]
    told = subprocess.run(inside, check=True, capture_output=True, text=True, timeout=300).stdout
    why = "run trimtab outside of this container: its root has CAP_SYS_NICE in a user namespace alone"
    assert told == f"True; False; sched_policy; {why}\n"
    assert knobs.may_raise()


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
def test_real_time_that_somebody_else_takes_from_one_thread_is_taken_back_from_all(family: Family) -> None:
    """The policy was none of trimtab's any more, so it stayed on the others after the end, without a watchdog."""
    with attached(family, real_time=True) as plant:
        plant.apply({knobs.POLICY: 2})
        putback.write(family.pid, Scheduling(putback.BATCH, 0, 0))
        with pytest.raises(OperatorEdit, match=r"policy of thread .* is 1, where trimtab had set 2"):
            plant.configuration()
        for _ in range(2):
            assert {tid: now.policy for tid, now in seen(family).items() if now.policy} == {family.pid: putback.BATCH}
            plant.close()


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
        with asleep() as first, asleep() as late:
            (group / "cgroup.procs").write_text(str(first))
            putback.write(late, Scheduling(putback.OTHER, 0, 7_000_000))
            plant = Linux(SystemClock(), target.find((), (), (group,)), Allowed(sensors=False))
            plant.apply({knobs.SLICE: 10_000})
            (group / "cgroup.procs").write_text(str(late))
            plant.configuration()
            assert slice_of(late) == slice_of(first) == 10_000_000
            plant.restore()
            assert (slice_of(late), slice_of(first)) == (7_000_000, knobs.base_slice_ns())
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
        with asleep() as own, asleep() as other:
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


@needs_root
def test_an_ordinary_user_moves_slices_and_policies_of_his_own_threads(tmp_path: Path) -> None:
    def work() -> None:
        with subprocess.Popen(["/bin/sleep", "3600"]) as process:
            try:
                plant = Linux(SystemClock(), target.find((), (process.pid,), ()), Allowed(sensors=False))
                plant.check_permissions()
                plant.apply(CHANGE)
                assert slice_of(process.pid) == 10_000_000
                assert knobs.NICE not in plant.configuration(), "he could not put it back"
                plant.restore()
                assert slice_of(process.pid) == knobs.base_slice_ns()
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
    assert said.endswith(
        "run trimtab as the server's user, or with the capability CAP_SYS_NICE, which root has by default"
    )


def _as_stranger(tmp_path: Path, work: Callable[[], None]) -> str:
    """Does something as another user; what went wrong, empty when nothing did."""
    (tmp_path / "run" / "trimtab-kernel").mkdir()
    for path in (tmp_path, tmp_path / "run", tmp_path / "run" / "trimtab-kernel"):
        os.chown(path, STRANGER, STRANGER)
    let_in(tmp_path.parent)
    codecs.lookup("ascii")  # Python's own files may be in a home that the other user cannot read
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


def _rr(family: Family) -> int:
    """A process that holds a family in real time under a watchdog with a short lease, until it is killed."""
    codecs.lookup("ascii")  # Python's own files may be in a home that the other user cannot read
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


def test_on_a_machine_whose_system_calls_are_not_known_each_verb_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, family: Family
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    there = {one.subject: one for one in findings()}
    assert "sched_setattr is not known on s390x" in there["scheduling of a thread"].detail
    assert "policy of a thread" not in there, "it could not be set"
    why = "scheduler cannot be asked: sched_setattr is not known on s390x"
    with pytest.raises(UsageError, match=why), attached(family):
        pass


def test_what_lets_a_file_of_the_machine_be_set_is_said_to_root_and_of_a_kernel_without_it_too(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> str:
        return next(one.enable for one in findings() if one.subject == "vm.swappiness")

    monkeypatch.setattr(os, "access", lambda *asked: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert said() == "run as root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert said() == "run outside of this container: in here root too may only read it"
    shared.unlink()
    assert said() == "boot a kernel that has it"
