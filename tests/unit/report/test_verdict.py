from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests._curve import NAME
from tests._stored_runs import always, track_of, whole, write_run
from trimtab.core import Limit, Objective, Readings, Verdict
from trimtab.core.trial import MoveState
from trimtab.events import UNRESTORED, Note, NoteKind, Outcome, Status, restored
from trimtab.report.text import shown
from trimtab.report.track import Track, tracks
from trimtab.report.verdict import Judged, compare, interval
from trimtab.store import RunWriter, Store

METRIC = "response_time_s"


def group(values: list[float], label: str = "x", metric: str = METRIC) -> list[Track]:
    """One run for each value, which it measures in every window."""
    store = Store(None)
    return [track_of(store, label, always({metric: value}), windows=4) for value in values]


def against(base: list[float], tuned: list[float], minimize: bool = True, metric: str = METRIC) -> Judged:
    groups = {"base": group(base, "base", metric), "trim": group(tuned, "trim", metric)}
    return compare(groups, Objective(metric, minimize))


def test_better_says_how_many_times_with_its_interval() -> None:
    verdict = against([1.0, 1.1, 0.9], [0.1, 0.11, 0.09])
    assert verdict.improved
    assert verdict.headline.startswith(
        "Response time is 10 times better with trim than with base (95 % interval 7.96 to 12.6)"
    )
    assert "over repeats" in verdict.basis


def test_what_is_maximised_is_better_when_greater() -> None:
    metric = "request_rate_hz"
    verdict = against([10.0, 11.0, 9.0], [100.0, 110.0, 90.0], minimize=False, metric=metric)
    assert verdict.improved
    assert verdict.headline.startswith("Request rate is 10 times better with trim")


@pytest.mark.parametrize(("minimize", "metric"), [(True, METRIC), (False, "request_rate_hz")])
def test_worse_is_said_with_its_factor(minimize: bool, metric: str) -> None:
    low, high = [1.0, 1.1, 0.9], [3.0, 3.3, 2.7]
    verdict = against(low, high, True, metric) if minimize else against(high, low, False, metric)
    assert not verdict.improved
    assert verdict.headline.startswith("Worse: ")
    assert "with trim is 3 times worse than with base" in verdict.headline


def test_an_interval_that_holds_1_is_no_improvement() -> None:
    verdict = against([1.0, 2.0, 0.5], [0.8, 1.6, 0.5])
    assert not verdict.improved
    assert verdict.headline.startswith("No improvement shown: ")


@pytest.mark.parametrize("factor", [0.97, 0.96, 1.04])
def test_less_than_five_percent_is_no_improvement_however_sure(factor: float) -> None:
    verdict = against([1.0, 1.0001, 0.9999], [factor, factor * 1.0001, factor * 0.9999])
    assert not verdict.improved
    assert verdict.headline.startswith("No improvement shown: ")


def test_six_percent_that_is_sure_is_an_improvement() -> None:
    assert against([1.0, 1.0001, 0.9999], [0.94, 0.9401, 0.9399]).improved


@pytest.mark.parametrize(
    ("tuned", "times"), [(0.1, "10 times as good"), (3.0, "0.333 times as good"), (0.93, "1.08 times as good")]
)
def test_single_runs_show_no_improvement_as_two_left_alone_may_differ_as_much(tuned: float, times: str) -> None:
    found = against([1.0], [tuned])
    assert found.verdict is Verdict.OPEN and not found.improved
    assert found.headline == f"Response time with trim is {times} as with base; a single run is no proof"
    assert interval(METRIC, found.rows[1].cost).endswith("(one sample, no interval)")


