"""Whether trimtab leaves a server worse than it found it: Debian's own pool at four loads, alone, tuned, and fixed.

The server is liu2003's dynamic set-up with Debian's pool (StartServers 5, 5 to 10 spare, MaxRequestWorkers 150) in
place of one that starts all 150. What counts is what clients had, all trying included: the time that all of them
waited together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trimtab.errors import UsageError
from trimtab.lab import Context, chosen
from trimtab.lab._arm import Arm, run_arm
from trimtab.lab._clients import in_all, page_time_s, time_text, total, waited_s
from trimtab.lab._results import new_folder, write_raw
from trimtab.plants.apache import HABITS
from trimtab.report.track import tracks
from trimtab.testbed.setups import DYNAMIC, Setup

DURATION_S = 90.0
WINDOW_S = 2.0
FIXED = 36
"""As many workers as fit into the memory: the best fixed setting of the audit."""
PARTS = {
    "usual": "the demo's load of liu2003: nothing is wrong with Debian's pool",
    "busy": "1.4 times that load",
    "rush": "2 times that load: Debian's pool grows until it swaps",
    "light": "a fifth of that load",
}
RATES = {"usual": 1.0, "busy": 1.4, "rush": 2.0, "light": 0.2}
ARMS = (("left alone", "static", None), ("trim", "trim", None), (f"{FIXED} fixed", "static", FIXED))


def setup_of(part: str) -> Setup:
    """Debian's pool under a part's load."""
    spec = replace(DYNAMIC.spec, start_servers=5, spare_workers=(5, 10))
    workload = replace(DYNAMIC.workload, rate_scale=DYNAMIC.workload.rate_scale * RATES[part])
    return replace(DYNAMIC, name=part, spec=spec, workload=workload)


@dataclass(frozen=True)
class Harm:
    """The comparison."""

    description: str = "never worse than left alone: Debian's own pool at four loads, left alone, tuned and fixed"
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)
    knobs: tuple[str, ...] = ("max_request_workers", "keep_alive_timeout_ms")
    objective: str = HABITS.minimize

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs the arms of each part in turn, seed by seed.

        Raises:
            UsageError: there is no such part, this user may not limit memory, or a report is asked for.
        """
        wanted = chosen(PARTS, parts)
        self._refuse_report(context)
        if os.geteuid() != 0:
            raise UsageError("only root can limit the memory of a private Apache")
        folder = None if context.results is None else new_folder(context.results)
        ids = []
        for seed in context.seeds:
            for part in wanted:
                for label, controller, start in ARMS:
                    context.say(f"{part}: {label}, seed {seed}, {DURATION_S:g} s")
                    arm = Arm(part, label, setup_of(part), controller, seed, DURATION_S, WINDOW_S, start)
                    ids.append(run_arm(replace(arm, roles=HABITS.roles, metric=HABITS.minimize), context))
                    context.say("  " + in_all(label, context.store.windows(ids[-1])))
        if folder is not None:
            self.write(ids, replace(context, results=folder))

    def write(self, run_ids: Sequence[int], context: Context) -> None:
        """Writes raw data and the table into the results folder."""
        self._refuse_report(context)
        if context.results is None:
            raise UsageError("harm writes into a folder: name it with '--results FOLDER'")
        found = tracks(context.store, run_ids)
        write_raw(context.results, found)
        rows = [
            "| load | seed | run | pages | requests given up | all clients waited | mean page time | to left alone |",
            "|---|---:|---|---:|---:|---:|---:|---:|",
        ]
        alone: dict[tuple[str, int], float] = {}
        for track in found:
            plan, windows = track.run.plan, track.windows
            key = (plan.group, plan.settings.seed)
            waited = waited_s(windows)
            ratio = waited / alone.setdefault(key, waited) if alone.get(key, waited) else float("nan")
            pages, errors = (total(name, windows) for name in ("client_page_rate_hz", "client_error_rate_hz"))
            page = time_text(page_time_s(windows))
            counts = f"{pages:.0f} | {errors:.0f} | {waited:.1f} s"
            rows.append(f"| {key[0]} | {key[1]} | {track.label} | {counts} | {page} | {ratio:.2f} |")
        text = f"# harm: {self.description}\n\n" + "\n".join(rows) + "\n"
        (context.results / "summary.md").write_text(text, encoding="utf-8")
        context.say(f"results: {context.results}")

    def _refuse_report(self, context: Context) -> None:
        if context.report is not None:
            raise UsageError("harm writes no report: '--results FOLDER' has its table")


LAB = Harm()
