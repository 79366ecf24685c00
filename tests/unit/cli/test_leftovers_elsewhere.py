"""What a killed run left where this command does not look: in knobs that it leaves out, or on another server."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests._memory_plant import MemoryPlant
from tests.unit.cli.conftest import Trimtab
from tests.unit.cli.test_leftovers import TUNE, Server, killed_in_a_trial, server
from trimtab.store import Store

__all__ = ["server"]


def test_where_a_killed_run_has_moved_what_this_command_leaves_out_nothing_begins(
    trimtab: Trimtab, server: Server
) -> None:
    """As without --allow-restart or --allow-less-durable: the trial stayed, and its run counted as past."""
    killed_in_a_trial(trimtab, server)
    pool = ("tune", "memory", "--choice", "--duration", "20s", "--controller", "static")
    said = trimtab(*pool)
    why = "it has moved workers too: give this one the options of that, or 'trimtab runs undo 1' undoes it"
    line = f"trimtab: run 1 was killed, and what it left in force cannot be undone: {why}\n"
    assert (said.code, said.out, said.err) == (2, "", line)
    assert trimtab("runs", "undo", 1).code == 0
    assert (server.values["workers"], trimtab(*pool).code) == (10, 0)


def test_what_is_undone_whatever_options_are_given_keeps_nothing_from_beginning(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel's journals are."""
    killed_in_a_trial(trimtab, server)
    monkeypatch.setattr(MemoryPlant, "undoes_all", True)
    assert trimtab("tune", "memory", "--choice", "--duration", "20s", "--controller", "static").code == 0


def test_what_only_lived_in_a_process_that_has_ended_keeps_nothing_from_beginning(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryPlant, "pid", 7)
    killed_in_a_trial(trimtab, server)
    monkeypatch.setattr(MemoryPlant, "pid", 8)
    monkeypatch.setattr("trimtab.cli._leftovers.start_of", lambda pid: None)
    assert trimtab("tune", "memory", "--choice", "--duration", "20s", "--controller", "static").code == 0


def test_a_run_that_goes_on_on_another_server_is_not_meant_though_the_time_was_set_on(
    trimtab: Trimtab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the machine's time the other server was started after that run, which so might have been this one's."""
    monkeypatch.setattr(MemoryPlant, "pid", 7)
    assert trimtab(*TUNE).code == 0
    server.looks(1, "running")
    started = Store(server.store).run(1).process.start_ticks - 100
    monkeypatch.setattr(MemoryPlant, "pid", 8)
    monkeypatch.setattr("trimtab.cli._leftovers.start_of", lambda pid: started if pid == 7 else None)
    later = SimpleNamespace(time=lambda: time.time() + 7200)
    monkeypatch.setattr("trimtab.cli._leftovers.time", later)
    assert trimtab(*TUNE).code == 0
