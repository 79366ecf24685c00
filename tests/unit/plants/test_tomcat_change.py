"""A change of a Tomcat and its journal, without a Tomcat: what was before is on disk before anything is set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from trimtab.clock import SystemClock
from trimtab.errors import ApplyFailed, PlantGone, UsageError
from trimtab.plants.tomcat.attached import Attached, Spot
from trimtab.plants.tomcat.change import Change
from trimtab.plants.tomcat.journal import Entry, Journal
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.plants.tomcat.response import derived
from trimtab.processes import start_of

A, B = ("a:type=bean", "one"), ("a:type=bean", "two")


class Server:
    """MBeans without a server; some do not take what they are told."""

    def __init__(self, journal: Journal) -> None:
        self.says: dict[Spot, int] = {A: 1, B: 2}
        self.refuses: set[tuple[Spot, int]] = set()
        self.journal = journal
        self.gone = False

    def set(self, spot: Spot, value: int) -> None:
        if self.gone:
            raise PlantGone("it has ended")
        assert value in {one.ours[-1] for one in self.journal.entries()} | {
            one.before for one in self.journal.entries()
        }, "it was not written down before"
        if (spot, value) in self.refuses:
            raise ApplyFailed(f"{spot[1]} {value} was not taken")
        self.says[spot] = value

    def values(self, spots: Sequence[Spot]) -> dict[Spot, int | None]:
        return {spot: self.says.get(spot) for spot in spots}

    def dial(self, spot: Spot) -> None:
        return None


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(of_this_process(), tmp_path / "journals")


@pytest.fixture
def server(journal: Journal) -> Server:
    return Server(journal)


def of_this_process() -> TomcatProcess:
    started = start_of(os.getpid())
    assert started is not None
    return TomcatProcess(os.getpid(), started, Path("/usr/bin/java"), (), os.geteuid())


def bring(server: Server, then: Mapping[Spot, int]) -> None:
    Change(cast(Attached, server), server.journal, SystemClock(), dict(server.says), then).bring()


def test_what_was_before_is_kept_through_several_changes_and_forgotten_when_it_is_back(server: Server) -> None:
    bring(server, {A: 10})
    bring(server, {A: 11, B: 20})
    assert server.journal.entries() == (Entry(*A, 1, (11,)), Entry(*B, 2, (20,)))
    bring(server, {A: 1})
    assert server.journal.entries() == (Entry(*B, 2, (20,)),)
    bring(server, {B: 2})
    assert server.journal.entries() == ()


def test_a_value_that_does_not_take_brings_back_those_before_it(server: Server) -> None:
    server.refuses.add((B, 20))
    with pytest.raises(ApplyFailed, match="two 20 was not taken"):
        bring(server, {A: 10, B: 20})
    assert server.says == {A: 1, B: 2}
    assert server.journal.entries() == ()


def test_what_cannot_be_put_back_is_said_and_stays_in_the_journal(server: Server) -> None:
    server.refuses |= {(B, 20), (A, 1)}
    with pytest.raises(ApplyFailed, match=r"two 20 .* one 1 .* 'trimtab runs undo' puts it back"):
        bring(server, {A: 10, B: 20})
    assert Entry(*A, 1, (1, 10)) in server.journal.entries()


def test_an_interrupt_brings_back_what_was_set_before_it(server: Server) -> None:
    take = server.set

    def interrupted(spot: Spot, value: int) -> None:
        take(spot, value)
        if (spot, value) == (B, 20):
            raise KeyboardInterrupt

    server.set = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        bring(server, {A: 10, B: 20})
    assert server.says == {A: 1, B: 2}
    assert server.journal.entries() == ()


def test_a_journal_that_cannot_be_settled_afterwards_does_not_make_a_change_fail_that_is_in_force(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(values: Mapping[Spot, int | None]) -> None:
        raise UsageError("cannot write the journal: No space left on device")

    monkeypatch.setattr(server.journal, "settled", full)
    change = Change(cast(Attached, server), server.journal, SystemClock(), dict(server.says), {A: 10})
    assert change.bring() == ("cannot write the journal: No space left on device",)
    assert server.journal.entries() == (Entry(*A, 1, (1, 10)),), "by which an undo still finds what it was"
    server.refuses.add((B, 20))
    with pytest.raises(ApplyFailed, match="two 20 was not taken"):
        bring(server, {B: 20})
    assert server.says == {A: 10, B: 2}


def test_a_server_that_ends_in_the_middle_is_gone(server: Server) -> None:
    server.gone = True
    with pytest.raises(PlantGone):
        bring(server, {A: 10})


def test_a_value_of_the_operators_is_what_an_undo_goes_back_to(server: Server) -> None:
    bring(server, {A: 10})
    server.says[A] = 5
    bring(server, {A: 12})
    assert server.journal.entries() == (Entry(*A, 5, (12,)),)


def test_nothing_is_set_where_it_cannot_be_written_down(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    server = Server(Journal(of_this_process(), tmp_path / "a file"))
    with pytest.raises(ApplyFailed, match="nothing was changed"):
        bring(server, {A: 10})
    assert server.says == {A: 1, B: 2}


def test_journals_of_processes_that_have_ended_are_taken_away(journal: Journal, tmp_path: Path) -> None:
    old = tmp_path / "journals" / f"{os.getpid()}-1.json"
    journal.check()
    old.write_text("{}")
    journal.check()
    assert not old.exists()


def test_a_journal_that_makes_no_sense_is_not_believed(journal: Journal, tmp_path: Path) -> None:
    journal.about_to({A: (1, 2)})
    (path,) = (tmp_path / "journals").iterdir()
    path.write_text('{"boot": 1}')
    with pytest.raises(UsageError, match="is not what trimtab wrote"):
        journal.entries()


def test_response_time_follows_from_what_is_under_way_and_is_absent_where_a_term_is() -> None:
    readings = {"request_rate_hz": 50.0, "requests_under_way": 12.0, "accept_queue_length": 3.0, "busy_workers": 5.0}
    assert derived(readings) == pytest.approx({"response_time_s": 0.3, "thread_wait_s": 0.14})
    assert derived({**readings, "busy_workers": 13.0})["thread_wait_s"] == 0
    assert derived({**readings, "request_rate_hz": 0.0}) == {}
    assert derived({"request_rate_hz": 50.0, "busy_workers": 5.0}) == {}
