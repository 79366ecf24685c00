"""liu2003 on the real testbed: the response-time curve, the methods on it, and a workload that changes.

Parts are sweeps (Table I, Fig. 4, 6, 10, 11), comparisons (Fig. 13, 14, 15, Table IV) and the switch, which the paper
has not. The paper's methods run as the paper has them, with the knob's domain as their only guard, where nothing else
is said; trim runs with the guards of `trimtab tune`. Where M of a gate moves live, the server is not touched after
its start. Time runs faster than in the paper by the set-up's scale. The figures and the summary are made from what
was stored; a part that was not run is not in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.lab import FIXED, Arm, Lab
from trimtab.lab._beds import WARM_S, OnApache
from trimtab.lab._gated import LiveLimit
from trimtab.testbed import setups
from trimtab.testbed.setups import Setup

PARTS = {
    "sweep-dynamic": "response time against MaxRequestWorkers, dynamic pages (Table I, Fig. 4, 6, 10)",
    "sweep-static": "the same with static files (Table I, Fig. 6, 11)",
    "compare-dynamic": "default, newton, fuzzy, saturation, best fixed, trim: dynamic pages (Fig. 13, 14, Table IV)",
    "compare-static": "default, fuzzy, saturation, best fixed, trim: static files (Fig. 15, Table IV)",
    "debian-dynamic": "the same from Debian's own pool: 5 processes at first, 5 to 10 idle ones kept",
    "debian-static": "the same from Debian's own pool, static files",
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
"""Long enough for the idle processes beyond M to leave by themselves, one a second."""
DEBIANS_START, DEBIANS_SPARE = 5, (5, 10)
"""Processes at the start, and least and most idle ones, as Debian ships. Also where M moves live: a reload ends the
processes beyond its limit; under a gate a server that kept its whole pool would begin them anew."""
SWITCH_AT_S = 34.0
SWITCH_S = 100.0
SWITCHED_S = SWITCH_AT_S - WARM_S
"""When the workload changes, on the run's clock."""
GUARDED = " with guards"
"""Ends the label of a paper's method that runs with the guards of `trimtab tune`, as users get it."""
METHODS = {
    **dict.fromkeys(
        ("compare-dynamic", "debian-dynamic"),
        ("static", "newton", "fuzzy", "saturation", f"saturation{GUARDED}", FIXED, "trim"),
    ),
    **dict.fromkeys(("compare-static", "debian-static"), ("static", "fuzzy", "saturation", FIXED, "trim")),
    "long-dynamic": ("fuzzy", FIXED, f"fuzzy{GUARDED}"),
    "long-static": ("fuzzy", FIXED),
    "live-dynamic": ("static", "saturation", FIXED, "trim"),
    "switch": ("trim", FIXED),
}
"""Labels in their order. `FIXED` is the best setting of the sweep, held: the others are compared with it, so it
runs among them, next to trim."""


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a part for one seed."""
    kind, _, name = part.partition("-")
    if kind == "switch":
        return _switch(part, seed)
    setup = setups.SETUPS[name]
    if kind == "sweep":
        beds = [OnApache(setup, start=m) for m in setup.sweep]
        return [Arm(part, str(bed.start), seed, bed, "static", SWEEP_S, guarded=False) for bed in beds]
    pooled = replace(setup, spec=replace(setup.spec, spare_workers=DEBIANS_SPARE))
    if kind == "debian":
        setup = replace(pooled, spec=replace(pooled.spec, start_servers=DEBIANS_START))
    if kind == "live":
        found = [_arm(part, m, pooled, seed, (LIVE_S, COMPARE_WINDOW_S)) for m in METHODS[part]]
        return [replace(arm, bed=LiveLimit(**vars(arm.bed))) for arm in found]
    times = (LONG_S, LONG_WINDOW_S) if kind == "long" else (COMPARE_S, COMPARE_WINDOW_S)
    return [_arm(part, m, setup, seed, times) for m in METHODS[part]]


def _arm(part: str, label: str, setup: Setup, seed: int, times: tuple[float, float]) -> Arm:
    """One arm: a method from the shipped default, or the reference; times are those of the run and of a window."""
    if label == FIXED:
        return Arm(part, label, seed, OnApache(setup, start=setup.reference), "static", *times, guarded=False)
    method = label.removesuffix(GUARDED)
    return Arm(part, label, seed, OnApache(setup), method, *times, guarded=method == "trim" or method != label)


def _switch(part: str, seed: int) -> list[Arm]:
    """trim through the change, then the best setting for the later workload, on that alone."""
    bed = OnApache(setups.DYNAMIC, populations=setups.switch(SWITCH_AT_S))
    moving = [Arm(part, m, seed, bed, m, SWITCH_S) for m in METHODS[part] if m != FIXED]
    return [*moving, _arm(part, FIXED, setups.STATIC, seed, (COMPARE_S, COMPARE_WINDOW_S))]


LAB = Lab(
    "liu2003",
    "Online Response Time Optimization of Apache Web Server, on the real testbed",
    PARTS,
    arms,
    results="trimtab.lab._liu2003_results",
)
