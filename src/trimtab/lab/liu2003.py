"""liu2003 on the real testbed: the response-time curve, the methods on it, and a workload that changes.

Parts are sweeps (Table I, Fig. 4, 6, 10, 11), comparisons (Fig. 13, 14, 15, Table IV) and the switch, which the paper
has not. The paper's methods run as the paper has them, with the knob's domain as their only guard, where nothing else
is said; trim runs with the guards of `trimtab tune`. Where M of a gate moves live, the server is not touched after
its start. Time runs faster than in the paper by the set-up's scale. The figures and the summary are made from what
was stored; a part that was not run is not in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError
from trimtab.lab import Context, chosen
from trimtab.lab._arm import FIXED, WARM_S, Arm, run_arm
from trimtab.lab._gated import run_live
from trimtab.lab._results import new_folder
from trimtab.testbed import setups
from trimtab.testbed.setups import Setup

PARTS = {
    "sweep-dynamic": "response time against MaxRequestWorkers, dynamic pages (Table I, Fig. 4, 6, 10)",
    "sweep-static": "the same with static files (Table I, Fig. 6, 11)",
    "compare-dynamic": "default, newton, fuzzy, saturation, best fixed, trim: dynamic pages (Fig. 13, 14, Table IV)",
    "compare-static": "default, fuzzy, saturation, best fixed, trim: static files (Fig. 15, Table IV)",
    "long-dynamic": "fuzzy in windows of 8 s, with and without guards, and the best fixed: it is slow",
    "long-static": "fuzzy in windows of 8 s and the best fixed, static files, where no guard has anything to say",
    "live-dynamic": "M of a gate moved live in place of reloads: default, saturation, best fixed, trim (Fig. 14)",
    "switch": "trim when dynamic pages give way to static files in mid-run",
}
SWEEP_S = 8.0
COMPARE_S, COMPARE_WINDOW_S = 56.0, 2.0
LONG_S, LONG_WINDOW_S = 168.0, 8.0
"""fuzzy compares neighbouring windows, so a window has to be longer than the backlog of a change takes to drain."""
LIVE_S = 168.0
"""Long enough for the idle processes beyond M to leave, one a second."""
LIVE_SPARE = (5, 10)
"""Least and most idle processes where M moves live, as Debian ships. A reload ends the processes beyond its limit; a
gate only stops giving them work, and a server that kept its whole pool would hold their memory for good."""
SWITCH_AT_S = 34.0
SWITCH_S = 100.0
GUARDED = " with guards"
"""Ends the label of a paper's method that runs with the guards of `trimtab tune`, as users get it."""
METHODS = {
    "compare-dynamic": ("static", "newton", "fuzzy", "saturation", f"saturation{GUARDED}", FIXED, "trim"),
    "compare-static": ("static", "fuzzy", "saturation", FIXED, "trim"),
    "long-dynamic": ("fuzzy", FIXED, f"fuzzy{GUARDED}"),
    "long-static": ("fuzzy", FIXED),
    "live-dynamic": ("static", "saturation", FIXED, "trim"),
    "switch": ("trim", FIXED),
}
"""Labels in their order. `FIXED` is the best setting of the sweep, held: what the others are compared with, so it
runs among them, next to trim."""


