"""What a run leaves in force, and what it tells of its plant, in the loop on a plant in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from tests._loop_run import Run
from tests._memory_plant import TIMEOUT, WORKERS, MemoryPlant
from tests.unit.test_loop import Sceptic
from trimtab.core import Applied, Knob, Move, MoveState, Objective, Readings, Subject, Trial, Window
from trimtab.errors import ApplyRefused, NotMeasured, OperatorEdit, PlantGone, StoreError, UsageError
from trimtab.events import Event, Note, NoteKind, Outcome, Status
from trimtab.guard.early_abort import EarlyAbort
from trimtab.referee import Referee
from trimtab.referee.afterwards import AfterwardsState
from trimtab.settings import Mode


class Noted(MemoryPlant):
    """A plant with a note, and one more after each change; it counts how often it was asked."""

    asked = 0
    error: Exception | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return (
            "a change brings pending edits into force",
            *(f"after change {n}" for n, _ in enumerate(self.applied)),
        )


@pytest.mark.parametrize("mode", list(Mode))
def test_what_the_user_should_know_of_the_plant_is_noted_before_the_first_window_in_every_mode(mode: Mode) -> None:
    run = Run(Noted(), mode=mode)
    run.go()
    assert isinstance(run.events[0], Note)
    assert (run.events[0].kind, run.events[0].text) == (NoteKind.PLANT, "a change brings pending edits into force")


@pytest.mark.parametrize("mode", [Mode.AUTONOMOUS, Mode.OBSERVE])
def test_a_note_is_told_once_and_asked_for_only_at_the_start_and_after_a_change(mode: Mode) -> None:
    plant = Noted()
    run = Run(plant, mode=mode)
    run.go()
    texts = [note.text for note in run.notes(NoteKind.PLANT)]
    assert bool(plant.applied) == (mode is Mode.AUTONOMOUS) and len(run.windows) > 1
    assert len(texts) == len(set(texts)) == plant.asked == 1 + len(plant.applied)


ERRORS = [UsageError("not permitted"), NotMeasured("silent"), PlantGone("no worker"), OSError(13, "Not permitted")]


@pytest.mark.parametrize("error", ERRORS)
def test_a_run_does_not_fail_for_want_of_notes(error: Exception) -> None:
    plant = Noted()
    plant.error = error
    run = Run(plant)
    assert run.go().status is Status.DONE
    assert plant.applied
    (note,) = run.notes(NoteKind.PLANT)
    assert str(error) in note.text


def test_a_run_that_nothing_shows_to_be_better_ends_with_what_it_found() -> None:
    run = Run(MemoryPlant(), judge=Sceptic({"workers": 10}))
    assert run.go().restored
    assert run.plant.restored == 1
    assert "nothing shows that the last setting is better than workers 10" in run.notes(NoteKind.RESTORE)[0].text


def test_a_run_ends_with_the_last_setting_that_was_shown_to_be_better() -> None:
    run = Run(MemoryPlant(), judge=Sceptic({"workers": 30}))
    assert not run.go().restored
    assert run.plant.values["workers"] == 30


def test_a_run_whose_last_setting_is_the_good_one_is_left_as_it_is() -> None:
    run = Run(MemoryPlant(), judge=Sceptic({}))
    run.go()
    assert run.plant.restored == 0
    assert run.notes(NoteKind.RESTORE) == []


def test_a_defect_while_the_configuration_is_put_back_is_said_and_the_outcome_is_stored() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=30.0, restore=True)
    plant.restore_error = RuntimeError("a defect")
    assert run.go() == Outcome(Status.DONE, "", 3, False)
    assert "could not restore the configuration: a defect" in run.notes(NoteKind.RESTORE)[0].text


@pytest.mark.parametrize("ends", ["done", "failed"])
def test_a_full_disk_at_restore_is_said_and_the_outcome_is_stored(ends: str) -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=30.0, restore=True)
    plant.restore_error = OSError(28, "No space left on device")
    if ends == "failed":
        plant.fake_clock.at.append((15.0, lambda: setattr(plant, "apply_error", RuntimeError("a defect"))))
        with pytest.raises(RuntimeError, match="a defect"):
            run.go()
    else:
        assert run.go() == Outcome(Status.DONE, "", 3, False)
    assert run.store.run(run.recorder.run_id).status.value == ends
    assert "could not restore the configuration: [Errno 28] No space" in run.notes(NoteKind.RESTORE)[0].text


def test_where_the_store_is_full_as_well_the_configuration_is_put_back_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant, finished = MemoryPlant(), list[Outcome]()
    run = Run(plant, duration_s=30.0, restore=True)

    def full(note: Note) -> None:
        raise StoreError("the store cannot be written: database or disk is full")

    monkeypatch.setattr(run.recorder, "note", full)
    monkeypatch.setattr(run.recorder, "finish", finished.append)
    run.go()
    assert plant.restored == 1
    assert finished == [Outcome(Status.DONE, "", 3, True)]
    assert [event.kind for event in run.events if isinstance(event, Note)] == [NoteKind.RESTORE]


@dataclasses.dataclass(frozen=True)
class Lenient(Referee):
    """A referee that lets every change pass, however little it has seen before."""

    def review(self, state: Any, window: Window, move: Move) -> Move:
        return move


@dataclasses.dataclass(frozen=True)
class Once:
    """Sets 20 workers and a timeout of 200 ms after its first window, and then only looks on."""

    def start(self, knobs: tuple[Knob, ...], seed: int) -> dict[str, int]:
        wanted = {"workers": 20, "timeout": 200}
        return {knob.name: wanted[knob.name] for knob in knobs}

    def withdraw(self, state: dict[str, int], knob: str) -> dict[str, int]:
        return {}

    def step(self, state: dict[str, int], trial: Trial) -> tuple[dict[str, int], Move]:
        return {}, Move(state, "a trial")


class Restoring(MemoryPlant):
    """A plant whose values are those from before the run once it is restored."""

    def restore(self) -> None:
        super().restore()
        self.values = {"workers": 10, "timeout": 100} | {name: 7 for name, value in self.values.items() if value == 7}


def judged(plant: MemoryPlant, knobs: tuple[Knob, ...] = (WORKERS, TIMEOUT), **settings: Any) -> Run:
    """A run whose one change is made after 10 s, and judged by the referee."""
    return Run(plant, knobs, judge=Lenient(Objective("response_time_s")), controller=Once(), **settings)


def edits(plant: MemoryPlant, knob: str) -> None:
    """The operator sets a knob to 7 after 15 s, which the plant says once."""

    def read() -> dict[str, int]:
        if plant.values[knob] == 7 and not told:
            told.append(knob)
            raise OperatorEdit(knob, "is 7 now")
        return dict(plant.values)

    told = list[str]()
    plant.configuration = read  # type: ignore[method-assign]
    plant.fake_clock.at.append((15.0, lambda: plant.values.update({knob: 7})))


def stops(run: Run, after_s: float) -> None:
    """A signal ends the run after that time."""
    run.plant.fake_clock.at.append((after_s, lambda: setattr(run.stop, "reason", "SIGHUP")))


@pytest.mark.parametrize("ends", ["the time is over", "a signal"])
def test_a_change_that_no_window_has_judged_yet_is_taken_back_when_the_run_ends(ends: str) -> None:
    run = judged(Restoring(), duration_s=10.0 if ends == "the time is over" else 100.0)
    stops(run, 15.0)
    outcome = run.go()
    assert outcome.restored and outcome.windows == 1
    assert run.states == [MoveState.APPLIED]
    assert run.plant.values == {"workers": 10, "timeout": 100}


def test_a_knob_that_the_operator_has_set_stays_as_he_set_it_when_the_change_of_another_is_taken_back() -> None:
    plant = Restoring()
    edits(plant, "timeout")
    run = judged(plant)
    stops(run, 25.0)
    run.go()
    assert plant.values == {"workers": 10, "timeout": 7}


def test_a_run_that_only_advises_puts_nothing_back() -> None:
    run = judged(Restoring(), mode=Mode.ADVISE, duration_s=10.0)
    run.go()
    assert (run.states, run.plant.applied, run.plant.restored) == ([MoveState.ADVISED], [], 0)
    assert run.notes(NoteKind.RESTORE) == []


def test_what_was_on_trial_when_the_operator_took_another_knob_goes_back_by_one_move_that_says_why() -> None:
    plant = Restoring()
    edits(plant, "timeout")
    run = judged(plant, duration_s=60.0)
    run.go()
    moves = [one.move for one in run.store.moves(run.recorder.run_id) if one.state is MoveState.APPLIED]
    assert [dict(move.changes) for move in moves] == [{"workers": 20, "timeout": 200}, {"workers": 10}]
    assert moves[1].phase == "return"
    assert "the operator has set another knob during the trial" in moves[1].reason
    assert moves[1].reason.endswith("back to workers 10")
    assert plant.values == {"workers": 10, "timeout": 7}
    run.assert_replayed(WORKERS, TIMEOUT)


def full(note: Note) -> None:
    """Every note meets a full disk."""
    raise StoreError("the store cannot be written: database or disk is full")


def hung_up(event: Event) -> None:
    """Every note meets a terminal that is gone."""
    if isinstance(event, Note):
        raise OSError(5, "Input/output error")


def test_of_a_stack_it_is_said_which_server_has_ended_and_that_the_others_are_as_they_were() -> None:
    class Pair(MemoryPlant):
        @property
        def subjects(self) -> tuple[Subject, ...]:
            return Subject("apache", 7, tier="web"), Subject("mariadb", 8, tier="db")

    run, gone = Run(Pair()), PlantGone("db: MariaDB (pid 8) has ended")
    run.plant.fake_clock.at.append((15.0, lambda: setattr(run.plant, "configuration_error", gone)))
    assert run.go().restored
    (note,) = run.notes(NoteKind.RESTORE)
    assert note.text.startswith("db: MariaDB (pid 8) has ended, and nothing that trimtab had changed is left")
    assert note.text.endswith("; all others are as they were before the run")


@pytest.mark.parametrize("good", [10, 30])
@pytest.mark.parametrize("meets", ["a full store", "a terminal that is gone"])
def test_what_nothing_shows_to_be_better_goes_back_though_that_can_be_neither_stored_nor_told(
    meets: str, good: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, finished = Run(Restoring(), judge=Sceptic({"workers": good})), list[Outcome]()
    monkeypatch.setattr(run.recorder, "finish", finished.append)
    if meets == "a full store":
        monkeypatch.setattr(run.recorder, "note", full)
    else:
        run.loop._on_event = hung_up
    run.go()
    assert run.plant.values["workers"] == good
    assert finished == [Outcome(Status.DONE, "", 10, good == 10)]


@pytest.mark.parametrize("meets", ["a full store", "a terminal that is gone"])
def test_a_server_that_ends_is_restored_though_that_can_be_neither_stored_nor_told(
    meets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, finished = Restoring(), list[Outcome]()
    run = Run(plant)
    monkeypatch.setattr(run.recorder, "finish", finished.append)
    if meets == "a full store":
        monkeypatch.setattr(run.recorder, "note", full)
    else:
        run.loop._on_event = hung_up
    plant.fake_clock.at.append((15.0, lambda: setattr(plant, "configuration_error", PlantGone("pid 7 has ended"))))
    run.go()
    assert plant.restored == 1
    assert finished == [Outcome(Status.GONE, "pid 7 has ended", 2, True)]


@pytest.mark.parametrize("error", [ApplyRefused("it does not fit by now"), ValueError("a defect")])
def test_where_the_way_back_to_what_was_good_fails_the_start_comes_back(error: Exception) -> None:
    run = Run(Restoring(), judge=Sceptic({"workers": 30}))
    apply, plant = run.plant.apply, run.plant

    def refuses(changes: Mapping[str, int]) -> Applied:
        if run.loop._windows == 10 and changes == {"workers": 30}:
            raise error
        return apply(changes)

    plant.apply = refuses  # type: ignore[method-assign]
    run.go()
    assert plant.values["workers"] == 10
    texts = [event.text for event in run.store.events(run.recorder.run_id) if isinstance(event, Note)]
    assert any(text.startswith("could not go back to workers 30") for text in texts)
    assert run.store.run(run.recorder.run_id).restored


class Impatient(Sceptic):
    """A judge that takes back each change at the first window with it."""

    def judge(self, state: AfterwardsState, window: Window) -> tuple[AfterwardsState, Mapping[str, int]]:
        return state, {} if window.configuration["workers"] == 10 else {"workers": 10}


def test_the_way_back_from_a_change_that_was_approved_asks_nobody() -> None:
    asked = list[dict[str, int]]()

    def approve(move: Move) -> bool:
        asked.append(dict(move.changes))
        return len(asked) == 1

    run = Run(MemoryPlant(), judge=Impatient({}), approve=approve, mode=Mode.APPROVE, duration_s=30.0)
    run.go()
    assert run.plant.applied == [{"workers": 20}, {"workers": 10}]
    assert run.states == [MoveState.APPLIED, MoveState.APPLIED, MoveState.DECLINED]
    assert asked == [{"workers": 20}, {"workers": 20}]


class Cliff(MemoryPlant):
    """A plant on which more workers than it began with make all worse."""

    def readings(self) -> Readings:
        return {"response_time_s": 1.0 if self.values["workers"] == 10 else 9.0, "request_rate_hz": 20.0}


def test_nor_does_the_way_back_of_a_guard_that_has_cut_a_window_short() -> None:
    """Clients waited for whoever had said yes and gone."""
    asked = list[dict[str, int]]()

    def approve(move: Move) -> bool:
        asked.append(dict(move.changes))
        return len(asked) == 1

    guard = EarlyAbort(Objective())
    run = Run(Cliff(), guards=(guard,), approve=approve, mode=Mode.APPROVE, duration_s=30.0)
    run.go()
    assert run.windows[1].aborted
    assert run.plant.applied == [{"workers": 20}, {"workers": 10}]
    assert asked == [{"workers": 20}, {"workers": 20}]
