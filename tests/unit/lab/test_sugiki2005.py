"""The runs of sugiki2005's parts, what they come to, and the summary of what they left in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from trimtab.core import Subject, Window
from trimtab.errors import UsageError
from trimtab.events import Outcome, Status
from trimtab.lab import Arm, Context
from trimtab.lab import sugiki2005 as lab
from trimtab.lab._engine import _plan, run_lab
from trimtab.lab._results import write_results
from trimtab.lab._sugiki2005_beds import SHIM_WARM_S, KeptAlive
from trimtab.lab._sugiki2005_points import Point, histogram, points, steady, table_of, verdicts
from trimtab.lab.sugiki2005 import AUTO, COUNTS, LAB, PARTS, SETTINGS, STAGES, arms
from trimtab.plants.keep_alive import KNOB
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.report.track import Track, tracks
from trimtab.store import Store
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx_config import NginxSpec

LISTED = [part for part in PARTS if part != "joint"]


def bed(arm: Arm) -> KeptAlive:
    assert isinstance(arm.bed, KeptAlive)
    return arm.bed


@pytest.mark.parametrize("part", ["standard", "large"])
def test_a_sweep_has_every_setting_and_both_controllers_for_every_number_of_clients(part: str) -> None:
    found = arms(part, 3)
    assert len(found) == len({(a.label, bed(a).users) for a in found})
    assert {bed(a).users for a in found} == set(COUNTS[part])
    for users in COUNTS[part]:
        labels = {a.label for a in found if bed(a).users == users}
        assert labels == {*(SETTINGS if users <= 1200 else lab.FEW), *AUTO}
    assert {(a.group, a.seed, bed(a).mix.value) for a in found} == {(part, 3, part)}
    assert {"off", "200 ms", "400 ms", "600 ms", "800 ms", "1 s", "2 s", "15 s"} == set(SETTINGS)


@pytest.mark.parametrize("part", LISTED)
def test_controllers_start_from_the_servers_own_15_s_and_only_fixed_times_are_set(part: str) -> None:
    for arm in arms(part, 1):
        assert bed(arm).spec().keep_alive_timeout_ms == (0 if arm.label == "off" else 15_000)
        assert bed(arm).time_ms == (15_000 if arm.label in AUTO else SETTINGS[arm.label])
        assert arm.controller == (arm.label if arm.label in AUTO else "static")


def test_the_other_servers_are_what_their_parts_say() -> None:
    assert {type(bed(a).spec()) for a in arms("nginx", 1)} == {NginxSpec}
    event = [bed(a).spec() for a in arms("event", 1)]
    assert all(isinstance(s, ApacheSpec) and s.mpm == "event" and s.max_request_workers == 512 for s in event)


@pytest.mark.parametrize("part", LISTED)
def test_what_is_judged_lies_at_the_end_of_a_controllers_run_and_within_every_run(part: str) -> None:
    for arm in arms(part, 1):
        stretches = arm.extras["steady"]
        assert all(0 <= since_s < until_s <= arm.duration_s for _, since_s, until_s in stretches)
        if arm.label in AUTO:
            assert stretches[-1][1:] == (arm.duration_s - lab.STEADY_S, arm.duration_s)
            assert all(since_s > 2 * lab.STEADY_S for _, since_s, _ in stretches), "it has had time to settle"


def test_a_switch_is_judged_before_and_after() -> None:
    moving = [a for a in arms("switch", 1) if bed(a).switch_s is not None]
    assert {a.label for a in moving} == set(AUTO)
    assert [load for load, _, _ in moving[0].extras["steady"]] == ["standard", "large"]
    assert bed(moving[0]).clients()[1].schedule[1].at_s == SHIM_WARM_S + lab.SWITCH_S


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown part"):
        run_lab(lab.LAB, ("nowhere",), Context(Store(None)))


def test_joint_moves_each_alone_in_turn_both_ways_and_together() -> None:
    assert {stages for stages in STAGES.values()} == {
        ((False, False),),
        ((True, False),),
        ((False, True),),
        ((True, False), (False, True)),
        ((False, True), (True, False)),
        ((True, True),),
    }


Readings = Mapping[str, float]


def stored(store: Store, arm: Arm, at: Callable[[float], Readings], time_ms: Callable[[float], int]) -> int:
    """Writes a run of an arm with made-up windows."""
    load = f"{'SURGE' if bed(arm).surge else 'load (a)'}, {bed(arm).users} clients"
    writer = store.begin(_plan(arm, (Subject("keep-alive"),), (KNOB,), facts={"workload": load}))
    count = round(arm.duration_s / arm.window_s)
    for index in range(count):
        start_s = index * arm.window_s
        configuration = {KEEP_ALIVE: time_ms(start_s)}
        writer.window(Window(index, start_s, arm.window_s, configuration, at(start_s), 100, ()))
    writer.finish(Outcome(Status.DONE, "", count, False))
    return writer.run_id


def one(part: str, label: str, users: int) -> Arm:
    """The arm with these."""
    (found,) = (a for a in arms(part, 1) if a.label == label and bed(a).users == users and not bed(a).surge)
    return found


def seen(rate_hz: float, waiting: float, **more: float) -> Readings:
    return {
        "client_request_rate_hz": rate_hz,
        "client_outstanding_requests": waiting,
        "client_response_time_s": 0.1,
        "client_byte_rate_bytes_hz": 15_000 * rate_hz,
        "client_error_rate_hz": 0.0,
        "idle_held_workers": 3.0,
        **more,
    }


def track(arm: Arm, at: Callable[[float], Readings], time_ms: Callable[[float], int]) -> Track:
    store = Store(None)
    return tracks(store, [stored(store, arm, at, time_ms)])[0]


def test_a_run_with_a_controller_is_judged_by_its_end_alone() -> None:
    arm = one("standard", "keep-alive", 1200)
    run = track(arm, lambda t: seen(1000 if t >= 54 else 1, 200), lambda t: 450 if t >= 54 else 15_000)
    (point,) = points([run])
    assert (point.load, point.clients, point.label, point.seed) == ("standard", 1200, "keep-alive", 1)
    assert (point.requests_hz, point.mbytes_hz, point.response_s) == pytest.approx((1000.0, 15.0, 0.2))
    assert (point.reply_s, point.errors_hz, point.keep_alive_s) == pytest.approx((0.1, 0.0, 0.45))
    (stretch,) = steady(run)
    assert len(stretch[1]) == 27, "sixteen seconds of 0.6 s each, by their middles"


def test_those_who_still_wait_count_in_the_response_time() -> None:
    starved = track(one("standard", "15 s", 1200), lambda t: seen(700, 735), lambda t: 15_000)
    (point,) = points([starved])
    assert point.response_s == pytest.approx(1.05)
    assert point.reply_s == pytest.approx(0.1)


def test_a_run_without_a_reply_is_no_point() -> None:
    dead = track(one("standard", "15 s", 1200), lambda t: {"client_outstanding_requests": 9.0}, lambda t: 1)
    assert points([dead]) == []


def point(label: str, rate_hz: float, response_s: float, clients: int = 1200, load: str = "standard") -> Point:
    return Point(load, clients, label, 1, rate_hz, rate_hz / 100, response_s, response_s, 0.0, 0.45)


def test_a_controller_is_held_against_the_best_of_throughput_and_of_time_by_themselves() -> None:
    found = [point("400 ms", 100, 0.20), point("600 ms", 98, 0.19), point("keep-alive", 96, 0.199)]
    (best,) = verdicts(table_of(found, "standard"))
    assert (best.clients, best.label, best.best) == (1200, "keep-alive", ("400 ms", "600 ms"))
    assert [best.throughput_ratio, best.response_ratio] == pytest.approx([0.96, 0.199 / 0.19])
    assert best.reached
    slower = replace(found[2], requests_hz=94.0)
    assert not verdicts(table_of([*found[:2], slower], "standard"))[0].reached
    later = replace(found[2], response_s=0.2)
    assert not verdicts(table_of([*found[:2], later], "standard"))[0].reached


def test_repeats_are_taken_together_and_other_numbers_of_clients_and_loads_apart() -> None:
    found = [
        *(point("400 ms", rate, 0.2) for rate in (90, 110)),
        point("keep-alive", 100, 0.2),
        point("400 ms", 500, 0.1, clients=1600),
        point("400 ms", 900, 0.1, load="large"),
    ]
    rows = table_of(found, "standard")
    assert list(rows) == [1200, 1600]
    assert [v.throughput_ratio for v in verdicts(rows)] == [pytest.approx(1.0)]


def test_bins_add_up_over_windows_and_other_readings_do_not_count() -> None:
    windows = [
        Window(k, 0.0, 1.0, {}, {"intervals_50ms@5": 2.0, "intervals@5": 9.0, "intervals_50ms@7": 1.0}, None, ())
        for k in range(2)
    ]
    assert histogram(windows) == {5: 4.0, 7: 2.0}


def whole_store(store: Store) -> list[int]:
    """A few runs of every listed part."""
    bins = {"intervals_50ms@5": 60.0, "intervals_50ms@6": 40.0, "intervals_50ms@7": 20.0, "intervals_50ms@8": 10.0}
    made = []
    for part in LISTED:
        for arm in arms(part, 1):
            if part in ("standard", "large") and (bed(arm).users != 1200 and arm.label != "15 s"):
                continue
            made.append(
                stored(store, arm, lambda t: seen(1000, 150, **bins), lambda t: max(450, round(15_000 * 0.9**t)))
            )
    return made


def test_the_summary_has_every_part_with_the_papers_values_beside_ours(tmp_path: Path) -> None:
    store = Store(None)
    write_results(LAB, tmp_path, store, whole_store(store))
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| 400 ms | 15 | 18.79 | 150 ms | 881 ms |" in text
    assert "fall below 5 % at 450 ms (paper's controller: 450 ms)" in text
    assert text.count("| reached |") == text.count("| keep-alive-cost | ") + text.count("| keep-alive | ")
    for heading in ("Load (a), standard", "Load (b), large", "on event", "on nginx", "in mid-run", "(Fig. 2)"):
        assert heading in text
    drawn = sorted(p.name for p in tmp_path.glob("*.svg"))
    expected = {f"fig{n}.svg" for n in (2, 7, 8, 9, 10, 11, 12, 13)}
    assert expected | {"fig2-load-a.svg", "learned-large.svg", "switch.svg", "event.svg", "nginx.svg"} == set(drawn)
    for name in drawn:
        ElementTree.parse(tmp_path / name)


def test_a_run_keeps_its_stretches_as_they_are_declared() -> None:
    store, arm = Store(None), one("large", "keep-alive-cost", 800)
    plan = store.run(stored(store, arm, lambda t: seen(10, 1), lambda t: 450)).plan
    assert plan.extras == {"clients": 800, "steady": [["large", 54.0, 70.0]]}
    assert json.dumps(dict(plan.host)), "and nothing of it among the facts of the machine"
    assert "extras" not in plan.host
