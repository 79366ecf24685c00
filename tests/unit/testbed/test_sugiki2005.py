"""Server and clients of sugiki2005."""

from __future__ import annotations

import pytest

from trimtab.testbed import sugiki2005
from trimtab.workloads._distribution import Lognormal
from trimtab.workloads._population import Closed, Step
from trimtab.workloads._specweb99_files import Mix


@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_it_has_512_workers_and_15_s_whatever_the_mpm(mpm: str) -> None:
    spec = sugiki2005.server("prefork" if mpm == "prefork" else "event")
    assert spec.max_request_workers == spec.most_workers() == 512
    assert spec.keep_alive_timeout_ms == 15_000


def test_both_loads_ask_for_files_that_the_server_has() -> None:
    assert {load.directories for load in sugiki2005.LOADS.values()} == {sugiki2005.server().specweb99_directories}


def test_the_number_of_clients_changes_when_it_is_to() -> None:
    (one,) = sugiki2005.clients(Mix.STANDARD, 1200, ((60.0, 400), (80.0, 1600)))
    assert one.arrivals == Closed(1200)
    assert [(step.at_s, round(step.factor * 1200)) for step in one.schedule] == [(60.0, 400), (80.0, 1600)]


def test_one_load_begins_where_the_other_ends() -> None:
    first, second = sugiki2005.switch(800, 50.0)
    assert (first.class_name, second.class_name) == ("standard", "large")
    assert first.schedule == (Step(50.0, 0.0),)
    assert second.schedule == (Step(0.0, 0.0), Step(50.0, 1.0))
    assert isinstance(first.object_gap_s, Lognormal)
    assert isinstance(second.object_gap_s, Lognormal)
    assert second.object_gap_s.mean > 2 * first.object_gap_s.mean