def test_the_best_of_several_makes_the_headline_and_each_has_its_row() -> None:
    groups = {"base": group([1.0, 1.1]), "fuzzy": group([0.5, 0.55]), "trim": group([0.1, 0.11])}
    verdict = compare(groups, Objective())
    assert "with trim than with base" in verdict.headline
    assert [(row.label, row.repeats) for row in verdict.rows] == [("base", 2), ("fuzzy", 2), ("trim", 2)]
    assert verdict.rows[0].against is None
    assert [round(row.against.mean, 3) for row in verdict.rows[1:] if row.against] == [2.0, 10.0]


def test_of_many_labels_the_best_needs_an_interval_that_holds_for_all_of_them() -> None:
    """Of many methods that change nothing the best looks better than it is: by 95 % each, in one report of three."""
    base, lucky = [1.0, 1.2, 0.9], [0.70, 0.80, 0.72]
    alone = compare({"base": group(base), "lucky": group(lucky)}, Objective())
    assert alone.improved
    others = {f"other {k}": group([1.0, 1.1, 0.9]) for k in range(8)}
    found = compare({"base": group(base), "lucky": group(lucky), **others}, Objective())
    assert found.verdict is Verdict.OPEN and "with lucky" in found.headline
    assert found.basis.endswith("over repeats, for all labels together")
    assert "together" not in alone.basis


def test_a_label_that_is_shown_to_be_better_comes_before_one_that_only_looks_so() -> None:
    groups = {"base": group([1.0, 1.1, 0.9]), "once": group([0.01]), "shown": group([0.1, 0.11, 0.09])}
    found = compare(groups, Objective())
    assert found.improved and "with shown than with base" in found.headline


def test_of_several_labels_too_a_limit_comes_before_the_objective() -> None:
    """Of one that is ten times better and breaks a limit which the baseline keeps, no improvement is claimed."""
    limited = Objective(METRIC, limits=(Limit("cpu_ratio", 0.8),))

    def runs(label: str, time_s: float, cpu_ratio: float) -> list[Track]:
        store = Store(None)
        return [track_of(store, label, always({METRIC: time_s + k, "cpu_ratio": cpu_ratio})) for k in (0.0, 0.01)]

    hot, cool, base = runs("hot", 0.1, 0.9), runs("cool", 0.5, 0.7), runs("base", 1.0, 0.7)
    found = compare({"base": base, "hot": hot}, limited)
    assert (found.verdict, found.improved) == (Verdict.WORSE, False)
    assert found.headline == "No improvement is claimed: cpu_ratio <= 0.8 is broken with hot, and not with base"
    assert compare({"base": base, "hot": hot, "cool": cool}, limited).headline.startswith(
        "Response time is 1.99 times better with cool than with base"
    )
    assert compare({"base": runs("base", 1.0, 0.9), "hot": hot}, limited).improved, "which the start breaks as well"


def test_a_setting_that_is_not_known_at_the_end_is_not_said_to_be_0() -> None:
    (track,) = group([1.0])
    last = replace(track.windows[-1], configuration={})
    (row,) = compare({"x": [replace(track, windows=(*track.windows[:-1], last))]}, Objective()).rows
    assert row.settings == ""


def test_a_metric_that_was_not_measured_in_both_says_nothing() -> None:
    groups = {"base": group([1.0], metric="cpu_ratio"), "trim": group([0.5])}
    verdict = compare(groups, Objective())
    assert not verdict.improved
    assert "nothing can be said" in verdict.headline


def alone(*moves: tuple[int, int, MoveState], late_s: float = 0.1, controller: str = "trim") -> Judged:
    """One run of 1 s until the limit is not 150, and of another response time after that."""

    def at(index: int, m: int) -> Readings:
        return whole((1.0 if m == 150 else late_s) * (1 + 0.01 * (-1) ** index))

    track = track_of(Store(None), "run", at, moves=moves, windows=20, controller=controller)
    return compare({"run": [track]}, Objective())


def factor(found: Judged) -> float:
    assert found.gain is not None and found.gain.low is not None and found.gain.high is not None
    assert found.gain.low < found.gain.mean < found.gain.high
    return found.gain.mean


