"""What a Tomcat that does not answer, or was left in the middle of a run, is taken for; without a Tomcat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests._jvm import ENDPOINT, Bench, bench
from tests._memory_plant import FakeClock
from tests.unit.plants.test_tomcat_change import of_this_process
from trimtab.core import Prepared, take_back
from trimtab.core.memory import MIB, Need
from trimtab.errors import ApplyFailed, ApplyRefused, PlantGone
from trimtab.plants.tomcat.journal import Journal
from trimtab.plants.tomcat.plant import Tomcat

__all__ = ["bench"]


class Server:
    """What is attached to: a process, which is this test's, and values that it tells as long as it answers."""

    def __init__(self, directory: Path) -> None:
        self.process: Any = of_this_process()
        self.journal = Journal(self.process, directory)
        self.jmx = SimpleNamespace(close=lambda: None)
        self.listeners, self.dials, self.missing = (), (), ()
        self.now = {"threads": 200}
        self.answers = True

    def in_force(self) -> dict[str, int]:
        if not self.answers:
            raise PlantGone("Tomcat (pid 7) did not answer within 10 s")
        return dict(self.now)

    def revived(self) -> bool:
        return False

    def meant(self, values: Mapping[str, int], moved: object) -> dict[object, int]:
        return {}

    def keep(self, values: Mapping[str, int]) -> None:
        pass

    def values(self, spots: object) -> dict[object, int]:
        return {}

    def needs(self, values: Mapping[str, int]) -> tuple[Need, ...]:
        return (Need("threads", values["threads"] * MIB, "the machine", 100 * MIB),)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def changed(server: Any) -> Tomcat:
    """A Tomcat whose threads trimtab has set from 200 to 50."""
    plant = Tomcat(FakeClock(), server)
    plant._start = {"threads": 200}
    server.now = plant._known = {"threads": 50}
    return plant


def test_one_that_lives_and_does_not_answer_is_not_said_to_be_restored_and_is_once_it_answers(server: Server) -> None:
    plant = changed(server)
    server.answers = False
    with pytest.raises(ApplyFailed, match="did not answer within 10 s; what was set there is still in force"):
        plant.restore()
    server.answers, server.now = True, {"threads": 200}
    plant._known = {"threads": 200}
    plant.restore()
    assert plant._start == {}


def test_what_cannot_be_taken_back_from_one_that_does_not_answer_is_named(server: Server) -> None:
    plant = changed(server)
    server.answers = False
    (line,) = take_back([(plant, Prepared({"threads": 50}, {"threads": 200}))])
    assert line.startswith("tomcat could not be put back: ") and line.endswith("is still in force")


def test_with_one_that_has_ended_what_was_set_is_gone(server: Server) -> None:
    plant = changed(server)
    server.answers = False
    server.process = SimpleNamespace(check=lambda: (_ for _ in ()).throw(PlantGone("it has ended")))
    plant.restore()
    assert plant._start == {}
    assert take_back([(plant, Prepared({"threads": 50}, {"threads": 200}))]) == []


def test_what_was_in_force_before_a_killed_run_is_refused_by_no_rule_though_it_fits_no_memory(server: Server) -> None:
    server.now = {"threads": 50}
    plant = Tomcat(FakeClock(), server)  # type: ignore[arg-type]
    assert plant.objection({"threads": 200})
    plant.began_with({"threads": 200})
    assert plant.objection({"threads": 200}) == ""
    assert "more than 90%" in plant.objection({"threads": 201})


def test_what_had_room_before_a_trial_goes_back_also_where_there_are_more_connections_since(bench: Bench) -> None:
    plant = bench.attach()
    for mib in (0.5, 1.0):
        plant.apply({"read_buffer_bytes": int(mib * MIB)})
    bench.jvm.beans[ENDPOINT]["connectionCount"] = 1000
    with pytest.raises(ApplyRefused, match="the buffers of 1024 connections"):
        plant.apply({"read_buffer_bytes": 3 * MIB // 4})
    assert plant.apply({"read_buffer_bytes": MIB // 2}).configuration["read_buffer_bytes"] == MIB // 2
    with pytest.raises(ApplyRefused, match="the buffers of 1024 connections"):
        plant.apply({"read_buffer_bytes": MIB})
