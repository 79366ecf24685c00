"""A loop on a plant in memory, with a store in memory and all that it told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests._memory_plant import WORKERS, Climber, MemoryPlant
from trimtab.core import Controller, Guard, Knob, Move, MoveState, Objective, Subject, Window
from trimtab.decision import Oversight
from trimtab.events import Event, Note, NoteKind, Outcome
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.records import Plan
from trimtab.referee import Judge
from trimtab.replay import Past, replayed
from trimtab.settings import Settings
from trimtab.store import Store


class Run:
    """A loop with a store in memory and everything that it told."""

    def __init__(
        self,
        plant: MemoryPlant,
        knobs: tuple[Knob, ...] = (WORKERS,),
        guards: tuple[Guard, ...] = (),
        approve: Callable[[Move], bool | None] = lambda move: False,
        judge: Judge | None = None,
        controller: Controller | None = None,
        extras: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.plant, self.events, self.stop = plant, list[Event](), Stop()
        self.store = Store(None)
        chosen = Settings(**{"window_s": 10.0, "duration_s": 100.0, "settle_s": 0.0} | settings)
        plan = Plan(
            (), "", (Subject("memory"),), knobs, "climber", {}, chosen, dict(plant.values), extras=extras or {}
        )
        self.recorder = self.store.begin(plan)
        self.loop = Loop(
            plant,
            knobs,
            controller or Climber(Objective()),
            Oversight(guards, judge),
            self.recorder,
            chosen,
            self.stop,
            self.events.append,
            approve,
        )

    def go(self) -> Outcome:
        return self.loop.run()

    def assert_replayed(self, *knobs: Knob) -> None:
        """The same decisions follow from what was stored, and lead to where the run stands."""
        decider, events = self.loop._decider, self.store.events(self.recorder.run_id)
        again = replayed(decider, Past(decider.start(knobs or (WORKERS,))), events)
        assert isinstance(again, Past)
        assert again.standing == self.loop._standing, "a replay decides something else"

    @property
    def windows(self) -> list[Window]:
        return self.store.windows(self.recorder.run_id)

    @property
    def states(self) -> list[MoveState]:
        return [move.state for move in self.store.moves(self.recorder.run_id)]

    def notes(self, kind: NoteKind) -> list[Note]:
        return [note for note in self.store.notes(self.recorder.run_id) if note.kind is kind]