def test_a_run_of_trials_is_as_much_better_as_its_referee_found() -> None:
    found = alone((8, 40, MoveState.APPLIED))
    assert found.improved and factor(found) == pytest.approx(10, rel=0.2)
    assert re.match(r"Response time is [\d.]+ times better at the end of the run than at its start", found.headline)
    assert [w.configuration[NAME] for w in (found.before[-1], found.after[0])] == [150, 40]


def test_what_a_trial_found_worse_is_no_end_of_the_run() -> None:
    found = alone((8, 40, MoveState.APPLIED), late_s=2.0)
    assert (found.verdict, found.gain, found.after) == (Verdict.SAME, None, ())
    assert re.match(r"No change was kept, so no improvement is claimed; of those tried: \d+ worse", found.headline)


def test_a_trial_that_the_end_of_the_run_cut_short_is_named_as_one() -> None:
    found = alone((18, 40, MoveState.APPLIED))
    assert found.headline.endswith("none came to a verdict; on trial at the end: the change is new")


@pytest.mark.parametrize(("late_s", "verdict"), [(0.1, Verdict.BETTER), (2.0, Verdict.WORSE), (1.0, Verdict.SAME)])
def test_a_live_method_is_judged_by_its_second_half(late_s: float, verdict: Verdict) -> None:
    found = alone((6, 40, MoveState.APPLIED), late_s=late_s, controller="fuzzy")
    assert found.verdict is verdict
    assert factor(found) == pytest.approx(1 / late_s, rel=0.2)
    assert found.after[0].index == 10


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.DONE, "the configuration from before the run is in force again"),
        (Status.GONE, "the server has ended, and nothing that trimtab had changed is left for its next start"),
    ],
)
def test_what_was_put_back_at_the_end_is_said(status: Status, said: str) -> None:
    store = Store(None)
    run = write_run(store, "x", always(whole(1.0)), moves=[(2, 40, MoveState.APPLIED)], controller="fuzzy")
    store.finish(run, Outcome(status, "", 10, True))
    assert compare({"x": tracks(store, [run])}, Objective()).headline.endswith(f"; {said}")


def test_of_a_stack_it_is_said_which_server_has_ended_and_what_of_the_others() -> None:
    assert restored(Status.GONE, "db: MariaDB (pid 7) has ended", 2) == (
        "db: MariaDB (pid 7) has ended, and nothing that trimtab had changed is left for its next start; "
        "all others are as they were before the run"
    )


def test_repeats_of_one_label_are_judged_each_by_itself_and_then_together() -> None:
    store = Store(None)
    runs = [
        track_of(
            store,
            "fuzzy",
            lambda i, m, late_s=late_s: whole(1.0 if m == 150 else late_s),  # type: ignore[misc]
            moves=[(6, 40, MoveState.APPLIED)],
            windows=20,
            controller="fuzzy",
        )
        for late_s in (0.10, 0.11, 0.12)
    ]
    found = compare({"fuzzy": runs}, Objective())
    assert found.improved and 8 < factor(found) < 10.5
    assert "at the end of the runs" in found.headline and "over repeats" in found.basis


def fuzzy(late_s: float, limits: tuple[Limit, ...] = (), silent: bool = False) -> Track:
    """A run of a live method, of another response time after its only change."""

    def at(index: int, m: int) -> Readings:
        return {} if silent else whole(1.0 if m == 150 else late_s)

    moves, objective = [(6, 40, MoveState.APPLIED)], Objective(limits=limits)
    return track_of(Store(None), "fuzzy", at, moves=moves, windows=20, controller="fuzzy", objective=objective)


def test_a_repeat_that_breaks_a_limit_is_not_left_out_of_the_others_gain() -> None:
    broken = fuzzy(0.1, (Limit("cpu_ratio", 0.9, at_most=False),))
    found = compare({"fuzzy": [fuzzy(0.1), fuzzy(0.11), broken]}, Objective())
    assert found.verdict is Verdict.WORSE
    assert found.headline == "No improvement is claimed; 3 runs, each by itself: 2 better, 1 worse"


