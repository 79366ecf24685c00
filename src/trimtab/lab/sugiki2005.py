"""sugiki2005 on the real testbed: throughput and response time against the keep-alive time, and controllers of it.

An unmodified Apache prefork with 512 workers and a keep-alive time of 15 s runs with the shim in it, as `trimtab run`
starts it; SPECweb99-like clients who think come in growing numbers. Fixed times are set live, as `trimtab keep-alive
set` does, and only `off` is the server's own configuration. The controllers start from the server's 15 s and are
told nothing. The same is done on the event MPM and on nginx, which the paper has not, and with MaxRequestWorkers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trimtab import discovery, own
from trimtab.core import Objective
from trimtab.decision import Oversight
from trimtab.errors import UsageError
from trimtab.guard.domain import Domain
from trimtab.lab import Context, chosen
from trimtab.lab import _sugiki2005_scenes as scenes
from trimtab.lab._arm import aside, stored_loop, under_load
from trimtab.lab._results import new_folder
from trimtab.lab._sensed import sensed
from trimtab.lab._sugiki2005_joint import run_joint
from trimtab.lab._sugiki2005_scenes import Case
from trimtab.plants._names import KEEP_ALIVE
from trimtab.settings import Settings
from trimtab.workloads._specweb99_files import Mix

PARTS = {
    "standard": "load (a): keep-alive times and controllers against 400 to 1600 clients (Table 1, Fig. 7 to 10)",
    "large": "load (b), large files (Fig. 11 to 13)",
    "switch": "load (a) gives way to (b) in mid-run, and the controllers follow (no figure in the paper)",
    "event": "load (a) on the event MPM, where an idle connection holds no worker",
    "nginx": "load (a) on nginx",
    "joint": "MaxRequestWorkers and the keep-alive time alone, in turn and together, under a memory limit (liu2003)",
    "production": "request intervals of load (a) and of SURGE's users where nothing ends a connection early (Fig. 2)",
}
OBJECTIVE = Objective("client_response_time_s")


@dataclass(frozen=True)
class Sugiki2005:
    """The experiments of sugiki2005."""

    description: str = "Keep-alive time that follows the request intervals (Sugiki et al. 2005), on the real testbed"
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)
    knobs: tuple[str, ...] = (KEEP_ALIVE,)
    objective: str = OBJECTIVE.metric

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs the parts for every seed; then writes raw data, figures and summary."""
        wanted = chosen(PARTS, parts)
        if context.report is not None:
            raise UsageError("sugiki2005 writes no report: '--results FOLDER' has its figures and summary")
        for program in ("apache2", *(("nginx",) if "nginx" in wanted else ())):
            if not own.program(program):
                raise UsageError(
                    f"no {program} on this machine: install what packages.txt lists (make setup, as root)"
                )
        folder: Path | None = new_folder(context.results) if context.results is not None else None
        ids: list[int] = []
        try:
            for part in wanted:
                # Repeats are interleaved, so that a slow drift of the machine meets all alike.
                for seed in context.seeds:
                    ids += run_joint(context, seed) if part == "joint" else _run_all(cases(part, seed), context)
        finally:
            if ids and folder is not None:
                self._write(folder, context, ids)

    def write(self, run_ids: Sequence[int], context: Context) -> None:
        """Writes raw data, figures and summary of stored runs into the results folder."""
        if context.results is None:
            raise UsageError("sugiki2005 writes into a folder: name it with '--results FOLDER'")
        self._write(new_folder(context.results), context, run_ids)

    def _write(self, folder: Path, context: Context, ids: Sequence[int]) -> None:
        from trimtab.lab._sugiki2005_summary import write  # loads the plotting library, which no run needs

        write(folder, context.store, ids)
        context.say(f"results: {folder}")


def cases(part: str, seed: int) -> list[Case]:
    """The runs of a part for one seed.

    Raises:
        UsageError: there is no such part, or it is no list of runs that follow from nothing.
    """
    if part in ("standard", "large"):
        return scenes.sweep(part, Mix(part), seed)
    if part in ("event", "nginx"):
        return scenes.others(part, seed)
    if part == "switch":
        return scenes.switch(part, seed)
    if part == "production":
        return scenes.production(part, seed)
    raise UsageError(f"part {part!r} has no list of runs")


def _run_all(wanted: Sequence[Case], context: Context) -> list[int]:
    """Runs cases, one after the other."""
    ids = []
    for number, case in enumerate(wanted, 1):
        context.say(
            f"[{number}/{len(wanted)}] {case.part}: {case.label}, {case.users} clients, seed {case.seed}, "
            f"{case.duration_s:g} s"
        )
        ids.append(run_case(case, context))
    return ids


def run_case(case: Case, context: Context) -> int:
    """Runs one case and returns the number of its run in the store.

    Raises:
        TrimtabError: the testbed could not be set up, or it was stopped from outside.
    """
    spec = case.spec()
    with sensed(spec) as (bed, keep_alive, _), aside(spec.cpus) as cpu:
        if case.time_ms is not None:
            keep_alive.apply({KEEP_ALIVE: case.time_ms})
        times = (scenes.WARM_S, case.load_s())
        with under_load(keep_alive, bed.port, case.clients(), times, case.seed, cpu) as plant:
            controller = discovery.load("trimtab.controllers", case.method).CONTROLLER(OBJECTIVE)
            settings = Settings(case.window_s, case.duration_s, OBJECTIVE, settle_s=0.0, early=0.0, seed=case.seed)
            facts = {**case.facts(), "confinement": bed.confinement}
            method = (case.method, controller)
            return stored_loop(
                context,
                plant,
                method,
                keep_alive.knobs(),
                settings,
                Oversight((Domain(),)),
                case.part,
                case.label,
                facts,
                {"steady": case.steady()},
            )


LAB = Sugiki2005()
