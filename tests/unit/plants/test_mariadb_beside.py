"""A MariaDB beside others: a replica, a node of a cluster, one of several instances, one that systemd starts anew."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.plants.test_mariadb import variables
from tests.unit.plants.test_mariadb_change import CHANGE, MORE, STACK, Link, Service, World, attach, begun, fresh
from trimtab.errors import PlantGone, UsageError
from trimtab.plants.mariadb import restart
from trimtab.plants.mariadb.link import Rejected
from trimtab.plants.mariadb.variables import Variable
from trimtab.sensors.held_back import HeldBack

__all__ = ["fresh"]


def not_there(pid: int) -> Any:
    """There is no server."""
    raise UsageError(f"pid {pid} is not the first process of MariaDB")


def test_one_that_has_ended_and_was_not_started_again_is_said_to_have_ended(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, plant = begun(fresh, [])
    plant.apply(CHANGE)
    monkeypatch.setattr(Service, "main_pid", lambda self: 0)
    monkeypatch.setattr("trimtab.plants.mariadb.process.MariadbServer.find", not_there)
    world.started += 1
    with pytest.raises(PlantGone) as gone:
        plant.restore()
    assert str(gone.value) == "MariaDB has ended"


def test_one_that_its_unit_has_started_meanwhile_is_named_since_it_has_read_our_file(
    fresh: Callable[[], World],
) -> None:
    world, plant = begun(fresh, [])
    plant.apply(CHANGE)
    world.start()  # as systemd does after a crash
    with pytest.raises(PlantGone, match="started meanwhile, may have read it before that: 'systemctl restart"):
        plant.restore()
    assert not world.snippet.exists() and world.values()["thread_stack"] == MORE


@pytest.mark.parametrize("now", [0, 1])
def test_a_node_of_a_cluster_is_not_restarted_from_here(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    there = variables() | {"wsrep_on": Variable("wsrep_on", now, 0, 1, 1, False, ("OFF", "ON"))}
    monkeypatch.setattr("trimtab.plants.mariadb.variables.read", lambda link, names: there)
    refused = pytest.raises(UsageError, match="a node of a Galera cluster") if now else contextlib.nullcontext()
    with refused:
        attach(fresh())


@pytest.mark.parametrize(
    ("version", "old"),
    [("5.5.68-MariaDB", True), ("10.3.39-MariaDB", True), ("10.4.34-MariaDB", True)]
    + [(f"{one}-MariaDB", False) for one in ("10.5.29", "10.11.6", "11.4.5")],
)
def test_one_that_does_not_say_what_it_has_read_in_our_file_is_not_restarted(
    fresh: Callable[[], World], version: str, old: bool
) -> None:
    attached = begun(fresh, [])[1]._mariadb
    attached.version = version
    with pytest.raises(UsageError, match=r"from 10\.5 on") if old else contextlib.nullcontext():
        attached.require_restartable()


def test_how_far_replication_has_come_is_set_back_by_no_restart(fresh: Callable[[], World]) -> None:
    world, plant = begun(fresh, [])
    kept = {"gtid_slave_pos": 5, "wsrep_cluster_address": 1}
    world.live |= kept
    plant.apply(CHANGE)
    assert world.restarts == 1 and not kept.keys() & world.live.keys()
    assert world.live["max_allowed_packet"] == 32 << 20, "what else was set live is set again"


@pytest.mark.parametrize(
    ("started", "options", "suffix"),
    [
        ("argv[]=/usr/sbin/mariadbd $MYSQLD_OPTS ;", (), ""),
        ("argv[]=/usr/sbin/mariadbd --defaults-file=/etc/b.cnf ;", ("--defaults-file=/etc/b.cnf",), ""),
        ("Environment=M=--defaults-group-suffix=.b", ("--defaults-group-suffix=.b",), ".b"),
    ],
)
def test_one_of_several_instances_is_asked_what_it_would_read_itself_and_has_our_file_to_itself(
    monkeypatch: pytest.MonkeyPatch, started: str, options: tuple[str, ...], suffix: str
) -> None:
    said = {"MainPID": str(os.getpid()), "ExecStart": started}
    monkeypatch.setattr("trimtab.own.program", lambda name: "/bin/systemctl")
    monkeypatch.setattr(restart.Service, "_asked", lambda self, *words: said[words[1].partition("=")[2]])
    monkeypatch.setattr(restart, "_UNIT", SimpleNamespace(search=lambda text: ("", "mariadb@b.service")))
    server: Any = SimpleNamespace(pid=os.getpid())
    found = restart.Service.of(server)
    assert (found.unit, found.options) == ("mariadb@b.service", options)
    assert restart._suffix(found.options) == suffix


def test_what_one_instance_has_kept_is_its_own_where_another_reads_the_same_directory(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's next restart took its place, so that the first lost it with its own next one."""
    world = fresh()
    attach(world).apply(CHANGE)
    kept, text = world.snippet, world.snippet.read_text()
    world.read.clear()
    monkeypatch.setattr(Service, "options", ("--defaults-group-suffix=.b/1",))
    monkeypatch.setattr(World, "snippet", kept.with_name("zz-trimtab_b_1.cnf"))
    other = attach(world)
    assert "thread_stack" not in other.leftover()
    other.apply({"thread_stack": STACK})
    assert "[mariadbd.b/1]" in world.snippet.read_text() and kept.read_text() == text
    other.restore()
    assert not world.snippet.exists() and kept.read_text() == text