@dataclass(frozen=True)
class Liu2003:
    """The experiments of liu2003."""

    description: str = "Online Response Time Optimization of Apache Web Server, on the real testbed"
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)
    knobs: tuple[str, ...] = ("max_request_workers",)
    objective: str = "response_time_s"

    def run(self, parts: tuple[str, ...], context: Context) -> None:
        """Runs the parts, every repeat of every arm; then writes raw data, figures and summary."""
        arms = [arm for part in chosen(PARTS, parts) for arm in self.arms(part, context.seeds)]
        if context.report is not None:
            raise UsageError("liu2003 writes no report: '--results FOLDER' has its figures and summary")
        if not own.program("apache2"):
            raise UsageError("no apache2 on this machine: install what packages.txt lists (make setup, as root)")
        folder: Path | None = new_folder(context.results) if context.results is not None else None
        ids: list[int] = []
        try:
            for number, arm in enumerate(arms, 1):
                at = f" from {arm.start}" if arm.start is not None else ""
                context.say(
                    f"[{number}/{len(arms)}] {arm.group}: {arm.label}{at}, seed {arm.seed}, {arm.duration_s:g} s"
                )
                ids.append(run_live(arm, context) if arm.live else run_arm(arm, context))
        finally:
            if ids and folder is not None:
                self.write(ids, context)

    def write(self, run_ids: Sequence[int], context: Context) -> None:
        """Writes raw data, figures and summary of stored runs into the results folder."""
        from trimtab.lab._liu2003_summary import write  # loads the plotting library, which no run needs

        if context.results is None:
            raise UsageError("liu2003 writes into a folder: name it with '--results FOLDER'")
        write(new_folder(context.results), context.store, run_ids, SWITCH_AT_S - WARM_S)
        context.say(f"results: {context.results}")

    def arms(self, part: str, seeds: tuple[int, ...]) -> list[Arm]:
        """The runs of a part; repeats are interleaved, so that a slow drift of the machine meets all alike.

        Raises:
            UsageError: there is no such part.
        """
        chosen(PARTS, (part,))
        kind, _, name = part.partition("-")
        if kind == "sweep":
            return _sweep(part, setups.setup(name), seeds)
        if kind == "switch":
            return [arm for seed in seeds for arm in _switch(part, seed)]
        if kind == "live":
            return [_live(part, m, setups.setup(name), seed) for seed in seeds for m in METHODS[part]]
        times = (LONG_S, LONG_WINDOW_S) if kind == "long" else (COMPARE_S, COMPARE_WINDOW_S)
        return [_arm(part, m, setups.setup(name), seed, times) for seed in seeds for m in METHODS[part]]


def _arm(part: str, label: str, setup: Setup, seed: int, times: tuple[float, float]) -> Arm:
    """One arm of a comparison: a method from the shipped default, or the reference.

    Args:
        part: the comparison.
        label: a method, one with `GUARDED`, or `FIXED`.
        setup: server and workload.
        seed: source of all randomness.
        times: (length of the run, length of a window), in seconds.
    """
    if label == FIXED:
        return Arm(part, label, setup, "static", seed, *times, start=setup.reference, guarded=False)
    method = label.removesuffix(GUARDED)
    return Arm(part, label, setup, method, seed, *times, guarded=method == "trim" or method != label)


def _live(part: str, label: str, setup: Setup, seed: int) -> Arm:
    """One arm in which M of a gate moves, before a server that lets idle processes go."""
    pooled = replace(setup, spec=replace(setup.spec, spare_workers=LIVE_SPARE))
    return replace(_arm(part, label, pooled, seed, (LIVE_S, COMPARE_WINDOW_S)), live=True)


def _switch(part: str, seed: int) -> list[Arm]:
    """trim through the change, then the best setting for what it changes to, on that workload alone."""
    populations = setups.switch(SWITCH_AT_S)
    moving = [
        Arm(part, m, setups.DYNAMIC, m, seed, SWITCH_S, guarded=m == "trim", populations=populations)
        for m in METHODS[part]
        if m != FIXED
    ]
    return [*moving, _arm(part, FIXED, setups.STATIC, seed, (COMPARE_S, COMPARE_WINDOW_S))]


def _sweep(part: str, setup: Setup, seeds: tuple[int, ...]) -> list[Arm]:
    """Every setting of a sweep for every seed."""
    return [
        Arm(part, str(m), setup, "static", seed, SWEEP_S, start=m, guarded=False)
        for seed in seeds
        for m in setup.sweep
    ]


LAB = Liu2003()
