"""A run that is replayed gives the same moves, and one that is resumed goes on where its windows lead."""

from __future__ import annotations

from typing import Any

import pytest

from tests._memory_plant import TIMEOUT, WORKERS, Climber, MemoryPlant
from trimtab.core import Knob, Objective, Subject, Window
from trimtab.core.trial import MoveState
from trimtab.decision import Decider, Oversight, Standing
from trimtab.errors import OperatorEdit, UsageError
from trimtab.events import Note, NoteKind, WindowDone
from trimtab.guard import standard
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.records import Plan
from trimtab.replay import Difference, Past, replayed
from trimtab.settings import Settings
from trimtab.store import RunWriter, Store

OBJECTIVE = Objective()


def recorded(plant: MemoryPlant, knobs: tuple[Knob, ...], duration_s: float = 60.0) -> RunWriter:
    settings = Settings(10.0, duration_s, settle_s=0.0)
    store = Store(None)
    writer = store.begin(Plan((), "", (Subject("memory"),), knobs, "climber", {}, settings, {}))
    Loop(plant, knobs, Climber(OBJECTIVE), Oversight(standard(OBJECTIVE)), writer, settings, Stop()).run()
    return writer


def again(writer: RunWriter, controller: Climber, knobs: tuple[Knob, ...]) -> Difference | Past:
    decider = Decider(controller, Oversight(standard(OBJECTIVE)))
    return replayed(decider, Past(decider.start(knobs)), writer.store.events(writer.run_id))


def test_the_same_controller_gives_the_same_moves() -> None:
    writer = recorded(MemoryPlant(), (WORKERS,))
    past = again(writer, Climber(OBJECTIVE), (WORKERS,))
    assert isinstance(past, Past)
    assert (past.windows, past.standing.state, past.standing.knobs) == (6, "workers", (WORKERS,))
    assert past.elapsed_s == pytest.approx(60.0)


def test_another_controller_gives_the_first_difference() -> None:
    difference = again(recorded(MemoryPlant(), (WORKERS,)), Climber(OBJECTIVE, stride=9), (WORKERS,))
    assert isinstance(difference, Difference)
    assert (difference.index, difference.who) == (0, "controller")
    assert (difference.stored.changes, difference.replayed.changes) == ({"workers": 20}, {"workers": 19})


def test_other_words_for_the_same_decision_are_no_difference() -> None:
    writer = recorded(MemoryPlant(), (WORKERS,))
    earlier = 'replace({0}, \'"reason":"\', \'"reason":"as it was said earlier: \')'
    both = ", ".join(f"{column} = {earlier.format(column)}" for column in ("move", "proposed"))
    writer.store.execute(f"UPDATE moves SET {both}", ())
    assert all("as it was said earlier" in one.move.reason for one in writer.store.moves(writer.run_id))
    assert isinstance(again(writer, Climber(OBJECTIVE), (WORKERS,)), Past)


def test_a_move_that_the_guards_would_make_otherwise_is_found() -> None:
    writer = recorded(MemoryPlant(), (WORKERS,))
    writer.store.execute("UPDATE moves SET move = replace(move, '30', '31') WHERE idx = 1", ())
    difference = again(writer, Climber(OBJECTIVE), (WORKERS,))
    assert isinstance(difference, Difference)
    assert (difference.index, difference.who) == (1, "guards")


@pytest.mark.parametrize("in_apply", [True, False])
def test_a_knob_that_stood_down_stands_down_at_the_same_place(in_apply: bool) -> None:
    plant = MemoryPlant()
    error = OperatorEdit("workers", "edited by hand")
    apply, configuration = plant.apply, plant.configuration
    calls = {"apply": 0, "configuration": 0}

    def edited(name: str, real: Any, at: int) -> Any:
        def call(*args: Any) -> Any:
            calls[name] += 1
            if calls[name] == at:
                raise error
            return real(*args)

        return call

    if in_apply:
        plant.apply = edited("apply", apply, 2)  # type: ignore[method-assign]
    else:
        plant.configuration = edited("configuration", configuration, 4)  # type: ignore[method-assign]
    writer = recorded(plant, (WORKERS, TIMEOUT))
    assert (MoveState.STOOD_DOWN in [m.state for m in writer.store.moves(writer.run_id)]) == in_apply
    assert isinstance(again(writer, Climber(OBJECTIVE), (WORKERS, TIMEOUT)), Past)


def test_a_resumed_run_ends_as_one_that_was_never_cut() -> None:
    whole = recorded(MemoryPlant(), (WORKERS,), 60.0)
    plant = MemoryPlant()
    part = recorded(plant, (WORKERS,), 30.0)
    past = again(part, Climber(OBJECTIVE), (WORKERS,))
    assert isinstance(past, Past)
    settings = Settings(10.0, 60.0, settle_s=0.0)
    writer = part.store.resume(part.run_id)
    guards = standard(OBJECTIVE)
    Loop(plant, (WORKERS,), Climber(OBJECTIVE), Oversight(guards), writer, settings, Stop(), past=past).run()
    assert part.store.windows(part.run_id) == whole.store.windows(whole.run_id)
    assert [m.move for m in part.store.moves(part.run_id)] == [m.move for m in whole.store.moves(whole.run_id)]


def test_a_run_of_which_only_the_last_windows_were_kept_is_not_replayed() -> None:
    writer = recorded(MemoryPlant(), (WORKERS,))
    writer.store.execute("DELETE FROM windows WHERE idx < 2", ())
    with pytest.raises(UsageError, match="only the windows from 2 on were kept"):
        again(writer, Climber(OBJECTIVE), (WORKERS,))


def test_a_run_that_only_observes_after_its_knobs_stood_down_still_says_where_it_stands() -> None:
    plant = MemoryPlant()
    configuration = plant.configuration
    calls: list[int] = []

    def edited() -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise OperatorEdit("workers", "edited by hand")
        return configuration()

    plant.configuration = edited  # type: ignore[method-assign]
    writer = recorded(plant, (WORKERS,))
    windows = writer.store.windows(writer.run_id)
    found = writer.store.past(writer.run_id)
    assert found is not None and len(writer.store.moves(writer.run_id)) < len(windows)
    assert (found[0].windows, found[0].standing.knobs, found[1]) == (len(windows), (), [])


def test_what_a_run_forgets_is_never_what_leads_from_where_it_stood_to_the_windows_that_it_kept() -> None:
    store = Store(None)
    writer = store.begin(
        Plan((), "", (Subject("memory"),), (WORKERS,), "climber", {}, Settings(1.0, 100.0), {}), keep=33
    )
    for index in range(100):
        writer.note(Note(float(index), NoteKind.PLANT, f"before {index}"))
        writer.window(Window(index, float(index), 1.0, {}, {}))
        if index % 7:  # a run that was killed between a window and its decision
            writer.stand(Past(Standing((WORKERS,)), index + 1, index + 1.0))
        indices = [window.index for window in store.windows(writer.run_id)]
        assert len(indices) <= 33 + 4
        if indices[0]:
            kept = store.checkpoint(writer.run_id)
            assert kept is not None and kept[0].windows == indices[0]
            assert isinstance(kept[1][0], Note) and kept[1][0].text == f"before {indices[0]}"
            assert [event.window.index for event in kept[1] if isinstance(event, WindowDone)] == indices
