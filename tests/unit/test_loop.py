"""The loop on a plant in memory: nothing here sleeps or touches a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from tests._loop_run import Run
from tests._memory_plant import TIMEOUT, WORKERS, FakeSensor, MemoryPlant
from trimtab.core import Applied, Knob, Move, Prepared, Sensor, Window
from trimtab.core.trial import MoveState
from trimtab.errors import (
    ApplyFailed,
    ApplyRefused,
    NotMeasured,
    OperatorEdit,
    PlantError,
    PlantGone,
    UsageError,
)
from trimtab.events import Event, MoveDone, NoteKind, Outcome, Status, WindowDone
from trimtab.referee.afterwards import AfterwardsState
from trimtab.settings import Mode, Settings


class Cap:
    """A guard that lets no value pass a limit, and can cut windows short."""

    def __init__(self, limit: int, abort: str = "") -> None:
        self._limit, self._abort = limit, abort

    def start(self, knobs: tuple[Knob, ...]) -> int:
        return 0

    def review(self, state: int, window: Window, move: Move) -> tuple[int, Move]:
        if move.changes.get("workers", 0) > self._limit:
            return state + 1, move.amended({"workers": self._limit}, f"at most {self._limit}")
        return state + 1, move

    def abort(self, state: int, partial: Window) -> str:
        return self._abort


def test_autonomous_run_measures_decides_and_applies() -> None:
    run = Run(MemoryPlant(), duration_s=50.0)
    outcome = run.go()
    assert outcome == Outcome(Status.DONE, "", 5, False)
    assert [w.configuration["workers"] for w in run.windows] == [10, 20, 30, 40, 50]
    assert run.windows[3].readings["response_time_s"] == pytest.approx(0.1)
    assert run.states == [MoveState.APPLIED] * 5
    assert run.plant.restored == 0


def test_window_holds_readings_derived_readings_and_samples() -> None:
    run = Run(MemoryPlant(), duration_s=10.0)
    run.go()
    (window,) = run.windows
    assert window.readings["burst_length"] == 2.0
    assert window.duration_s == pytest.approx(10.0)
    assert (window.samples, window.problems) == (200, ())


def test_the_change_is_stored_before_it_is_applied() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=10.0)
    seen: list[MoveState] = []
    apply = plant.apply

    def watched(changes: Mapping[str, int]) -> Applied:
        seen.extend(run.states)
        return apply(changes)

    plant.apply = watched  # type: ignore[method-assign]
    run.go()
    assert seen == [MoveState.OPEN]
    assert run.states == [MoveState.APPLIED]


def test_window_is_stored_before_anyone_is_told() -> None:
    run = Run(MemoryPlant(), duration_s=10.0)
    counts: list[int] = []
    run.loop._on_event = lambda event: counts.append(len(run.windows))
    run.go()
    assert counts == [1, 1]


def test_sampling_follows_each_sensor_s_own_period() -> None:
    samples: list[tuple[int, int]] = []
    plant = MemoryPlant()
    fast = FakeSensor(plant.readings, "fast", 0.02, cheap=False)
    slow = FakeSensor(dict, "slow", 1.0, cheap=False, gives="")
    never = FakeSensor(dict, "never", 0.0, cheap=False, gives="")
    plant._sensors = (fast, slow, never)
    run = Run(plant, duration_s=30.0, mode=Mode.OBSERVE)
    run.loop._on_event = lambda event: samples.append((fast.samples, slow.samples))
    run.go()
    assert never.samples == 0
    for fast_samples, slow_samples in samples:
        assert fast_samples == pytest.approx(Sensor.most_samples, rel=0.05), "not 500: more tell hardly anything new"
        assert slow_samples == pytest.approx(10, abs=1)


def test_sensors_of_one_period_share_their_wake_ups() -> None:
    plant = MemoryPlant()
    plant._sensors = (FakeSensor(dict, "one", 0.02, gives=""), FakeSensor(dict, "other", 0.02, gives=""))
    run = Run(plant, window_s=1.0, duration_s=10.0, mode=Mode.OBSERVE)
    before = plant.fake_clock.sleeps
    run.go()
    assert plant.fake_clock.sleeps - before == pytest.approx(500, rel=0.05)


def test_same_seed_gives_the_same_sampling_times() -> None:
    def times(seed: int) -> list[float]:
        plant = MemoryPlant()
        taken: list[float] = []
        sensor = FakeSensor(dict, "timed", 0.5, gives="")
        sensor.sample = lambda: taken.append(plant.fake_clock.now)  # type: ignore[method-assign]
        plant._sensors = (sensor,)
        Run(plant, duration_s=20.0, seed=seed).go()
        return taken

    assert times(3) == times(3) != times(4)


def test_a_sensor_that_cannot_read_leaves_a_reason_not_a_zero() -> None:
    def fail() -> dict[str, float]:
        raise NotMeasured("status page answered 403")

    plant = MemoryPlant()
    deaf = FakeSensor(dict, "deaf", gives="")
    deaf.refuses_to_begin = "no such file"
    plant._sensors = (FakeSensor(plant.readings, "good"), FakeSensor(fail, "status", gives=""), deaf)
    run = Run(plant, duration_s=10.0)
    run.go()
    assert run.windows[0].problems == ("status: status page answered 403", "deaf: no such file")
    assert "cpu_ratio" not in run.windows[0].readings


@pytest.mark.parametrize("name", ["speed", "idle_workers", "busy_workers@premium"])
def test_a_reading_that_is_not_declared_is_a_problem_and_the_run_goes_on(name: str) -> None:
    sensor = FakeSensor(lambda: {name: 1.0, "busy_workers": 3.0}, gives="busy_workers")
    run = Run(MemoryPlant(sensor), duration_s=10.0)
    assert run.go().status is Status.DONE
    assert run.windows[0].problems == (f"fake gave {name}, which it does not declare",)
    assert run.windows[0].readings == {"busy_workers": 3.0}


def test_a_reading_that_is_not_finite_becomes_a_problem() -> None:
    run = Run(MemoryPlant(FakeSensor(lambda: {"cpu_ratio": float("nan")})), duration_s=10.0)
    run.go()
    assert run.windows[0].problems == ("fake: discarded cpu_ratio = nan",)
    assert run.windows[0].readings == {}


def test_the_guards_amend_a_move_and_both_are_stored() -> None:
    run = Run(MemoryPlant(), guards=(Cap(15),), duration_s=20.0)
    run.go()
    first, second = run.store.moves(run.recorder.run_id)
    assert (first.proposed.changes, first.move.changes) == ({"workers": 20}, {"workers": 15})
    assert first.move.reason.endswith("guard: at most 15")
    assert second.state is MoveState.HELD


def test_a_bad_window_is_cut_short_by_what_the_cheap_sensors_say() -> None:
    plant = MemoryPlant()
    dear = FakeSensor(lambda: {"busy_workers": 3.0}, "dear", cheap=False, gives="busy_workers")
    plant._sensors = (FakeSensor(plant.readings, gives="response_time_s request_rate_hz"), dear)
    run = Run(plant, guards=(Cap(100, "response time is 9 times the best"),), duration_s=10.0, early=0.25)
    run.go()
    window = run.windows[0]
    assert window.aborted == "response time is 9 times the best"
    assert window.duration_s == pytest.approx(2.5)
    assert window.readings["busy_workers"] == 3.0
    assert dear.reads == run.loop._windows


def test_short_windows_are_looked_at_early_only_after_a_change() -> None:
    plant = MemoryPlant()
    sensor = FakeSensor(plant.readings)
    plant._sensors = (sensor,)
    run = Run(plant, guards=(Cap(20),), duration_s=8.0, window_s=1.0)
    run.go()
    assert run.states == [MoveState.APPLIED] + [MoveState.HELD] * 7
    assert sensor.reads == 8 + 3


def test_after_a_change_the_next_window_waits_until_it_has_settled() -> None:
    run = Run(MemoryPlant(), duration_s=40.0, settle_s=None)
    run.go()
    starts = [w.start_s for w in run.windows]
    assert starts == pytest.approx([0.0, 11.0, 22.0])


@pytest.mark.parametrize(
    ("mode", "approve", "states", "applied"),
    [
        (Mode.OBSERVE, False, [], 0),
        (Mode.ADVISE, True, [MoveState.ADVISED] * 2, 0),
        (Mode.APPROVE, False, [MoveState.DECLINED] * 2, 0),
        (Mode.APPROVE, True, [MoveState.APPLIED] * 2, 2),
        (Mode.AUTONOMOUS, False, [MoveState.APPLIED] * 2, 2),
    ],
)
def test_each_mode_goes_as_far_as_it_says(mode: Mode, approve: bool, states: list[MoveState], applied: int) -> None:
    run = Run(MemoryPlant(), approve=lambda move: approve, mode=mode, duration_s=20.0)
    run.go()
    assert run.states == states
    assert len(run.plant.applied) == applied
    assert len(run.windows) == 2


def test_restore_on_exit_when_asked() -> None:
    run = Run(MemoryPlant(), duration_s=20.0, restore=True)
    assert run.go().restored
    assert run.plant.restored == 1


def test_nothing_is_restored_when_nothing_was_touched() -> None:
    run = Run(MemoryPlant(), duration_s=20.0, restore=True, mode=Mode.ADVISE)
    assert not run.go().restored
    assert run.plant.restored == 0


def test_an_edited_knob_stands_down_and_the_run_goes_on_observing() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=30.0)
    plant.apply_error = OperatorEdit("workers", "Workers is 77, set by hand")
    run.go()
    assert run.states == [MoveState.STOOD_DOWN]
    assert len(run.windows) == 3
    assert run.notes(NoteKind.STAND_DOWN)[0].knob == "workers"


def test_an_edit_seen_between_windows_leaves_the_other_knob_to_the_controller() -> None:
    plant = MemoryPlant()
    run = Run(plant, (WORKERS, TIMEOUT), duration_s=40.0)

    def edit() -> None:
        real = type(plant).configuration
        plant.values["workers"] = 77

        def once() -> Any:
            plant.configuration = lambda: real(plant)  # type: ignore[method-assign]
            raise OperatorEdit("workers", "Workers is 77, set by hand")

        plant.configuration = once  # type: ignore[method-assign]

    plant.fake_clock.at.append((15.0, edit))
    run.go()
    assert plant.applied == [{"workers": 20}, {"timeout": 110}, {"timeout": 120}]
    assert [w.configuration["workers"] for w in run.windows] == [10, 77, 77, 77]
    assert "changed within the window" in run.windows[1].problems[0]
    moves = run.store.moves(run.recorder.run_id)
    assert [move.index for move in moves] == [0, 2, 3], "a window of two configurations tells nothing"


def test_nothing_follows_from_a_window_within_which_a_knob_that_stands_down_was_set_again() -> None:
    plant = MemoryPlant()
    run = Run(plant, (TIMEOUT,), duration_s=40.0)
    plant.fake_clock.at.append((15.0, lambda: plant.values.update(workers=78)))
    run.go()
    assert [w.configuration["workers"] for w in run.windows] == [10, 78, 78, 78]
    assert [move.index for move in run.store.moves(run.recorder.run_id)] == [0, 2, 3]


@pytest.mark.parametrize(
    ("error", "state"), [(ApplyRefused("no"), MoveState.REFUSED), (ApplyFailed("no"), MoveState.FAILED)]
)
def test_changes_that_keep_failing_end_the_run(error: PlantError, state: MoveState) -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=100.0)
    plant.apply_error = error
    outcome = run.go()
    assert (outcome.status, outcome.detail) == (Status.FAILED, "3 changes in a row failed, the last because no")
    assert run.states == [state] * 3
    assert [w.configuration["workers"] for w in run.windows] == [10, 10, 10]
    assert plant.restored == 1


def test_one_failed_change_is_recorded_and_the_run_goes_on() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=30.0)
    plant.apply_error = ApplyFailed("the reload timed out")
    plant.fake_clock.at.append((15.0, lambda: setattr(plant, "apply_error", None)))
    assert run.go().status is Status.DONE
    assert run.states == [MoveState.FAILED, MoveState.APPLIED, MoveState.APPLIED]
    assert run.store.moves(run.recorder.run_id)[0].detail == "the reload timed out"


@pytest.mark.parametrize("phase", ["prepare", "commit"])
@pytest.mark.parametrize(
    "error",
    [PlantError("did not answer"), NotMeasured("timed out"), UsageError("no permission"), OSError(28, "disk full")],
    ids=lambda error: type(error).__name__,
)
def test_an_expected_error_in_a_change_brings_back_what_was_before_it_and_the_run_goes_on(
    error: Exception, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, done = MemoryPlant(), getattr(MemoryPlant, phase)
    errors: list[Exception | None] = [None, error]

    def fails(self: MemoryPlant, asked: Any) -> Any:
        made = done(self, asked)
        if errors and (why := errors.pop(0)):
            raise why
        return made

    monkeypatch.setattr(MemoryPlant, phase, fails)
    run = Run(plant, duration_s=40.0)
    assert run.go() == Outcome(Status.DONE, "", 4, False)
    assert run.states == [MoveState.APPLIED, MoveState.FAILED, MoveState.APPLIED, MoveState.APPLIED]
    assert run.store.moves(run.recorder.run_id)[1].detail == f"{error}; nothing is changed"
    assert [w.configuration["workers"] for w in run.windows] == [10, 20, 20, 30]


def test_an_edit_that_is_seen_only_after_a_change_takes_the_change_back_before_the_knob_stands_down() -> None:
    class Reads(MemoryPlant):
        def commit(self, prepared: Prepared) -> Applied:
            edit = None if self.applied else OperatorEdit("timeout", "is 7 now")
            super().commit(prepared)
            if edit is not None:
                raise edit
            return Applied(self.configuration())

    plant = Reads()
    run = Run(plant, knobs=(WORKERS, TIMEOUT), duration_s=20.0)
    run.go()
    assert run.states[0] is MoveState.STOOD_DOWN
    assert [w.configuration["workers"] for w in run.windows] == [10, 10]
    assert run.notes(NoteKind.STAND_DOWN)[0].knob == "timeout"


def test_a_server_that_ends_keeps_what_was_measured_and_is_restored() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=100.0)
    plant.fake_clock.at.append((15.0, lambda: setattr(plant, "configuration_error", PlantGone("pid 7 has ended"))))
    outcome = run.go()
    assert outcome == Outcome(Status.GONE, "pid 7 has ended", 2, True)
    assert run.windows[1].aborted == "the server ended: pid 7 has ended"
    assert run.states == [MoveState.APPLIED]
    assert run.notes(NoteKind.GONE)
    (put_back,) = run.notes(NoteKind.RESTORE)
    assert "for its next start" in put_back.text, "nothing is in force in a server that is gone"


def test_a_server_that_ends_is_noticed_before_its_window_is_over() -> None:
    def silent() -> dict[str, float]:
        if plant.configuration_error is not None:
            raise NotMeasured("nothing listens on port 80 any more")
        return {"response_time_s": 1.0}

    plant = MemoryPlant()
    plant._sensors = (FakeSensor(silent),)
    run = Run(plant, duration_s=100.0)
    plant.fake_clock.at.append((12.0, lambda: setattr(plant, "configuration_error", PlantGone("pid 7 has ended"))))
    assert run.go() == Outcome(Status.GONE, "pid 7 has ended", 1, True)
    assert plant.fake_clock.now - 100.0 == pytest.approx(15.0)


def test_a_server_that_ends_in_a_change_leaves_the_move_told() -> None:
    plant = MemoryPlant()
    run = Run(plant)
    plant.apply_error = PlantGone("pid 7 has ended")
    plant.restore_error = PlantGone("pid 7 has ended")
    assert run.go() == Outcome(Status.GONE, "pid 7 has ended", 1, False)
    assert run.states == [MoveState.GONE]
    assert "could not restore" in run.notes(NoteKind.RESTORE)[0].text


def test_a_request_to_stop_ends_the_wait_and_drops_the_unfinished_window() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=100.0)
    plant.fake_clock.at.append((15.0, lambda: setattr(run.stop, "reason", "SIGTERM")))
    assert run.go() == Outcome(Status.STOPPED, "SIGTERM", 1, False)
    assert plant.fake_clock.now - 100.0 == pytest.approx(15.0, abs=0.6)
    assert len(run.windows) == 1


def test_an_unexpected_error_restores_and_is_not_hidden() -> None:
    plant = MemoryPlant()
    run = Run(plant)

    def told(event: Event) -> None:
        if isinstance(event, MoveDone):
            raise RuntimeError("the screen broke")

    run.loop._on_event = told
    with pytest.raises(RuntimeError, match="the screen broke"):
        run.go()
    assert plant.restored == 1
    assert run.store.run(run.recorder.run_id).status is Status.FAILED


def test_a_missing_objective_is_said_once_with_the_reasons() -> None:
    plant = MemoryPlant(FakeSensor(lambda: {"cpu_ratio": 0.5}))
    run = Run(plant, duration_s=100.0, mode=Mode.OBSERVE, missing=3)
    run.go()
    (note,) = run.notes(NoteKind.MISSING)
    said = "response_time_s was not measured in the last 3 windows"
    assert note.text == f"{said}: what it follows from was not seen in them", (
        "there may be traffic that is not counted"
    )
    idle = MemoryPlant(FakeSensor(lambda: {"request_rate_hz": 0.0}))
    nobody = Run(idle, duration_s=100.0, mode=Mode.OBSERVE, missing=3)
    nobody.go()
    assert [note.text for note in nobody.notes(NoteKind.MISSING)] == [f"{said}: no traffic in them"]


def test_events_tell_of_each_window_and_each_move() -> None:
    run = Run(MemoryPlant(), duration_s=20.0)
    run.go()
    assert [type(event) for event in run.events] == [WindowDone, MoveDone] * 2


@pytest.mark.parametrize(("window_s", "duration_s", "early"), [(0.0, 1.0, 0.5), (20.0, 10.0, 0.5), (1.0, 10.0, 1.0)])
def test_impossible_settings_are_refused(window_s: float, duration_s: float, early: float) -> None:
    with pytest.raises(UsageError):
        Settings(window_s, duration_s, early=early)


class Sceptic:
    """A judge that stands behind nothing but a configuration of its own."""

    judges_changes: ClassVar[bool] = True

    def __init__(self, stands_behind: dict[str, int]) -> None:
        self._stands_behind = stands_behind

    def start(self, knobs: tuple[Knob, ...]) -> AfterwardsState:
        return AfterwardsState(knobs)

    def judge(self, state: AfterwardsState, window: Window) -> tuple[AfterwardsState, Mapping[str, int]]:
        return state, {}

    def review(self, state: AfterwardsState, window: Window, move: Move) -> Move:
        return move

    def abort(self, state: AfterwardsState, partial: Window) -> str:
        return ""

    def final(self, state: AfterwardsState) -> Mapping[str, int]:
        return self._stands_behind
