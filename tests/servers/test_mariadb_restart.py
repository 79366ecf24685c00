"""What only a restart changes, with a program in systemctl's place that restarts a private MariaDB as that would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.servers._private_mariadb import DEBIAN, Bed, as_service, private
from trimtab.clock import SystemClock
from trimtab.errors import ApplyFailed, ApplyLater, ApplyRefused, UsageError
from trimtab.plants import _own_file
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.restart import Service

pytestmark = pytest.mark.server
POOL, STACK = 1, 299008 + 5 * 5120


@dataclass(frozen=True)
class Run:
    """A private MariaDB that a service of systemd seems to run."""

    bed: Bed
    service: Service
    state: Path

    @property
    def pid(self) -> int:
        """The process of the service now."""
        return int(self.state.read_text())

    @property
    def snippet(self) -> Path:
        """trimtab's own file."""
        return self.bed.testbed.snippet_directory / "zz-trimtab.cnf"

    def attach(self) -> Mariadb:
        """trimtab attached to it."""
        directory = self.bed.testbed.snippet_directory
        return Mariadb.attach(SystemClock(), self.pid, None, False, self.bed.journals, directory)

    def handling(self) -> str:
        """How threads are handled, as the operator sees it."""
        return str(self.bed.sql("SELECT @@GLOBAL.thread_handling")[0][0])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    journals = tmp_path / "journals"
    journals.mkdir()
    with private(journals) as bed, as_service(bed.testbed, tmp_path, monkeypatch) as (service, state):
        yield Run(bed, service, state)


def test_what_needs_a_restart_gets_one_and_what_was_set_live_outlives_it(run: Run) -> None:
    run.bed.set({"max_allowed_packet": 32 << 20})  # the operator's, which no file says
    plant, first = run.attach(), run.pid
    plant.check_permissions()
    plant.apply({"max_connections": 201})
    applied = plant.apply({"thread_handling": POOL, "thread_stack": STACK, "table_open_cache": 1000})
    assert run.handling() == "pool-of-threads"
    assert run.pid == plant.pid != first
    assert run.bed.values() == {**DEBIAN, "max_connections": 201, "table_open_cache": 1000}
    assert run.bed.sql("SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.thread_stack") == ((32 << 20, STACK),)
    assert any("the restart ended" in note for note in applied.notes)
    assert plant.configuration() == applied.configuration
    with contextlib.closing(run.attach()) as other:
        assert other.known_by == plant.known_by != "", "by which another run finds this one"
    for sensor in plant.sensors():
        sensor.begin()
    time.sleep(0.05)
    assert all(sensor.read() for sensor in plant.sensors())
    plant.restore()
    assert (run.handling(), run.bed.values()) == ("one-thread-per-connection", DEBIAN)
    assert run.bed.sql("SELECT @@GLOBAL.max_allowed_packet") == ((32 << 20,),)
    assert not run.snippet.exists()
    plant.close()


def test_a_run_that_was_killed_after_the_restart_is_undone_with_what_it_had_set_live(run: Run) -> None:
    first = run.attach()
    first.apply({"max_connections": 201, "thread_handling": POOL})
    script = first.undo_script()
    first.close()
    second = run.attach()
    assert second._mariadb.read_from_ours() == ["thread_handling"]
    assert {"max_connections", "thread_handling"} <= set(second.leftover().replace(",", "").split())
    second.undo_leftover()
    assert (run.handling(), run.bed.values()) == ("one-thread-per-connection", DEBIAN)
    assert not run.snippet.exists()
    assert second.leftover() == ""
    second.close()
    read = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    assert "systemctl restart mariadb.service" in script and f"rm -f {run.snippet}" in script


def test_what_the_configuration_would_not_read_is_refused_without_a_restart(run: Run) -> None:
    (run.bed.testbed.snippet_directory / "zzz-mine.cnf").write_text("[mariadbd]\nthread_stack = 262144\n")
    plant, before = run.attach(), run.pid
    with pytest.raises(ApplyRefused, match="not included last"):
        plant.apply({"thread_stack": STACK})
    assert not run.snippet.exists() and run.pid == before
    run.snippet.write_text("# mine\n")
    with pytest.raises(ApplyRefused, match="was not written by trimtab"):
        plant.apply({"thread_stack": STACK})
    assert run.snippet.read_text() == "# mine\n"
    plant.close()


