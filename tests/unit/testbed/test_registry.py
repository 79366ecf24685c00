"""What testbeds hold is written down, and only what dead owners have left is taken away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER, PYTHON, STRANGER, needs_root
from trimtab import processes
from trimtab.errors import TrimtabError
from trimtab.processes import Process
from trimtab.testbed import reap
from trimtab.testbed.registry import Record, Registry


@pytest.fixture
def own() -> Process:
    found = processes.identify(os.getpid())
    assert found is not None
    return found


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry")


def record(owner: Process, directory: Path, boot: str | None = None) -> Record:
    return Record(boot or processes.boot_id(), owner, os.fspath(directory))


def test_a_record_comes_back_as_it_was_written(registry: Registry, own: Process, tmp_path: Path) -> None:
    full = replace(record(own, tmp_path / "a"), server=Process(7, 8), cgroups=("/x", "/y"), swap=True, users=(33,))
    registry.write(full)
    assert registry.records() == [full]
    registry.remove(full)
    registry.remove(full)
    assert registry.records() == []


def test_a_file_that_is_not_a_record_is_removed(registry: Registry) -> None:
    broken = registry.directory / "broken.json"
    broken.write_text('{"boot_id": 1}')
    assert registry.records() == []
    assert not broken.exists()


def test_this_process_is_alive_and_a_process_of_another_start_time_is_not(own: Process) -> None:
    assert own.alive()
    assert not Process(own.pid, own.start_ticks + 1).alive()


def test_only_records_of_dead_owners_and_other_boots_are_orphans(own: Process, tmp_path: Path) -> None:
    living = record(own, tmp_path / "living")
    reused_id = record(Process(own.pid, own.start_ticks - 1), tmp_path / "reused")
    other_boot = record(own, tmp_path / "other", boot="another")
    assert reap.orphans([living, reused_id, other_boot], processes.boot_id()) == [reused_id, other_boot]


def test_reaping_removes_the_directory_of_a_dead_owner_and_spares_the_living(
    registry: Registry, own: Process, tmp_path: Path
) -> None:
    dead, living = tmp_path / "dead", tmp_path / "living"
    for directory, owner in ((dead, Process(own.pid, own.start_ticks - 1)), (living, own)):
        directory.mkdir()
        (directory / "file").touch()
        registry.write(record(owner, directory))
    with registry.locked():
        removed = reap.reap(registry)
    assert len(removed) == 1 and os.fspath(dead) in removed[0]
    assert not dead.exists()
    assert (living / "file").exists()
    assert [r.directory for r in registry.records()] == [os.fspath(living)]


def test_one_testbed_that_does_not_go_keeps_no_other_from_being_removed(
    registry: Registry, own: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of processes that swap may take longer to end than anybody waits."""
    gone, stuck = Process(own.pid, own.start_ticks - 1), tmp_path / "a-stuck"
    for directory, server in ((stuck, Process(7, 8)), (tmp_path / "b", None), (tmp_path / "c", None)):
        directory.mkdir()
        registry.write(replace(record(gone, directory), server=server))
    monkeypatch.setattr(processes, "end", lambda members, patience_s: server_is_absent(members))
    monkeypatch.setattr(processes, "session_members", lambda *_: [gone])
    with registry.locked(), pytest.raises(TrimtabError, match=f"^processes of {stuck} do not end$"):
        reap.reap(registry)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a-stuck", "registry"]
    assert [r.directory for r in registry.records()] == [os.fspath(stuck)], "the next one tries again"


def server_is_absent(members: Callable[[], Iterable[Process]]) -> bool:
    return not list(members())


def test_a_registry_that_others_can_write_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(TrimtabError, match="can be written by everybody"):
        Registry(shared)


@needs_root
@pytest.mark.parametrize(("users", "ended"), [((), False), ((STRANGER,), True)], ids=["a stranger's", "its own"])
def test_of_a_session_only_the_processes_of_the_testbed_s_users_are_ended(
    users: tuple[int, ...], ended: bool, registry: Registry, own: Process, tmp_path: Path
) -> None:
    """After its leader has died a session's id may come to be somebody else's, who calls himself what he likes."""
    directory = tmp_path / "gone"
    directory.mkdir()
    words = (*AS_STRANGER, PYTHON, "-c", "import time; time.sleep(60)", directory)
    process = subprocess.Popen(words, start_new_session=True, cwd="/")
    try:
        while processes.user_of(process.pid) != STRANGER:
            assert process.poll() is None
        there = processes.identify(process.pid)
        reap.clear(registry, replace(record(own, directory), server=there, users=users))
        assert (process.poll() is not None) == ended
    finally:
        process.kill()
        process.wait()