def test_repeats_that_tell_nothing_are_counted_beside_the_gain_of_the_others() -> None:
    found = compare({"fuzzy": [fuzzy(0.1), fuzzy(0.11), fuzzy(0.1, silent=True)]}, Objective())
    assert found.improved
    assert found.headline.endswith("; of 3 runs without those that give no factor: 1 not measured")


def test_the_last_of_several_repeats_does_not_speak_for_all() -> None:
    runs = [fuzzy(0.1, silent=True), track_of(Store(None), "fuzzy", always(whole(1.0)), controller="fuzzy")]
    found = compare({"fuzzy": runs}, Objective())
    assert (found.verdict, found.headline) == (Verdict.OPEN, "2 runs, each by itself: 1 not measured, 1 same")


def test_of_a_run_that_was_killed_it_is_said_that_nothing_was_put_back() -> None:
    store = Store(None)
    run = write_run(store, "trim", always(whole(1.0)), moves=[(2, 40, MoveState.APPLIED)])
    store.execute("UPDATE runs SET status = ?, pid = 0, pid_started = 0 WHERE id = ?", (Status.RUNNING, run))
    found = compare({"trim": tracks(store, [run])}, Objective())
    assert found.headline.endswith("; trimtab was killed, and has put nothing back")


def test_a_change_in_the_midst_of_which_a_run_ended_is_not_nothing() -> None:
    store = Store(None)
    run = write_run(store, "trim", always(whole(1.0)), moves=[(9, 40, MoveState.OPEN)])
    found = compare({"trim": tracks(store, [run])}, Objective())
    assert found.verdict is Verdict.UNMEASURED
    assert found.headline.startswith("What came of the only change is not known: the run ended while it was made")


def test_what_could_not_be_put_back_at_the_end_is_said_with_the_verdict() -> None:
    store = Store(None)
    run = write_run(store, "trim", always(whole(1.0)), moves=[(2, 40, MoveState.APPLIED)])
    RunWriter(store, run).note(Note(20.0, NoteKind.RESTORE, f"{UNRESTORED}: the disk is full"))
    found = compare({"trim": tracks(store, [run])}, Objective())
    assert found.headline.endswith("; could not restore the configuration: the disk is full")


def test_a_run_that_is_named_twice_is_no_repeat() -> None:
    store = Store(None)
    ids = [write_run(store, label, always(whole(time_s))) for label, time_s in (("a", 1.0), ("b", 0.9))]
    assert [track.run.id for track in tracks(store, ids * 2)] == ids


@pytest.mark.parametrize("state", [MoveState.ADVISED, MoveState.REFUSED, MoveState.DECLINED])
def test_a_run_in_which_no_change_was_applied_changed_nothing(state: MoveState) -> None:
    assert alone().headline == "Nothing was changed"
    assert alone((2, 40, state)).headline == "Nothing was changed"


def test_the_settings_at_the_end_are_named_with_their_range() -> None:
    store = Store(None)
    ends = [
        track_of(store, "trim", lambda i, m: {METRIC: 1.0}, moves=[(1, m, MoveState.APPLIED)]) for m in (30, 40, 35)
    ]
    (row,) = compare({"trim": ends}, Objective()).rows
    assert row.settings == f"{NAME} 30 to 40"


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        (METRIC, 0.0, "0"),
        (METRIC, 0.0123, "12.3 ms"),
        (METRIC, 2.5, "2.5 s"),
        (METRIC, 1234.0, "1,234 s"),
        ("request_rate_hz", 1234.5, "1,234 Hz"),
        ("cpu_ratio", 0.5, "50%"),
    ],
)
def test_values_are_shown_as_a_person_reads_them(metric: str, value: float, text: str) -> None:
    assert shown(metric, value) == text
