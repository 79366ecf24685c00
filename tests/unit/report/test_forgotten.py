"""A run that kept only its last windows is judged by these, from where its referee stood before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests._curve import NAME, worker_knob
from tests._stored_runs import whole
from trimtab.cli._summary import summary
from trimtab.controllers.trim import Trim
from trimtab.core import Applied, Move, MoveState, Objective, Subject, Verdict, Window
from trimtab.decision import Standing
from trimtab.events import Outcome, Status
from trimtab.records import Plan
from trimtab.referee import of_run
from trimtab.replay import Past
from trimtab.report.track import Track, tracks
from trimtab.report.verdict import judge_run
from trimtab.settings import Settings
from trimtab.store import Store

KNOBS = (worker_knob(maximum=1000),)
KEPT = 16


def run_of(*moves: tuple[int, int], windows: int, bad: int = 40, good: int = 20, keep: int | None = KEPT) -> Track:
    """A run of trials from 150 workers, with the limits that it sets after windows, which forgets its first ones.

    Response times are 5 s at `bad`, 0.2 s at `good` and 1 s at all others.
    """
    store, judge = Store(None), of_run(Trim(Objective()), Objective(), KNOBS)
    settings = Settings(2.0, 2.0 * windows)
    plan = Plan((), "", (Subject("apache"),), KNOBS, "trim", {}, settings, {NAME: 150})
    writer, limit, state = store.begin(plan, keep), 150, None if judge is None else judge.start(KNOBS)
    for index in range(windows):
        time_s = {bad: 5.0, good: 0.2}.get(limit, 1.0) * (1 + 0.01 * (-1) ** index)
        window = Window(index, 2.0 * index, 2.0, {NAME: limit}, whole(time_s), 320)
        writer.window(window)
        assert judge is not None
        state, _ = judge.judge(state, window)
        for value in (value for at, value in moves if at == index):
            move = Move({NAME: value}, "as the test wants")
            stamp = writer.move(index, move, move, MoveState.OPEN)
            writer.outcome(stamp, MoveState.APPLIED, "", Applied({NAME: value}, 0.1))
            limit = value
        touched = any(at <= index for at, _ in moves)
        writer.stand(Past(Standing(KNOBS, judge_state=state), index + 1, 2.0 * index + 2, touched))
    writer.finish(Outcome(Status.DONE, "", windows, False))
    return tracks(store, [writer.run_id])[0]


def headline(track: Track, since: int) -> tuple[Verdict, str]:
    found = judge_run(track)
    said = f"In the windows from {since} on, which alone were kept: "
    assert found.headline.startswith(said)
    return found.verdict, found.headline.removeprefix(said)


def test_taking_back_its_own_harm_is_no_improvement() -> None:
    """The first window kept is in the midst of a trial: what was before it only the referee's state tells."""
    verdict, text = headline(run_of((8, 40), (13, 150), windows=27), 10)
    assert verdict is Verdict.SAME
    assert text.startswith("no change was kept, so no improvement is claimed; of those tried: 1 worse")


def test_a_trial_that_began_before_them_and_was_found_better_is_one() -> None:
    verdict, text = headline(run_of((9, 20), windows=27), 10)
    assert verdict is Verdict.BETTER
    assert "times better at the end of the run than in the first of them" in text


def test_what_was_changed_before_them_is_not_said_to_be_nothing() -> None:
    """A service goes on for months, and keeps the windows of half a day."""
    track = run_of((8, 20), windows=60)
    assert headline(track, 43) == (Verdict.SAME, "nothing was changed")
    assert any(line.startswith("first: ") for line in summary(track))


def test_without_what_the_referee_knew_nothing_is_said_of_trials() -> None:
    track = replace(run_of((8, 40), (13, 150), windows=27), stood=None)
    assert headline(track, 10) == (
        Verdict.UNMEASURED,
        "what the referee knew before them was not kept, so nothing can be said",
    )


def test_a_state_of_another_trimtab_is_one_that_is_not_known() -> None:
    track = run_of((8, 40), (13, 150), windows=27)
    assert track.stood is not None
    strange: Any = {"no": "such state"}
    standing = replace(track.stood.standing, judge_state=strange)
    track = replace(track, stood=replace(track.stood, standing=standing))
    assert headline(track, 10)[0] is Verdict.UNMEASURED


def test_a_run_that_kept_all_is_judged_as_before() -> None:
    found = judge_run(run_of((8, 40), (13, 150), windows=27, keep=None))
    assert found.headline.startswith("No change was kept, so no improvement is claimed; of those tried: 1 worse")


def test_where_nothing_was_changed_before_them_they_are_as_good_as_the_start() -> None:
    found = judge_run(run_of(windows=60))
    assert (found.verdict, found.headline) == (Verdict.SAME, "Nothing was changed")
    found = judge_run(run_of((50, 20), windows=60))
    assert found.improved and "times better at the end of the run than at its start" in found.headline
