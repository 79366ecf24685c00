"""The runs of sugiki2005's parts, what they come to, and the summary of what they left in the store."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from trimtab.core import Objective, Subject, Window
from trimtab.errors import UsageError
from trimtab.events import Outcome, Status
from trimtab.lab import Context
from trimtab.lab import _sugiki2005_scenes as scenes
from trimtab.lab._sugiki2005_joint import STAGES
from trimtab.lab._sugiki2005_points import Point, histogram, points, steady, table, verdicts
from trimtab.lab._sugiki2005_scenes import AUTO, COUNTS, SETTINGS, Case
from trimtab.lab._sugiki2005_summary import write
from trimtab.lab.sugiki2005 import LAB, PARTS, cases
from trimtab.plants._names import KEEP_ALIVE
from trimtab.plants.keep_alive import KNOB
from trimtab.records import Plan
from trimtab.report.track import Track, tracks
from trimtab.settings import Settings
from trimtab.store import Store
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.workloads._specweb99_files import Mix

LISTED = [part for part in PARTS if part != "joint"]


@pytest.mark.parametrize("part", ["standard", "large"])
def test_a_sweep_has_every_setting_and_both_controllers_for_every_number_of_clients(part: str) -> None:
    found = cases(part, 3)
    assert len(found) == len({(c.label, c.users) for c in found})
    assert {c.users for c in found} == set(COUNTS[Mix(part)])
    for users in COUNTS[Mix(part)]:
        labels = {c.label for c in found if c.users == users}
        assert labels == {*(SETTINGS if users <= 1200 else scenes.FEW), *AUTO}
    assert {(c.part, c.seed, c.mix.value) for c in found} == {(part, 3, part)}
    assert {"off", "200 ms", "400 ms", "600 ms", "800 ms", "1 s", "2 s", "15 s"} == set(SETTINGS)


@pytest.mark.parametrize("part", LISTED)
def test_controllers_start_from_the_servers_own_15_s_and_only_fixed_times_are_set(part: str) -> None:
    for case in cases(part, 1):
        spec = case.spec()
        assert spec.keep_alive_timeout_ms == (0 if case.label == "off" else 15_000)
        expected = None if case.label in (*AUTO, "off", "15 s") else SETTINGS[case.label]
        assert case.time_ms == expected
        assert case.method == (case.label if case.label in AUTO else "static")


def test_the_other_servers_are_what_their_parts_say() -> None:
    assert {type(c.spec()) for c in cases("nginx", 1)} == {NginxSpec}
    event = [c.spec() for c in cases("event", 1)]
    assert all(isinstance(s, ApacheSpec) and s.mpm == "event" and s.max_request_workers == 512 for s in event)


@pytest.mark.parametrize("part", LISTED)
def test_what_is_judged_lies_at_the_end_of_a_controllers_run_and_within_every_run(part: str) -> None:
    for case in cases(part, 1):
        stretches = case.steady()
        assert all(0 <= since_s < until_s <= case.duration_s for _, since_s, until_s in stretches)
        if case.label in AUTO:
            assert stretches[-1][1:] == (case.duration_s - scenes.STEADY_S, case.duration_s)
            assert all(since_s > 2 * scenes.STEADY_S for _, since_s, _ in stretches), "it has had time to settle"


def test_a_switch_is_judged_before_and_after_and_its_load_outlasts_it() -> None:
    moving = [c for c in cases("switch", 1) if c.switches]
    assert {c.label for c in moving} == set(AUTO)
    assert [load for load, _, _ in moving[0].steady()] == ["standard", "large"]
    assert moving[0].clients()[1].schedule[1].at_s == scenes.WARM_S + scenes.SWITCH_S
    assert moving[0].load_s() > scenes.WARM_S + moving[0].duration_s


def test_no_part_and_a_report_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="joint"):
        cases("joint", 1)
    with pytest.raises(UsageError, match="unknown part"):
        LAB.run(("nowhere",), Context(Store(None)))
    with pytest.raises(UsageError, match="no report"):
        LAB.run(("production",), Context(Store(None), report=tmp_path / "r.html"))


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


def stored(store: Store, case: Case, at: Callable[[float], Readings], time_ms: Callable[[float], int]) -> int:
    """Writes a run of a case with made-up windows."""
    settings = Settings(case.window_s, case.duration_s, Objective("client_response_time_s"), seed=case.seed)
    host = {"kernel": "Linux 6.1", **case.facts()}
    workload = host.pop("workload")
    subjects, extras, named = (Subject("keep-alive"),), {"steady": case.steady()}, (case.label, case.part)
    plan = Plan((), "", subjects, (KNOB,), case.method, {}, settings, {}, host, *named, workload, extras)
    writer = store.begin(plan)
    count = round(case.duration_s / case.window_s)
    for index in range(count):
        start_s = index * case.window_s
        configuration = {KEEP_ALIVE: time_ms(start_s)}
        writer.window(Window(index, start_s, case.window_s, configuration, at(start_s), 100, ()))
    writer.finish(Outcome(Status.DONE, "", count, False))
    return writer.run_id


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


def track(case: Case, at: Callable[[float], Readings], time_ms: Callable[[float], int]) -> Track:
    store = Store(None)
    return tracks(store, [stored(store, case, at, time_ms)])[0]


def test_a_run_with_a_controller_is_judged_by_its_end_alone() -> None:
    case = Case("standard", "keep-alive", 1, 1200, duration_s=50.0)
    one = track(case, lambda t: seen(1000 if t >= 34 else 1, 200), lambda t: 450 if t >= 34 else 15_000)
    (point,) = points([one])
    assert (point.load, point.clients, point.label, point.seed) == ("standard", 1200, "keep-alive", 1)
    assert (point.requests_hz, point.mbytes_hz, point.response_s) == pytest.approx((1000.0, 15.0, 0.2))
    assert (point.reply_s, point.errors_hz, point.keep_alive_s) == pytest.approx((0.1, 0.0, 0.45))
    (stretch,) = steady(one)
    assert len(stretch[1]) == 26, "sixteen seconds of 0.6 s each, by their middles"


def test_those_who_still_wait_count_in_the_response_time() -> None:
    starved = track(Case("standard", "15 s", 1, 1200), lambda t: seen(700, 735), lambda t: 15_000)
    (point,) = points([starved])
    assert point.response_s == pytest.approx(1.05)
    assert point.reply_s == pytest.approx(0.1)


def test_a_run_without_a_reply_is_no_point() -> None:
    dead = track(Case("standard", "15 s", 1, 1200), lambda t: {"client_outstanding_requests": 9.0}, lambda t: 1)
    assert points([dead]) == []


def point(label: str, rate_hz: float, response_s: float, clients: int = 1200, load: str = "standard") -> Point:
    return Point(load, clients, label, 1, rate_hz, rate_hz / 100, response_s, response_s, 0.0, 0.45)


def test_a_controller_is_held_against_the_best_of_throughput_and_of_time_by_themselves() -> None:
    found = [point("400 ms", 100, 0.20), point("600 ms", 98, 0.19), point("keep-alive", 96, 0.199)]
    (one,) = verdicts(table(found, "standard"))
    assert (one.clients, one.label, one.best) == (1200, "keep-alive", ("400 ms", "600 ms"))
    assert [one.throughput_ratio, one.response_ratio] == pytest.approx([0.96, 0.199 / 0.19])
    assert one.reached
    slower = replace(found[2], requests_hz=94.0)
    assert not verdicts(table([*found[:2], slower], "standard"))[0].reached
    later = replace(found[2], response_s=0.2)
    assert not verdicts(table([*found[:2], later], "standard"))[0].reached


def test_repeats_are_taken_together_and_other_numbers_of_clients_and_loads_apart() -> None:
    found = [
        *(point("400 ms", rate, 0.2) for rate in (90, 110)),
        point("keep-alive", 100, 0.2),
        point("400 ms", 500, 0.1, clients=1600),
        point("400 ms", 900, 0.1, load="large"),
    ]
    rows = table(found, "standard")
    assert list(rows) == [1200, 1600]
    assert [one.throughput_ratio for one in verdicts(rows)] == [pytest.approx(1.0)]


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
        for case in cases(part, 1):
            if part in ("standard", "large") and (case.users != 1200 and case.label != "15 s"):
                continue
            made.append(
                stored(store, case, lambda t: seen(1000, 150, **bins), lambda t: max(450, round(15_000 * 0.9**t)))
            )
    return made


def test_the_summary_has_every_part_with_the_papers_values_beside_ours(tmp_path: Path) -> None:
    store = Store(None)
    write(tmp_path, store, whole_store(store))
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


def test_histograms_are_kept_apart_from_the_windows(tmp_path: Path) -> None:
    store = Store(None)
    case = Case("production", "15 s", 1, 400)
    run = stored(store, case, lambda t: seen(10, 1, **{"intervals_50ms@5": 2.0}), lambda t: 15_000)
    write(tmp_path, store, [run])
    with (tmp_path / "windows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert not any("@" in name for name in rows[0])
    assert {row["keep_alive_ms"] for row in rows} == {"15000"}
    with (tmp_path / "histograms.csv").open(newline="", encoding="utf-8") as file:
        (one,) = csv.DictReader(file)
    assert (one["histogram"], one["bin"], one["count"]) == ("intervals_50ms", "5", "6")


def test_the_facts_of_a_run_name_its_stretches() -> None:
    case = Case("large", "keep-alive-cost", 1, 800, Mix.LARGE, duration_s=50.0)
    assert case.steady() == (("large", 34.0, 50.0),)
    assert case.facts()["workload"] == "load (b), 800 clients"
