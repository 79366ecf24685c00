"""Terminal and page are of one mind, and of the referee's where a run's changes are trials."""

from __future__ import annotations

import html
import re
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests._class_runs import write_guarantee
from tests._memory_plant import TIMEOUT, WORKERS, MemoryPlant
from tests._stored_runs import always, whole, write_run
from trimtab.cli._summary import summary
from trimtab.controllers.trim import Trim
from trimtab.core import Move, MoveState, Objective, Role, Trial, Verdict
from trimtab.decision import Decider, Oversight
from trimtab.errors import OperatorEdit
from trimtab.events import Event, Note, NoteKind, Outcome, Status
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.plants._simulated_server import SimulatedServer
from trimtab.plants.simulated import Simulated
from trimtab.records import Plan
from trimtab.replay import Past, replayed
from trimtab.report.page import render
from trimtab.report.track import tracks
from trimtab.report.verdict import judge_run
from trimtab.settings import Settings
from trimtab.store import RunWriter, Store

OBJECTIVE = Objective()


def said(store: Store, run: int) -> tuple[str, str]:
    """What the terminal and the page say came of a run."""
    (line,) = [line for line in summary(tracks(store, [run])[0]) if line.startswith("so:    ")]
    with mock.patch("trimtab.report.page.drawn", lambda tracks: []):  # figures take most of the time, and say nothing
        page = render(store, [run])
    (headline,) = re.findall(r'<p class="headline[^"]*">(.*?)</p>', page, re.DOTALL)
    return line.removeprefix("so:    "), html.unescape(headline)


@given(
    controller=st.sampled_from(["trim", "fuzzy", "static", "no longer there"]),
    times=st.lists(st.floats(0.001, 1000), min_size=1, max_size=24),
    at=st.lists(st.integers(0, 23), max_size=3, unique=True),
    state=st.sampled_from([MoveState.APPLIED, MoveState.APPLIED, MoveState.REFUSED, MoveState.OPEN]),
    busy=st.booleans(),
    restored=st.booleans(),
    minimize=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_terminal_and_page_say_the_same_of_every_run(
    controller: str,
    times: list[float],
    at: list[int],
    state: MoveState,
    busy: bool,
    restored: bool,
    minimize: bool,
) -> None:
    store = Store(None)
    run = write_run(
        store,
        "",
        lambda i, m: whole(times[i]) if busy else {"response_time_s": times[i]},
        windows=len(times),
        moves=[(index, 40 + index, state) for index in sorted(at)],
        controller=controller,
        objective=Objective(minimize=minimize),
    )
    store.finish(run, Outcome(Status.DONE, "", len(times), restored))
    terminal, page = said(store, run)
    assert terminal == page


@pytest.mark.parametrize("kind", ["relative", "absolute"])
@pytest.mark.parametrize("users", [(60, 60), (200, 90), (60, 0)])
def test_terminal_and_page_say_the_same_of_a_guarantee(kind: str, users: tuple[int, int]) -> None:
    store = Store(None)
    terminal, page = said(store, write_guarantee(store, kind, users=users))
    assert terminal == page


def looped(plant: Any, controller: Any, knobs: Any, wanted: Settings) -> tuple[RunWriter, list[Event]]:
    """A run through the loop, and what it told."""
    name = type(controller).__name__.lower()
    plan = Plan((), "", plant.subjects, knobs, name, {}, wanted, dict(plant.configuration()))
    writer, told = Store(None).begin(plan), list[Event]()
    oversight = Oversight.of(controller, OBJECTIVE, knobs)
    Loop(plant, knobs, controller, oversight, writer, wanted, Stop(), told.append).run()
    return writer, told


@pytest.mark.parametrize(("seed", "start"), [(1, 150), (2, 150), (3, 8), (4, 26), (5, 200)])
def test_of_a_run_of_trials_the_judge_says_what_the_referee_concluded(seed: int, start: int) -> None:
    plant = Simulated(SimulatedServer(max_request_workers=start), seed=seed)
    knobs = tuple(knob for knob in plant.knobs() if knob.role is Role.WORKER_LIMIT)
    try:
        writer, _ = looped(plant, Trim(OBJECTIVE), knobs, Settings(10.0, 600.0, seed=seed))
    finally:
        plant.close()
    (track,) = tracks(writer.store, [writer.run_id])
    decider = Decider(Trim(OBJECTIVE), Oversight.of(Trim(OBJECTIVE), OBJECTIVE, knobs), seed)
    past = replayed(decider, Past(decider.start(knobs)), track.events)
    assert isinstance(past, Past)
    found = judge_run(track)
    assert (found.verdict is Verdict.BETTER) == (dict(past.standing.judge_state.incumbent) != {knobs[0].name: start})
    assert found.verdict in (Verdict.BETTER, Verdict.SAME)


class Up:
    """Adds ten to every knob in each window, as trials or not."""

    def __init__(self, experiments: bool) -> None:
        self.experiments = experiments

    def start(self, knobs: Any, seed: int) -> Any:
        return tuple(knob.name for knob in knobs)

    def step(self, state: Any, trial: Trial) -> tuple[Any, Move]:
        return state, Move({name: trial.window.configuration[name] + 10 for name in state}, "up")


@pytest.mark.parametrize("in_apply", [True, False])
def test_the_store_tells_the_events_of_a_run_in_their_order(in_apply: bool) -> None:
    plant = MemoryPlant()
    real, calls = (plant.apply if in_apply else plant.configuration), [0]

    def edited(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == (2 if in_apply else 5):
            raise OperatorEdit("workers", "edited by hand")
        return real(*args)

    setattr(plant, "apply" if in_apply else "configuration", edited)
    writer, told = looped(plant, Up(False), (WORKERS, TIMEOUT), Settings(10.0, 60.0, settle_s=0.0))
    (track,) = tracks(writer.store, [writer.run_id])
    assert any(getattr(event, "kind", None) is NoteKind.STAND_DOWN for event in told)
    if in_apply:  # a move is stored before it is applied, and told once it was
        at = next(i for i, event in enumerate(told) if isinstance(event, Note))
        told[at : at + 2] = reversed(told[at : at + 2])
    assert [type(event) for event in track.events] == [type(event) for event in told]
    assert [getattr(event, "window", None) for event in track.events] == [
        getattr(event, "window", None) for event in told
    ]


def test_what_is_claimed_on_the_terminal_has_its_basis_there_too() -> None:
    """Medians of 71.9 and 63.7 ms over "1.53 times better" are no contradiction: loads differ."""
    store, moves = Store(None), [(2, 40, MoveState.APPLIED)]
    run = write_run(store, "trim", lambda i, m: whole(2.0 if m == 150 else 0.2), moves=moves)
    (track,) = tracks(store, [run])
    lines, judged = summary(track), judge_run(track)
    assert judged.gain is not None and judged.basis
    assert lines[lines.index(f"so:    {judged.headline}") + 1] == f"basis: {judged.basis}"
    (unchanged,) = tracks(store, [write_run(store, "trim", always(whole(2.0)))])
    assert not [line for line in summary(unchanged) if line.startswith("basis:")]


def test_one_window_is_one_window() -> None:
    store = Store(None)
    for windows, said in ((1, "1 window"), (2, "2 windows")):
        run = write_run(store, "trim", always(whole(2.0)), windows=windows)
        assert summary(tracks(store, [run])[0])[0] == f"run {run}: done, {said}"
