"""The page of a search: its winner, the turns, what users lost and gained, and its path."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests._loop_run import Run
from tests.unit.test_trials import search
from trimtab.referee.turns import candidates_turns
from trimtab.report import page
from trimtab.report.figures import drawn
from trimtab.report.search import tables
from trimtab.report.sheet import Table
from trimtab.report.track import tracks
from trimtab.report.verdict import judge_run

PATH = "The path of the search"


def table(run: Run, title: str) -> Table:
    return next(one for one in tables(tracks(run.store, [1])[0]) if one.title.startswith(title))


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_the_winner_the_turns_and_what_users_lost_and_gained() -> None:
    run, _ = search((20, 1, 40), budget=0.5)
    run.go()
    assert table(run, "The winner").rows == [("workers", "10", "40")]
    turns = table(run, "Measured again").rows
    assert [row[0] for row in turns] == ["1", "2", "3", "all"]
    assert turns[-1][-2].endswith("): better") and turns[0][-1] == "-", "no pace was measured"
    lost = {row[0]: row[1] for row in table(run, "What users").rows}
    assert lost["trials worse than 0.9 of the start"] == "1 of 4"
    assert lost["trials"] == "4 of 4; ended because all 4 trials are made"
    assert lost["could be lost"] == "20 s, the budget of harm"
    text = page.render(run.store, [1])
    assert PATH in text and "measured again in 3 turns, the winner is" in text


@pytest.mark.usefixtures("undrawn")
def test_a_search_that_was_stopped_in_its_turns_pairs_those_that_were_made() -> None:
    run, plant = search((40, 30), remeasure=2)
    plant.fake_clock.at.append((55.0, lambda: setattr(run.stop, "reason", "SIGINT")))
    run.go()
    assert candidates_turns(2) == (True, False, False, True)
    assert [row[0] for row in table(run, "Measured again").rows] == ["1"]
    assert "no improvement is claimed" in page.render(run.store, [1])


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_is_no_search_has_none_of_it() -> None:
    run = Run(search((20,))[1])
    run.go()
    track = tracks(run.store, [1])[0]
    assert tables(track) == []
    assert PATH not in [one.title for one in drawn([track])]


@pytest.mark.parametrize(
    ("ends_s", "basis"),
    [
        (25.0, "the trials of the search alone: start and winner were not measured in turn"),
        (math.inf, "start and winner of the search measured again in turn; the interval is 95 %, over turns"),
    ],
    ids=["stopped in its trials", "with its turns"],
)
def test_the_verdict_says_whether_start_and_winner_were_measured_in_turn(ends_s: float, basis: str) -> None:
    run, plant = search((40, 30, 20), remeasure=2)
    plant.fake_clock.at.append((ends_s, lambda: setattr(run.stop, "reason", "SIGINT")))
    run.go()
    assert judge_run(tracks(run.store, [1])[0]).basis == basis


def test_the_path_keeps_the_start_s_warming_up_apart_from_the_trials_and_names_only_what_it_shows() -> None:
    run, plant = search((40, 30, 20), remeasure=2)
    plant.fake_clock.at.append((25.0, lambda: setattr(run.stop, "reason", "SIGINT")))
    run.go()
    (track,) = tracks(run.store, [1])
    assert track.search is not None
    for warming in (0, 1):
        warmed = replace(track, search=replace(track.search, warming=warming))
        (picture,) = (one.svg for one in drawn([warmed]) if one.title == PATH)
        assert ("before the trials, still warming up" in picture) == (warming > 0)
        assert "<!-- window -->" in picture, "not every window is a trial"
        assert "<!-- trial -->" in picture and "winner, again" not in picture, "none was measured again"
