"""What the store keeps of a run, as types, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trimtab.core.knob import Domain, How, Knob, Role
from trimtab.core.move import Move
from trimtab.core.objective import Objective
from trimtab.core.trial import MoveState
from trimtab.core.window import Configuration, Window
from trimtab.events import Status
from trimtab.guarantee import DelayGuarantee
from trimtab.processes import Process
from trimtab.settings import Mode, Settings


@dataclass(frozen=True)
class Plan:
    """All that is known of a run before its first window: enough to repeat and replay it.

    What undoes it is not stored: text that is executed later would have to be believed. The plant makes it anew.

    Args:
        command: the command line without the program, from which its plant can be attached to again; empty when
            it was not started from the command line.
        directory: the working directory of the command, from which its relative paths start.
        plant: the plant's registered name.
        knobs: those the controller may move, in its order.
        controller: the controller's registered name.
        controller_options: its options, without the objective.
        settings: how the run goes.
        initial: the configuration in force before the run.
        host: facts of the machine and the versions of the programs.
        label: what this run is in its group, such as "baseline" or "trim"; may be empty.
        group: the comparison it belongs to, such as "2026-11-21-dynamic"; may be empty.
        guarantee: what it guarantees to classes of clients; None when it tunes.
    """

    command: tuple[str, ...]
    directory: str
    plant: str
    knobs: tuple[Knob, ...]
    controller: str
    controller_options: Mapping[str, Any]
    settings: Settings
    initial: Configuration
    host: Mapping[str, str | int | float] = field(default_factory=dict)
    label: str = ""
    group: str = ""
    guarantee: DelayGuarantee | None = None


@dataclass(frozen=True)
class Run:
    """A stored run.

    Args:
        id: its number in the store.
        plan: what was known before it.
        started: Unix time of its start, in seconds.
        finished: Unix time of its end; None while it runs and when it was killed.
        status: how it stands; `running` also when it was killed.
        detail: why it ended before its time; may be empty.
        restored: True when the configuration from before it was put back.
        alive: True while the process that runs it exists.
    """

    id: int
    plan: Plan
    started: float
    finished: float | None
    status: Status
    detail: str
    restored: bool
    alive: bool

    @property
    def unfinished(self) -> bool:
        """True when its process ended without writing how: killed, or the machine went down."""
        return self.status is Status.RUNNING and not self.alive


@dataclass(frozen=True)
class StoredMove:
    """A move as stored.

    Args:
        number: its number in the store.
        index: index of the window that it follows from.
        proposed: what the controller decided.
        move: what the guards made of it.
        state: what became of it; `open` when the process ended while it was applied.
        detail: why it was refused or failed, or what the plant said; may be empty.
        took_s: time until the change was seen to be in effect; None when it was not applied.
        configuration: what was in force after it; None when it was not applied.
    """

    number: int
    index: int
    proposed: Move
    move: Move
    state: MoveState
    detail: str
    took_s: float | None
    configuration: Configuration | None


def dumps(value: Any) -> str:
    """Compact JSON; floats come back as they were."""
    return json.dumps(value, separators=(",", ":"))


def move_json(move: Move) -> str:
    """A move as JSON."""
    return dumps([dict(move.changes), move.reason, dict(move.evidence), move.phase, move.gain, move.capacity])


def move_from(text: str) -> Move:
    """The move that `move_json` wrote."""
    return Move(*json.loads(text))


def plan_json(plan: Plan) -> str:
    """A plan as JSON."""
    return dumps(asdict(plan))


def plan_from(text: str) -> Plan:
    """The plan that `plan_json` wrote."""
    raw = json.loads(text)
    raw.pop("undo", None)  # a script that older versions stored
    settings = raw["settings"]
    settings |= {"objective": Objective(**settings["objective"]), "mode": Mode(settings["mode"])}
    knobs = tuple(knob_from(k) for k in raw["knobs"])
    promised: dict[str, Any] | None = raw.get("guarantee")
    if promised is not None:
        kind = promised.pop("kind")
        raw["guarantee"] = DelayGuarantee(kind, **{name: tuple(values) for name, values in promised.items()})
    return Plan(**{**raw, "command": tuple(raw["command"]), "knobs": knobs, "settings": Settings(**settings)})


_ROLES = {"MaxRequestWorkers": Role.WORKER_LIMIT, "workers": Role.WORKER_LIMIT, "KeepAliveTimeout": Role.KEEP_ALIVE}
"""Native name to role of the knobs in stores that were written before knobs had roles; budgets carry a class."""


def knob_from(raw: Mapping[str, Any]) -> Knob:
    """The knob of a stored plan, also of one from before knobs had roles."""
    label = str(raw["name"]).partition("@")[2]
    role = raw.get("role") or (Role.PROCESS_BUDGET if label else _ROLES.get(raw["native_name"], Role.OTHER))
    domain = {**raw["domain"], "choices": tuple(raw["domain"].get("choices", ()))}
    known = {**raw, "domain": Domain(**domain), "how": How(raw["how"]), "role": Role(role)}
    return Knob(**{"label": label, **known})


def run_from(row: tuple[Any, ...]) -> Run:
    """A row of the table of runs as a run."""
    run_id, started, finished, pid, pid_started, status, detail, restored, plan = row
    alive = Process(pid, pid_started).alive()
    return Run(run_id, plan_from(plan), started, finished, Status(status), detail, bool(restored), alive)


def window_from(row: tuple[Any, ...]) -> Window:
    """A row of the table of windows as a window."""
    index, start_s, duration_s, configuration, readings, samples, problems, aborted = row
    seen = (json.loads(configuration), json.loads(readings))
    return Window(index, start_s, duration_s, *seen, samples, tuple(json.loads(problems)), aborted)


def stored_move_from(row: tuple[Any, ...]) -> StoredMove:
    """A row of the table of moves as a stored move."""
    number, index, proposed, move, state, detail, took_s, configuration = row
    after = json.loads(configuration) if configuration else None
    return StoredMove(number, index, move_from(proposed), move_from(move), MoveState(state), detail, took_s, after)
