"""The page of runs that move a keep-alive time: what was learned, and the intervals that it was learned from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.report.test_page import check, pictures
from trimtab.controllers._intervals import EDGES_S
from trimtab.core import Applied, Move, Objective, Subject, Window
from trimtab.core.trial import MoveState
from trimtab.plants.keep_alive import KNOB
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.records import Plan
from trimtab.report.figures.intervals import intervals, shown_s, spread, summed
from trimtab.report.page import render
from trimtab.report.track import tracks
from trimtab.settings import Settings
from trimtab.store import Store

TIMES = (15_000, 15_000, 3750, 940, 450, 450, 450, 450)


def write(store: Store, label: str, **more: float) -> int:
    """A run that comes down from 15 s, with 40 intervals of 0.25 s to 0.3 s in each window."""
    settings = Settings(2.0, math.inf, Objective("idle_held_workers"))
    plan = Plan(
        (), "", (Subject("keep-alive"),), (KNOB,), "keep-alive", {}, settings, {KEEP_ALIVE: 15_000}, label=label
    )
    writer = store.begin(plan)
    for index, time_ms in enumerate(TIMES):
        readings = {"idle_connections": time_ms / 100, "idle_held_workers": time_ms / 100, **more}
        writer.window(Window(index, 3.0 * index, 2.0, {KEEP_ALIVE: time_ms}, readings))
        following = TIMES[min(index + 1, len(TIMES) - 1)]
        if following != time_ms:
            move = Move({KEEP_ALIVE: following}, "bursts end before")
            writer.outcome(
                writer.move(index, move, move, MoveState.OPEN),
                MoveState.APPLIED,
                "",
                Applied({KEEP_ALIVE: following}),
            )
    return writer.run_id


SEEN = {"intervals_50ms@5": 40.0, "intervals_50ms@12": 1.0, "intervals_ended@240": 9.0, "intervals_left@240": 2.0}


def test_the_page_shows_the_learned_time_and_the_intervals(store: Store) -> None:
    text = render(store, [write(store, "auto", **SEEN), write(store, "fixed", **SEEN)])
    check(text)
    assert len(pictures(text)) == 3
    for part in (
        "keep-alive time, 450 ms",
        "What idle connections hold",
        "intervals in 50 ms",
        "ended: longer than this",
        "one idle period in 32",
        "time average of workers that wait for an idle connection",
    ):
        assert part in text
    assert "accept queue, AQT" not in text


def test_a_run_that_saw_no_interval_has_no_figure_of_them(store: Store) -> None:
    text = render(store, [write(store, "auto")])
    check(text)
    assert len(pictures(text)) == 2
    assert "Request intervals" not in text


def test_the_intervals_are_those_of_the_second_half(store: Store) -> None:
    (track,) = tracks(store, [write(store, "auto", **SEEN)])
    assert summed(track.windows[4:], "intervals_50ms", 1024) == {5: 160, 12: 4}
    other = tuple(replace(w, readings={"intervals_50ms@9": 999.0}) for w in track.windows[:4])
    assert intervals([replace(track, windows=(*other, *track.windows[4:]))]) == intervals([track])
    assert intervals([replace(track, windows=(*track.windows[4:], *other))]) != intervals([track])


def test_logarithmic_bins_are_spread_over_those_of_50_ms_without_a_loss() -> None:
    wide = next(i for i, edge in enumerate(EDGES_S) if edge > 2.0)
    narrow = next(i for i, edge in enumerate(EDGES_S) if edge > 0.01)
    found = spread({wide: 80, narrow: 3})
    assert sum(found.values()) == pytest.approx(83)
    assert found[0] == pytest.approx(3)
    covered = sorted(set(found) - {0})
    assert covered[0] == int(EDGES_S[wide] / 0.05) and covered[-1] == int(EDGES_S[wide + 1] / 0.05)
    assert found[covered[1]] == pytest.approx(80 * 0.05 / (EDGES_S[wide + 1] - EDGES_S[wide]))


def test_the_axis_reaches_the_time_and_nearly_all_intervals() -> None:
    assert shown_s({5: 1000}, 0.2) == 1.0
    assert shown_s({5: 1000}, 0.8) == 1.6
    assert shown_s({5: 1000}, 15.0) == 16.0
    assert shown_s({5: 1000, 40: 500, 900: 1}, 0.2) == pytest.approx(2.05)
    assert shown_s({}, 0.1) == 1.0