def test_where_a_restart_would_empty_a_table_in_memory_no_run_that_restarts_begins(run: Run) -> None:
    run.bed.sql("CREATE DATABASE web", "CREATE TABLE web.sessions (id INT) ENGINE=MEMORY")
    run.bed.sql("INSERT INTO web.sessions VALUES (1)")
    plant, live = run.attach(), run.bed.attach()
    live.check_permissions()
    with pytest.raises(UsageError, match=r"table web\.sessions is in memory .*, and a restart would empty it"):
        plant.check_permissions()
    before = run.pid
    with pytest.raises(ApplyRefused, match=r"table web\.sessions is in memory"):
        plant.apply({"thread_stack": STACK})  # as where it was made while the run went on
    assert run.pid == before
    run.bed.sql("ALTER TABLE web.sessions ENGINE=InnoDB")
    plant.check_permissions()
    for one in (plant, live):
        one.close()


def test_the_restart_at_a_runs_end_or_in_an_undo_empties_no_table_in_memory_that_came_meanwhile(run: Run) -> None:
    plant = run.attach()
    plant.apply({"thread_stack": STACK, "max_connections": 201})
    before = run.pid
    run.bed.sql("CREATE DATABASE web", "CREATE TABLE web.sessions (id INT) ENGINE=MEMORY")
    run.bed.sql("INSERT INTO web.sessions VALUES (1)")
    with pytest.raises(ApplyLater, match=r"table web\.sessions is in memory .* would empty it"):
        plant.restore()
    plant.close()
    later = run.attach()
    with pytest.raises(ApplyLater, match=r"table web\.sessions is in memory"):
        later.undo_leftover()
    assert (run.pid, run.bed.values()) == (before, DEBIAN), "what takes no restart is as it was"
    run.bed.sql("ALTER TABLE web.sessions ENGINE=InnoDB")
    later.undo_leftover()
    assert run.bed.sql("SELECT COUNT(*), @@GLOBAL.thread_stack FROM web.sessions") == ((1, 299008),)
    assert run.pid != before and not run.snippet.exists()
    later.close()


def test_where_a_restart_would_let_clients_write_no_run_that_restarts_begins(run: Run) -> None:
    plant = run.attach()
    run.bed.sql("SET GLOBAL read_only = ON")
    with pytest.raises(UsageError, match=r"read_only was set while MariaDB ran, and a restart would let clients"):
        plant.check_permissions()
    run.bed.sql("SET GLOBAL read_only = OFF")
    plant.check_permissions()
    plant.close()


def test_a_backup_that_is_under_way_is_not_ended_by_a_restart(run: Run) -> None:
    mariadb, backup = run.attach(), run.bed.root()
    with backup, backup.cursor() as cursor:
        cursor.execute("BACKUP STAGE START")
        with pytest.raises(ApplyLater, match="a backup is under way, and would fail if thread_handling were changed"):
            mariadb.apply({"thread_handling": POOL})
    mariadb.close()
    assert run.pid == run.bed.testbed.pid and not run.snippet.exists()


def test_a_backup_without_locks_is_not_ended_by_a_restart_either(run: Run) -> None:
    mariadb = run.attach()
    with (run.bed.testbed.data / "ib_logfile0").open("rb") as log:
        copier = subprocess.Popen(["sleep", "600"], stdin=log)
    try:
        with pytest.raises(ApplyLater, match=f"thread_handling were changed: pid {copier.pid} has the redo log"):
            mariadb.apply({"thread_handling": POOL})
    finally:
        copier.kill()
        copier.wait()
    assert run.pid == run.bed.testbed.pid and not run.snippet.exists()
    mariadb.apply({"thread_handling": POOL})
    mariadb.restore()
    mariadb.close()


@pytest.mark.parametrize(
    ("more", "runs", "why"),
    [
        (("skip-slave-start",), True, "this replica has skip-slave-start"),
        ((), False, "replication is stopped here, and a restart would start it"),
        ((), True, ""),
        (("skip-slave-start",), False, ""),
    ],
)
def test_a_replica_that_a_restart_would_stop_or_start_is_not_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], runs: bool, why: str
) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    with private(journals, more=more) as bed, as_service(bed.testbed, tmp_path, monkeypatch) as (service, state):
        bed.sql(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='nobody'",
            *(["START SLAVE"] if runs else []),
        )
        plant = Run(bed, service, state).attach()
        with pytest.raises(UsageError, match=why) if why else contextlib.nullcontext():
            plant.check_permissions()
        plant.close()


def test_a_server_that_does_not_start_with_our_value_is_brought_back_without_it(run: Run) -> None:
    plant = run.attach()
    plant.apply({"max_connections": 201})
    run.state.with_name("state.broken").touch()
    with pytest.raises(ApplyFailed, match=r"mariadb\.service did not start"):
        plant.apply({"thread_stack": STACK})
    assert not run.snippet.exists()
    assert run.bed.values() == {**DEBIAN, "max_connections": 201}
    assert plant.configuration()["thread_stack"] == 299008
    plant.restore()
    assert run.bed.values() == DEBIAN
    plant.close()


