"""Every workload there is, found by discovery, through one kit."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import StrEnum
from typing import Any

import pytest

from tests._scripted_server import ScriptedServer
from trimtab import discovery
from trimtab.clock import SystemClock
from trimtab.load import LoadRun
from trimtab.options import options_of
from trimtab.workloads._distribution import BoundedPareto, Constant, Gaussian
from trimtab.workloads._population import Closed, Poisson, Population, Url

ROOM = "trimtab.workloads"
NAMES = discovery.names(ROOM)
PAGES, SESSIONS, RATE_HZ = 1500, 400, 100.0


def kind(name: str) -> Any:
    return discovery.load(ROOM, name).WORKLOAD


def test_there_are_workloads() -> None:
    assert {"wagon", "surge", "closed-loop", "open-arrivals"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_frozen_record_that_says_what_it_is(name: str) -> None:
    assert kind(name).__dataclass_params__.frozen
    assert discovery.load(ROOM, name).__doc__
    assert kind(name).__doc__
    assert kind(name).populations.__doc__


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_documented_and_has_a_default(name: str) -> None:
    for option in options_of(kind(name)):
        assert option.help, f"{name}: {option.name} is missing in the Args of the docstring"
        assert option.switch or option.default is not None or option.name == "source"


def test_one_flag_means_one_field_and_one_type_in_every_workload() -> None:
    meanings: dict[str, set[tuple[str, type, bool]]] = {}
    for name in NAMES:
        for option in options_of(kind(name)):
            # A choice among names is one type, whichever names a workload has: each reads its own.
            of = StrEnum if isinstance(option.default, StrEnum) else type(option.default)
            meaning = (option.name, of, option.repeated)
            meanings.setdefault(option.flag, set()).add(meaning)
    assert {flag: found for flag, found in meanings.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_options_give_the_same_traffic_as_valid_json(name: str) -> None:
    first, second = (json.dumps([p.to_wire() for p in kind(name)().populations()], allow_nan=False) for _ in range(2))
    assert first == second
    assert json.loads(first)


def expected_burst(population: Population) -> float:
    """Mean requests per page after rounding and raising to 1."""
    burst = population.burst_requests
    if isinstance(burst, BoundedPareto):
        edges = (n + 0.5 - burst.offset for n in range(1, int(burst.most + burst.offset) + 1))
        cut_off = math.pow(burst.scale / burst.most, burst.shape)
        above = (math.pow(burst.scale / max(burst.scale, edge), burst.shape) for edge in edges if edge < burst.most)
        return 1 + sum((survival - cut_off) / (1 - cut_off) for survival in above)
    if isinstance(burst, Constant):
        return max(1.0, round(burst.value))
    assert isinstance(burst, Gaussian)

    def below(x: float) -> float:
        return 0.5 * (1 + math.erf((x - burst.mean) / burst.sigma / math.sqrt(2)))

    most = int(burst.mean + 8 * burst.sigma)
    return below(1.5) + sum(n * (below(n + 0.5) - below(n - 0.5)) for n in range(2, most))


def brief(population: Population) -> Population:
    """One that shows its means soon, and with few pages under way at its end.

    What the workload says of a session is left as it is, except that users who never end are few and do not pause.
    """
    if isinstance(population.arrivals, Closed):
        few = Closed(min(population.arrivals.users, 20))
        return dataclasses.replace(
            population, arrivals=few, object_gap_s=Constant(0.0), think_s=Constant(0.001), round_trip_s=0.0
        )
    return dataclasses.replace(population, arrivals=Poisson(RATE_HZ))


def walks(name: str) -> bool:
    return any(population.graph for population in kind(name)().populations())


@pytest.mark.server
# What walks a graph needs a site that has its pages: tests/servers/test_load_tpcw.py.
@pytest.mark.parametrize("name", [name for name in NAMES if not walks(name)])
def test_the_generator_accepts_it_and_sends_its_means(name: str) -> None:
    quick = [brief(population) for population in kind(name)(urls=(Url("/ok"),)).populations()]
    length_s = 600.0 if any(isinstance(one.arrivals, Closed) for one in quick) else SESSIONS / RATE_HZ
    with ScriptedServer() as server, LoadRun(server.target, quick, length_s, SystemClock(), seed=3) as run:
        pages = 0
        for interval in run.follow():
            pages += sum(one.pages for one in interval.classes)
            if length_s == 600.0 and pages >= PAGES * len(quick):
                break
        summary = run.stop()
        seen = server.seen()
    assert sum(one.requests for one in summary.classes) <= sum(seen["requests"].values())
    for population, one in zip(quick, summary.classes, strict=True):
        assert one.errors == {}
        assert one.class_name == population.class_name
        # Some pages are under way at its end, each with a request that is due: many on a busy machine.
        assert one.requests > 0.9 * expected_burst(population) * one.pages
        assert one.requests < 1.1 * expected_burst(population) * (one.pages + one.outstanding)
        started = population.arrivals.users if isinstance(population.arrivals, Closed) else SESSIONS
        assert one.sessions == pytest.approx(started, rel=0.15)
