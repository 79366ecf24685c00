"""Every controller can be stored: its state comes back as it was, and a killed run goes on as if it had not been."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tests._classes import TWO
from tests._idle_periods import Mixture, ended
from tests.conformance.test_class_controllers import BUDGETS
from tests.conformance.test_controllers import NAMES, STILL, module
from tests.conformance.test_keep_alive_controllers import TIMES
from tests.unit.plants.test_simulated_classes import surfers
from trimtab import codec
from trimtab.core import Controller, Knob, Objective, Readings, Role, of_class
from trimtab.decision import Decider, Oversight
from trimtab.events import Event, MoveDone, WindowDone
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.plants._simulated_classes import SimulatedClass
from trimtab.plants._simulated_server import SimulatedServer
from trimtab.plants.simulated import Simulated
from trimtab.records import Plan
from trimtab.replay import Past, replayed
from trimtab.sensors._metrics import IDLE_HELD_WORKERS
from trimtab.sensors.keep_alive import KeepAlive
from trimtab.settings import Settings
from trimtab.store import Store

WINDOWS, KILLED = 24, 13
SETTINGS = Settings(10.0, 10.0 * WINDOWS, settle_s=0.0, seed=5)
every = pytest.mark.parametrize("name", NAMES)


class Killed(BaseException):
    """What stands for SIGKILL."""


class Server(Simulated):
    """A simulated server, left as it is by a run that was killed, with idle periods beside its own readings."""

    metrics = (*KeepAlive.metrics, IDLE_HELD_WORKERS)

    def restore(self) -> None:
        pass

    def derive(self, readings: Readings) -> Readings:
        rng = np.random.default_rng(round(1000 * self.clock.now_s()))
        lengths, asks = Mixture().draw(rng, 3000)
        time_s = self.configuration()["keep_alive_timeout_ms"] / 1e3
        held = {"idle_connections": 90.0, "idle_held_workers": 90.0, "connection_setup_s": 0.01}
        return {**held, **ended(lengths, asks, time_s, rng)}


def budgets(name: str) -> bool:
    return name in BUDGETS and name != STILL


def build(name: str) -> tuple[Controller, Simulated, tuple[Knob, ...]]:
    """A controller with its options, on a server that has knobs for it, a few of them where it takes so many."""
    kind = module(name).CONTROLLER
    if budgets(name):
        gate = SimulatedServer(max_request_workers=16)
        classes = [SimulatedClass(one, 8) for one in TWO]
        plant: Simulated = Server(gate, [surfers(one, 60) for one in TWO], 1, classes)
        knobs = tuple(knob for knob in plant.knobs() if knob.role is Role.PROCESS_BUDGET)
        known = {field.name for field in fields(kind)}
        options = {"desired": (1.0, 3.0), "min_samples": 1, "hysteresis_s": 0.2}
        objective = Objective(of_class("connection_delay_s", TWO[0]))
        return kind(objective, **{key: value for key, value in options.items() if key in known}), plant, knobs
    plant = Server(SimulatedServer(max_request_workers=60), seed=1)
    if name == "climb":  # it leaves what the simulated server has to other methods
        knobs = tuple(replace(knob, role=Role.OTHER) for knob in plant.knobs()[:2])
        return kind(Objective()), plant, knobs
    roles = (Role.KEEP_ALIVE,) if name in TIMES else (Role.WORKER_LIMIT, Role.KEEP_ALIVE)
    return kind(Objective()), plant, tuple(knob for knob in plant.knobs() if knob.role in roles)


def run(store: Store, run_id: int, plant: Simulated, decider: Decider, past: Past | None, kill: int) -> None:
    """Runs until the end, or until it is killed after the decision of a window, before what it knows is stored."""

    def told(event: Event) -> None:
        if isinstance(event, MoveDone) and event.window.index == kill:
            raise Killed

    writer = store.resume(run_id, 4)
    knobs = store.run(run_id).plan.knobs
    loop = Loop(plant, knobs, decider.controller, decider.oversight, writer, SETTINGS, Stop(), told, past=past)
    with suppress(Killed):
        loop.run()


def stored(store: Store, run_id: int, decider: Decider) -> Past:
    """Where a killed run stands."""
    found = store.past(run_id)
    assert found is not None
    past, events = found
    assert [event.window.index for event in events if isinstance(event, WindowDone)] == [KILLED]
    after = replayed(decider, replace(past, standing=decider.restored(past.standing)), events)
    assert isinstance(after, Past)
    return after


def moves(store: Store, run_id: int) -> list[tuple[Any, ...]]:
    return [(m.index, m.proposed, m.move, m.state, m.configuration) for m in store.moves(run_id)]


@every
def test_its_state_is_a_frozen_record(name: str) -> None:
    controller, _, knobs = build(name)
    assert vars(type(controller.start(knobs, 0)))["__dataclass_params__"].frozen


@every
def test_a_killed_run_that_kept_its_last_windows_goes_on_as_one_that_was_not_killed(name: str) -> None:
    ends = []
    for kill in (-1, KILLED):
        controller, plant, knobs = build(name)
        decider = Decider(controller, Oversight.of(controller, SETTINGS.objective, knobs), SETTINGS.seed)
        store = Store(None)
        plan = Plan((), "", plant.subjects, knobs, name, {}, SETTINGS, dict(plant.configuration()))
        run_id = store.begin(plan).run_id
        with closing(plant):
            run(store, run_id, plant, decider, None, kill)
            if kill == KILLED:
                run(store, run_id, plant, decider, stored(store, run_id, decider), -1)
        ends.append((moves(store, run_id), [(w.index, w.configuration) for w in store.windows(run_id)]))
    whole, resumed = ends
    assert len(whole[0]) >= 4
    assert resumed == whole


@every
def test_its_state_comes_back_as_it_was_after_every_window(name: str) -> None:
    controller, plant, knobs = build(name)
    decider = Decider(controller, Oversight.of(controller, SETTINGS.objective, knobs), SETTINGS.seed)
    store = Store(None)
    run_id = store.begin(Plan((), "", plant.subjects, knobs, name, {}, SETTINGS, dict(plant.configuration()))).run_id
    writer = store.resume(run_id)
    with closing(plant):
        Loop(plant, knobs, controller, decider.oversight, writer, SETTINGS, Stop()).run()
    past, seen = Past(decider.start(knobs)), set()
    for event in store.events(run_id):
        after = replayed(decider, past, [event])
        assert isinstance(after, Past)
        raw = codec.decode(codec.encode(after), Past)
        past = replace(raw, standing=decider.restored(raw.standing))
        assert past == after
        seen.add(codec.encode(after.standing.state))
    assert len(seen) > 1 or name == STILL, "the run taught it nothing, so this shows nothing"