def test_a_live_value_that_mariadb_clips_takes_back_the_restart_that_came_before_it(run: Run) -> None:
    run.bed.set({"max_allowed_packet": 32 << 20})
    plant = run.attach()
    plant.apply({"max_connections": 201})
    knob = plant._knobs["binlog_cache_size"]
    plant._knobs["binlog_cache_size"] = replace(knob, domain=replace(knob.domain, step=2048))
    with pytest.raises(ApplyFailed, match="binlog_cache_size is 61440 after it was set to 63488"):
        plant.apply({"thread_stack": STACK, "binlog_cache_size": 63488})
    assert run.bed.values() == {**DEBIAN, "max_connections": 201}
    assert run.bed.sql("SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.thread_stack") == ((32 << 20, 299008),)
    assert not run.snippet.exists()
    assert len(list(run.bed.journals.iterdir())) == 1
    assert plant.configuration()["max_connections"] == 201, "and nothing is taken for somebody else's"
    plant.restore()
    assert run.bed.values() == DEBIAN
    assert list(run.bed.journals.iterdir()) == []
    plant.close()


@pytest.mark.parametrize(
    ("step", "left"),
    [("set_again", {"thread_stack", "max_allowed_packet"}), ("set", {"thread_stack", "max_connections"})],
)
def test_a_kill_between_the_restart_and_the_live_values_is_undone_by_the_next_trimtab(
    run: Run, step: str, left: set[str]
) -> None:
    killed = textwrap.dedent(f"""
        import os, pathlib, signal
        from trimtab.clock import SystemClock
        from trimtab.plants.mariadb import plant, restart
        service = restart.Service("mariadb.service", {run.service.systemctl!r}, {run.service.options!r})
        restart.Service.of = lambda server: service
        restart.require_trusted = lambda path: None
        directory = pathlib.Path({str(run.bed.testbed.snippet_directory)!r})
        journals = pathlib.Path({str(run.bed.journals)!r})
        mariadb = plant.Mariadb.attach(SystemClock(), {run.pid}, None, False, journals, directory)
        mariadb.apply({{"max_connections": 201}})
        plant.Attached.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        mariadb.apply({{"thread_stack": {STACK}, "table_open_cache": 1000}})
    """)
    run.bed.set({"max_allowed_packet": 32 << 20})  # the operator's, which no file says
    first = run.pid
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -signal.SIGKILL
    assert run.pid != first
    assert run.bed.sql("SELECT @@GLOBAL.thread_stack, @@GLOBAL.table_open_cache") == ((STACK, 2000),)
    plant = run.attach()
    assert left <= set(plant.leftover().replace(",", "").split())
    plant.undo_leftover()
    assert run.bed.values() == DEBIAN
    assert run.bed.sql("SELECT @@GLOBAL.max_allowed_packet") == ((32 << 20,),)
    assert run.bed.sql("SELECT @@GLOBAL.thread_stack") == ((299008,),)
    assert not run.snippet.exists() and plant.leftover() == ""
    assert list(run.bed.journals.iterdir()) == []
    plant.close()


def test_a_kill_before_the_restart_to_a_second_value_is_undone_with_a_restart_from_the_first(run: Run) -> None:
    first = run.attach()
    first.apply({"thread_stack": STACK})
    first.close()
    text = run.snippet.read_text()
    run.snippet.write_text(_own_file.compose(f"[mariadbd]\nthread_stack = {STACK + 5120}\n", None))
    second, before = run.attach(), run.pid
    second.undo_leftover()
    assert run.bed.sql("SELECT @@GLOBAL.thread_stack") == ((299008,),)
    assert run.pid != before and not run.snippet.exists()
    run.snippet.write_text(text)
    second.undo_leftover()
    assert not run.snippet.exists() and run.pid == second.pid, "MariaDB has not read it, so it is not restarted"
    second.close()


def test_what_systemd_does_not_run_is_not_restarted(tmp_path: Path) -> None:
    with private(tmp_path) as bed, pytest.raises(UsageError, match="run by no service of systemd"):
        Mariadb.attach(SystemClock(), bed.testbed.pid, None, False, tmp_path, bed.testbed.snippet_directory)


def test_one_restart_is_enough_whatever_the_umask(run: Run) -> None:
    """Root's may be 027 or 077, and MariaDB passes over a file that its own user may not read."""
    plant, first = run.attach(), run.pid
    before = os.umask(0o077)
    try:
        plant.apply({"thread_stack": STACK})
    finally:
        os.umask(before)
    assert run.pid == plant.pid != first
    assert run.bed.sql("SELECT @@GLOBAL.thread_stack") == ((STACK,),)
    plant.restore()
    plant.close()