def test_the_time_of_a_restart_is_told_with_the_next_window(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, asked = attach(fresh()), list[int]()

    def main_pid(service: Service) -> int:
        asked.append(1)
        if len(asked) <= 5:  # it has not begun yet
            raise UsageError("systemctl does not answer")
        return os.getpid()

    monkeypatch.setattr(Service, "main_pid", main_pid)
    (held,) = (one for one in plant.sensors() if isinstance(one, HeldBack))
    plant.apply(CHANGE)
    held.begin()
    assert held.read()["held_s"] == pytest.approx(0.5)


SKIPS, STOPPED = "this replica has skip-slave-start", "replication is stopped here, and a restart would"


@pytest.mark.parametrize(
    ("threads", "files", "unit", "why"),
    [
        (("Yes", "Yes"), "--skip-slave-start", (), SKIPS),
        (("Connecting", "No"), "--skip_slave_start=1", (), SKIPS),
        (("Yes", "Yes"), "", ("--skip-slave-start",), SKIPS),
        (("Yes", "Yes"), "--skip-slave-start --skip-slave-start=0", (), ""),
        (("Yes", "Yes"), "--skip-slave-start", ("--skip-slave-start=OFF",), ""),
        (("Yes", "Yes"), "--skip-external-locking", (), ""),
        (("No", "No"), "", (), STOPPED),
        (("No", "No"), "--skip-slave-start", (), ""),
    ],
)
@pytest.mark.parametrize("log", ["relay-bin.000001", ""])
def test_no_run_that_restarts_begins_on_a_replica_that_would_stop_or_start_by_it(
    fresh: Callable[[], World],
    monkeypatch: pytest.MonkeyPatch,
    threads: tuple[str, str],
    files: str,
    unit: tuple[str, ...],
    why: str,
    log: str,
) -> None:
    """After RESET SLAVE there is no relay log, and a restart starts nothing: then it is a replica no more."""
    plant, usual = attach(fresh()), Link.ask

    def ask(link: Link, statement: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
        status = "SHOW ALL SLAVES STATUS" in statement
        return (("primary", *[""] * 8, log, "", "", *threads, ""),) if status else usual(link, statement, values)

    monkeypatch.setattr(Link, "ask", ask)
    monkeypatch.setattr(Service, "words", unit)
    monkeypatch.setattr(restart, "ask", lambda argv, environment: CompletedProcess(argv, 0, files, ""))
    with pytest.raises(UsageError, match=why) if why and log else contextlib.nullcontext():
        plant.check_permissions()


def test_a_replica_whose_threads_the_account_may_not_see_is_told_by_their_number(
    fresh: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, usual = attach(fresh()), Link.ask

    def ask(link: Link, statement: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
        if "SHOW ALL SLAVES STATUS" in statement:
            raise Rejected("Access denied; you need (at least one of) the REPLICA MONITOR privilege(s)")
        return (("Slaves_running", 1),) if "Slaves_running" in statement else usual(link, statement, values)

    monkeypatch.setattr(Link, "ask", ask)
    defaults = CompletedProcess((), 0, "--skip-slave-start", "")
    monkeypatch.setattr(restart, "ask", lambda argv, environment: defaults)
    with pytest.raises(UsageError, match=SKIPS):
        plant.check_permissions()
