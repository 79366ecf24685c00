"""MaxRequestWorkers and the keep-alive time, each alone, one after the other, and both at once.

On liu2003's dynamic set-up, because only where a worker costs memory is there a best number of them: each holds
6.5 MB of a limit of 256 MiB once it has served a page. The keep-alive time decides how many are needed (a worker is
held through it), the memory how many there may be. `trim` moves the first by reloads, as `trimtab tune apache` does;
the second is learned by what `trimtab run --keep-alive auto` keeps going. They know nothing of one another.

Time runs 60 times as fast as in the paper: the server's own keep-alive time is 250 ms.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

from trimtab.clock import SystemClock
from trimtab.controllers.static import Static
from trimtab.controllers.trim import Trim
from trimtab.core import Controller, Objective, Plant
from trimtab.decision import Oversight
from trimtab.events import Event
from trimtab.gate.auto import Auto
from trimtab.gate.keep_alive import InCharge, Setting
from trimtab.gate.place import Place
from trimtab.lab import Context
from trimtab.lab._arm import WARM_S, aside, stored_loop, under_load
from trimtab.lab._sensed import sensed
from trimtab.plants._stack import Stack
from trimtab.plants.apache import Apache
from trimtab.plants.keep_alive import KeepAlive
from trimtab.settings import Settings
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.setups import DYNAMIC

STAGES = {
    "neither": ((False, False),),
    "M alone": ((True, False),),
    "keep-alive alone": ((False, True),),
    "M, then keep-alive": ((True, False), (False, True)),
    "keep-alive, then M": ((False, True), (True, False)),
    "together": ((True, True),),
}
"""By label: in each stage, whether M is moved and whether the keep-alive time is learned."""
STAGE_S = 60.0
WINDOW_S = 2.0
STEADY_S = 20.0
_SPARE_S = 60.0
FIRST = " (first)"
"""Ends the label of the first of two stages."""


def run_joint(context: Context, seed: int) -> list[int]:
    """Runs all labels for one seed and returns the numbers of the runs in the store.

    Raises:
        TrimtabError: the testbed could not be set up, or it was stopped from outside.
    """
    ids: list[int] = []
    for number, label in enumerate(STAGES, 1):
        context.say(f"[{number}/{len(STAGES)}] joint: {label}, seed {seed}, {sum(_times(label)):g} s")
        ids += _run(label, context, seed)
    return ids


def _times(label: str) -> tuple[float, ...]:
    """Length of each stage in s: all labels that move something have the same time in all."""
    if label == "neither":
        return (STAGE_S,)
    return (STAGE_S, STAGE_S) if len(STAGES[label]) > 1 else (2 * STAGE_S,)


def _run(label: str, context: Context, seed: int) -> list[int]:
    """Runs the stages of a label on one server."""
    spec, times = DYNAMIC.spec, _times(label)
    with sensed(spec) as (bed, keep_alive, place), aside(spec.cpus) as cpu:
        assert isinstance(bed, ApacheTestbed)
        snippets = os.fspath(bed.snippet_directory)
        with contextlib.closing(Apache.attach(SystemClock(), bed.pid, bed.status_url, snippets)) as apache:
            whole = Stack(apache, keep_alive)
            span = (WARM_S, WARM_S + sum(times) + len(times) * _SPARE_S)
            facts = {"server": apache.server, "confinement": bed.confinement}
            with under_load(whole, bed.port, DYNAMIC.workload.populations(), span, seed, cpu) as plant:
                return [
                    _stage(label, index, context, plant, (keep_alive, place), seed, facts)
                    for index in range(len(times))
                ]


def _stage(
    label: str,
    index: int,
    context: Context,
    plant: Plant,
    served: tuple[KeepAlive, Place],
    seed: int,
    facts: dict[str, str],
) -> int:
    """Runs one stage; what it has learned stays for the next."""
    moves_m, learns = STAGES[label][index]
    last = index == len(STAGES[label]) - 1
    duration_s, objective = _times(label)[index], Objective()
    name, controller = ("trim", Trim(objective)) if moves_m else ("static", Static(objective))
    method: tuple[str, Controller] = (name, controller)
    settings = Settings(WINDOW_S, duration_s, objective, seed=seed)
    knobs = tuple(k for k in plant.knobs() if k.name == "max_request_workers")
    more = {"workload": f"{DYNAMIC.name} of liu2003", "keep-alive": "auto" if learns else "held"}
    with _learning(*served, context) if learns else contextlib.nullcontext(context) as told:
        return stored_loop(
            told,
            plant,
            method,
            knobs,
            settings,
            Oversight.of(controller, objective, knobs),
            "joint",
            label if last else f"{label}{FIRST}",
            {**facts, **more},
            {"steady": [(DYNAMIC.name, duration_s - STEADY_S, duration_s)]},
        )


@contextlib.contextmanager
def _learning(keep_alive: KeepAlive, place: Place, context: Context) -> Iterator[Context]:
    """Keeps the controller of the keep-alive time going; in the end the time stays where it is."""
    auto = Auto(place, SystemClock(), context.say)

    def watching(event: Event) -> None:
        auto.watch()
        context.on_event(event)

    try:
        auto.begin(Setting(InCharge.AUTO, None))
        auto.watch()
        yield replace(context, on_event=watching)
    finally:
        auto.stop()
        learned = keep_alive.time.setting().time_ms
        keep_alive.time.write(Setting(InCharge.FIXED, learned))
