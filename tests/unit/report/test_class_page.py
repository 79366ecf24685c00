"""The page of runs that guarantee delays to classes of clients."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests._class_runs import write_guarantee
from tests._stored_runs import always, whole, write_run
from tests.unit.report.test_page import check, pictures
from trimtab.cli._progress import rows_of
from trimtab.core.trial import MoveState
from trimtab.report import class_verdict
from trimtab.report.figures._classes import promised
from trimtab.report.figures.delays import delays
from trimtab.report.page import render
from trimtab.report.track import tracks
from trimtab.store import Store

A, B = "connection_delay_s@a", "connection_delay_s@b"


def rows(text: str) -> list[list[str]]:
    """The table of classes."""
    table = text.partition("<h2>Class by class</h2>")[2].partition("</table>")[0]
    return [re.findall(r"<td>(.*?)</td>", line) for line in table.splitlines() if "<td>" in line]


def test_a_kept_relative_guarantee_says_so_and_shows_every_class(store: Store) -> None:
    text = render(store, [write_guarantee(store, "relative", windows=30)])
    check(text)
    assert "Relative delay guarantee: kept" in text
    first, second = rows(text)
    assert (first[1], first[2], second[1], second[2]) == ("a", "the reference", "b", "3 x a")
    assert 90 <= int(second[4].split("%")[0]) <= 110
    assert second[6] == "0 of 15"
    assert "desired ± 10%" in text and "b : a" in text
    assert len(pictures(text)) == 2


def test_the_open_loop_stands_beside_the_closed_one(store: Store) -> None:
    ids = [write_guarantee(store, "relative", closed=closed, windows=30) for closed in (False, True)]
    text = render(store, ids)
    check(text)
    assert "Relative delay guarantee: static not kept for b; relative-delay kept" in text
    assert len(rows(text)) == 4


def test_what_could_not_be_met_is_counted_and_its_reason_is_there(store: Store) -> None:
    text = render(store, [write_guarantee(store, "absolute", windows=30, users=(80, 90))])
    check(text)
    assert "Absolute delay guarantee: not kept for b" in text
    assert int(rows(text)[1][6].split()[0]) > 10
    assert rows(text)[0][6] == "0 of 15"
    assert "red ground" in text
    assert re.search(r"b cannot be met with 32 processes.*about \d+ would meet all", text)


@pytest.mark.usefixtures("undrawn")
def test_only_what_was_changed_is_counted_and_a_wait_for_processes_is_told_once(store: Store) -> None:
    run = write_guarantee(store, "absolute", windows=12, users=(200, 90))
    text = render(store, [run])
    (made,) = re.findall(r"absolute-delay, (\d+) changes?<", text)
    assert int(made) == sum(move.state is MoveState.APPLIED for move in store.moves(run))
    assert text.count("<td>held</td>") <= 1 < sum(move.move.phase == "saturated" for move in store.moves(run))


@pytest.mark.usefixtures("undrawn")
def test_the_means_name_the_class(store: Store) -> None:
    text = render(store, [write_guarantee(store, "relative")])
    assert "time average of connections queued in the gate, a" in text


def test_a_class_that_nobody_belongs_to_is_shown_as_none(store: Store) -> None:
    text = render(store, [write_guarantee(store, "relative", windows=4, users=(60, 0))])
    check(text)
    assert rows(text)[1][3:6] == ["none", "-", "-"]
    assert "nothing can be said" in text


def test_a_percentile_is_not_shown_as_a_mean(store: Store) -> None:
    (track,) = tracks(store, [write_guarantee(store, "relative")])
    p95 = "connection_delay_p95_s@a"
    seen = tuple(replace(w, readings={**w.readings, p95: w.readings[A]}) for w in track.windows)
    guarantee = replace(promised([track]), delays=(p95, B))
    first, second = class_verdict.judge({"": [replace(track, windows=seen)]}, guarantee)[1]
    assert first[3] == f"p95 {class_verdict.judge({'': [track]}, promised([track]))[1][0][3]}"
    assert not second[3].startswith("p95")
    titles = [row.title for row in rows_of([], track.run.plan.settings.objective, (), guarantee)]
    assert titles[1:3] == ["a p95 delay", "b delay"]


@pytest.mark.parametrize(
    ("oldest_s", "said", "share"),
    [
        (0.0, "Absolute delay guarantee: kept, but of b nothing can be said", "-"),
        (80.0, "Absolute delay guarantee: not kept for b", "over 1000%, by the wait of those who were not served"),
    ],
)
def test_a_guarantee_is_not_called_kept_for_a_class_of_which_nobody_was_served(
    store: Store, oldest_s: float, said: str, share: str
) -> None:
    (track,) = tracks(store, [write_guarantee(store, "absolute", windows=4)])
    readings = {A: 4.0, "oldest_wait_s@b": oldest_s}
    stuck = replace(track, windows=tuple(replace(w, readings=readings) for w in track.windows))
    judged, table = class_verdict.judge({"": [stuck]}, promised([stuck]))
    assert judged.headline == said
    assert table[1][3:5] == ("none", share)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("relative", "Relative delay guarantee: nothing can be said: nobody waited, or no delay was measured"),
        ("absolute", "Absolute delay guarantee: kept"),
    ],
)
def test_a_guarantee_is_not_called_broken_where_nobody_waits(store: Store, kind: str, said: str) -> None:
    (track,) = tracks(store, [write_guarantee(store, kind, windows=4)])
    idle = replace(track, windows=tuple(replace(w, readings={A: 0.00002, B: 0.00003}) for w in track.windows))
    assert class_verdict.judge({"": [idle]}, promised([idle]))[0].headline == said


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_tunes_has_no_table_of_classes(store: Store) -> None:
    text = render(store, [write_run(store, "trim", always(whole(1.0)))])
    assert "Class by class" not in text


@pytest.mark.parametrize(("spike", "factors"), [(1.0, False), (400.0, True)])
def test_one_window_of_a_ratio_hides_neither_what_is_desired_nor_how_the_others_fared(
    store: Store, spike: float, factors: bool
) -> None:
    (track,) = tracks(store, [write_guarantee(store, "relative", windows=30)])
    near = [replace(w, readings={**w.readings, A: 1.0, B: 3.0}) for w in track.windows]
    near[20] = replace(near[20], readings={**near[20].readings, A: 1.0 / spike})
    spoilt = replace(track, windows=tuple(near))
    guarantee = promised([spoilt])
    ((_, _, _, _, share, *_),) = class_verdict.judge({"": [spoilt]}, guarantee)[1][1:]
    assert share.endswith("% (half of the windows 100% to 100%)")
    picture = delays([spoilt])
    assert ("<!-- 2,000 -->" in picture) == factors, "a logarithmic scale has ticks at 1, 2 and 5"
