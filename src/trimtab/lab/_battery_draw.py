"""One draw on the simulated server: left alone, tuned, fixed settings, peers; the same clients for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trimtab import discovery
from trimtab.core import Applied, Move, Objective, Window
from trimtab.core.trial import MoveState
from trimtab.decision import Oversight
from trimtab.events import Note, Outcome, Stamp
from trimtab.guard.domain import Domain
from trimtab.lab._scenario import BASE_BYTES, Scenario
from trimtab.loop import Loop
from trimtab.observer import Stop
from trimtab.plants._simulated_classes import SimulatedClass
from trimtab.plants._simulated_server import SimulatedServer
from trimtab.plants.apache import DEFAULTS
from trimtab.plants.simulated import Simulated
from trimtab.replay import Past
from trimtab.settings import Settings
from trimtab.workloads._population import Step, Url

WARM_S = 60.0
"""Before anything counts: Debian's pool has found its size by then."""
LENGTH_S = 1500.0
ROUNDS = 8
"""Rounds of a long run, three hours and twenty minutes: what fails in one may be tried again in the next."""
DRAIN_S = 120.0
"""Time without new clients at the end: requests that still wait are part of the cost."""
WINDOW_S = 10.0
RELOAD_S = 0.25
"""An Apache with mod_php reads its configuration again; measured on the testbed."""
SLOW_RELOAD_S = 10.0
"""One that loads a whole application with it, as with mod_perl, on a busy CPU: 14.5 s with Request Tracker."""
STATUS_TIMEOUT_S = WINDOW_S / 2
"""A window needs two replies of the status page, so none may wait longer than half of it."""
FIXED_WORKERS = (3, 5, 8, 12, 18, 27, 40, 60, 90, 150, 256)
"""Fixed limits, a factor of 1.5 apart: the best of them is within a fifth of the best there is."""
FIXED_KEEP_ALIVE_S = (0.0, 1.0)
"""Keep-alive times that are tried beside the drawn one, at the best limit."""
ALONE, TRIM = "left alone", "trim"
LIVE_PEERS = ("gradient2", "vegas", "brpc")
"""Limiters of concurrency, which their users run on a limit that changes without a reload."""
OPTIONS = {"tpe": {"trials": 40}}
"""Options of peers: a search without an end never settles."""


@dataclass(frozen=True)
class Had:
    """Waiting and replies of all clients in one run.

    Args:
        waited_s: time that all of them together waited, those who gave up as long as their patience lasted. What a
            visit would still have asked for that was given up counts like the run's other requests: else a server
            that drives visitors away would cost them less. Users who are always there make another visit instead.
        replies: replies in time.
        given_up: requests given up.
        moves: the changes with their times and reasons, one line each.
        said: the last reason for which nothing was changed.
    """

    waited_s: float
    replies: float
    given_up: float
    moves: tuple[str, ...] = ()
    said: str = ""


@dataclass(frozen=True)
class Drawn:
    """A draw and its runs.

    Args:
        scenario: the scenario drawn.
        runs: runs by label; fixed settings are `WORKERS` or `WORKERS, KEEP_ALIVE s`.
    """

    scenario: Scenario
    runs: Mapping[str, Had]

    @property
    def ratio(self) -> float:
        """Waiting of clients under trim over that with the server left alone."""
        return self.to_alone(TRIM)

    def to_alone(self, label: str) -> float:
        """Waiting of clients in any run over that with the server left alone."""
        return self.runs[label].waited_s / self.runs[ALONE].waited_s

    @property
    def best_fixed(self) -> str:
        """The fixed setting with which clients waited least."""
        fixed = [label for label in self.runs if label[0].isdigit()]
        return min(fixed, key=lambda label: self.runs[label].waited_s)

    @property
    def to_gain(self) -> float:
        """Waiting of clients with the server left alone over that at the best fixed setting."""
        return 1 / self.to_alone(self.best_fixed)


@dataclass(frozen=True)
class Simulation:
    """All runs of a draw.

    Args:
        scenario: the scenario drawn.
        peers: controllers to run beside trim, as their users would: without a referee.
        reload_s: how long a reload lets no request begin, in seconds.
    """

    scenario: Scenario
    peers: tuple[str, ...] = ()
    reload_s: float = RELOAD_S

    def compute(self) -> Drawn:
        """Makes them, all with the same clients."""
        scenario = self.scenario
        runs = {ALONE: untouched(scenario)}
        for workers in FIXED_WORKERS:
            runs[f"{workers}"] = untouched(scenario, workers)
        best = int(min((label for label in runs if label != ALONE), key=lambda label: runs[label].waited_s))
        for keep_alive_s in FIXED_KEEP_ALIVE_S:
            if keep_alive_s != scenario.keep_alive_s:
                runs[f"{best}, {keep_alive_s:g} s"] = untouched(replace(scenario, keep_alive_s=keep_alive_s), best)
        for name in (TRIM, *self.peers):
            runs[name] = tuned(scenario, name, self.reload_s)
        return Drawn(scenario, runs)


def length_s(scenario: Scenario) -> float:
    """How long its clients come, after the warm-up, in seconds."""
    return scenario.rounds * LENGTH_S


def plant_of(
    scenario: Scenario, workers: int | None = None, live: bool = False, reload_s: float = RELOAD_S
) -> Simulated:
    """The simulated server of a scenario.

    Args:
        scenario: the scenario drawn.
        workers: MaxRequestWorkers in place of its own.
        live: whether a gate stands in front, whose limit changes without a reload.
        reload_s: how long a reload lets no request begin, in seconds.
    """
    limit = workers or scenario.max_request_workers
    server = replace(server_of(scenario, limit), reload_s=reload_s)
    end_s = WARM_S + length_s(scenario)
    asked = scenario.populations(end_s, (Url("/page.php", cpu_s=scenario.cpu_s),))
    clients = [replace(one, schedule=(*one.schedule, Step(end_s, 0.0))) for one in asked]
    gate = (SimulatedClass(scenario.clients, limit),) if live else ()
    plant = Simulated(server, clients, scenario.seed, gate)
    plant.clock.sleep(WARM_S)
    return plant


def server_of(scenario: Scenario, limit: int) -> SimulatedServer:
    """The server of a scenario, with that MaxRequestWorkers."""
    debian = scenario.pool == "debian"
    return SimulatedServer(
        max_request_workers=limit,
        server_limit=max(limit, 256),
        keep_alive_timeout_ms=round(1000 * scenario.keep_alive_s),
        memory_limit_bytes=scenario.memory_limit_bytes,
        base_memory_bytes=BASE_BYTES,
        worker_memory_bytes=scenario.worker_bytes,
        cold_ratio=scenario.cold_ratio,
        start_workers=5 if debian else limit,
        min_spare_workers=5 if debian else limit,
        spare_workers=10 if debian else limit,
        other_s=scenario.wait_s,
        lock_ratio=scenario.lock_ratio,
        reload_s=RELOAD_S,
        status_timeout_s=STATUS_TIMEOUT_S,
    )


def untouched(scenario: Scenario, workers: int | None = None) -> Had:
    """A run in which nothing is changed."""
    plant = plant_of(scenario, workers)
    try:
        before = plant.totals()
        plant.clock.sleep(length_s(scenario) + DRAIN_S)
        return _had(scenario, plant, before)
    finally:
        plant.close()


def tuned(scenario: Scenario, name: str, reload_s: float = RELOAD_S) -> Had:
    """A run under a controller, as `tune` runs it; peers have no referee and no guards but the domain."""
    objective = Objective(DEFAULTS.minimize)
    controller = discovery.load("trimtab.controllers", name).CONTROLLER(objective, **OPTIONS.get(name, {}))
    plant = plant_of(scenario, live=name in LIVE_PEERS, reload_s=reload_s)
    try:
        knobs = tuple(knob for knob in plant.knobs() if knob.role in DEFAULTS.roles)
        oversight = Oversight.of(controller, objective, knobs) if name == TRIM else Oversight((Domain(),))
        settings = Settings(WINDOW_S, length_s(scenario), objective, seed=scenario.seed)
        log, before, began_s = _Log(), plant.totals(), plant.clock.now_s()
        Loop(plant, knobs, controller, oversight, log, settings, Stop()).run()
        plant.clock.sleep(length_s(scenario) + DRAIN_S - (plant.clock.now_s() - began_s))
        return replace(_had(scenario, plant, before), moves=tuple(log.lines), said=log.said)
    finally:
        plant.close()


def _had(scenario: Scenario, plant: Simulated, before: Mapping[str, float]) -> Had:
    had = {name: value - before[name] for name, value in plant.totals().items()}
    unsent = had["unsent"] if scenario.clients == "open" else 0.0
    sent = max(1.0, had["replies"] + had["given_up"])
    return Had(had["waited_s"] * (1 + unsent / sent), had["replies"], had["given_up"])


class _Log:
    """Keeps a run's changes with their reasons, and nothing else."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.said = ""
        self._now_s = 0.0

    def window(self, window: Window) -> Stamp:
        """Remembers when it ended."""
        self._now_s = window.start_s + window.duration_s
        return Stamp()

    def move(self, index: int, proposed: Move, move: Move, state: MoveState) -> Stamp:
        """Keeps a change."""
        if move.changes:
            what = ", ".join(f"{name} {value}" for name, value in move.changes.items())
            self.lines.append(f"{self._now_s:.0f} s: {what}: {move.reason}")
        else:
            self.said = move.reason
        return Stamp()

    def outcome(self, stamp: Stamp, state: MoveState, detail: str = "", applied: Applied | None = None) -> None:
        """Keeps a failure."""
        if state is not MoveState.APPLIED:
            self.lines.append(f"{self._now_s:.0f} s: {state.value}: {detail}")

    def note(self, note: Note) -> Stamp:
        """Forgets it."""
        return Stamp()

    def stand(self, past: Past) -> None:
        """Forgets it."""

    def finish(self, outcome: Outcome) -> None:
        """Keeps the values put back at the end."""
        if outcome.restored:
            self.lines.append(f"at the end: {outcome.restored}")


def as_json(one: Drawn) -> dict[str, Any]:
    """A draw as a line of JSON."""
    runs = {label: vars(had) for label, had in one.runs.items()}
    return {"seed": one.scenario.seed, "scenario": vars(one.scenario), "runs": runs}
