"""The kernel under the web stack: lamp2016's factorial on today's kernel, and the factors that are real today.

Every part is a full factorial in randomised blocks: a seed is a block, in which each cell is measured once and the
control once more, in an order of the block's own. The placebo factor is kept as one: the slice of SCHED_RR, which
the paper varied, governs none of a web server's threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from trimtab.core import Objective, Role
from trimtab.experiments.design import Cell as Levels
from trimtab.experiments.design import Factor, block, full, usual
from trimtab.lab import Arm, Lab
from trimtab.lab._lamp2016_beds import ONE, TWO, Cell, Machine
from trimtab.report.track import Track

RR = Factor("rr slice", ("100 ms", "5 ms", "25 ms"), placebo=True)
"""kernel.sched_rr_timeslice_ms: the paper's time slice."""
LATENCY = Factor("slice", ("default", "0.1 ms", "100 ms"))
"""The slice of each thread: what is left of the paper's kernel.sched_latency_ns."""
SWAPPINESS = Factor("swappiness", ("60", "0", "100"))
SLICE = Factor("slice", ("default", "0.1 ms", "5 ms", "25 ms"))
POLICY = Factor("policy", ("other", "batch"))
NICE = Factor("nice", ("0", "-5"))
ZRAM = Factor("swappiness", ("60", "0", "100", "180"))
SET: Mapping[tuple[str, str], tuple[str, int]] = {
    ("rr slice", "100 ms"): ("rr_timeslice_ms", 100),
    ("rr slice", "5 ms"): ("rr_timeslice_ms", 5),
    ("rr slice", "25 ms"): ("rr_timeslice_ms", 25),
    ("slice", "0.1 ms"): ("slice_us", 100),
    ("slice", "5 ms"): ("slice_us", 5000),
    ("slice", "25 ms"): ("slice_us", 25_000),
    ("slice", "100 ms"): ("slice_us", 100_000),
    ("policy", "batch"): ("sched_policy", 1),
    ("nice", "-5"): ("sched_nice", -5),
    **{("swappiness", level): ("group_swappiness", int(level)) for level in ("60", "0", "100", "180")},
}
"""The knob of the plant linux that a level is, and its value; a level that is not here changes nothing."""
PAPER = (RR, LATENCY, SWAPPINESS)
CONTROL = "control"
METRIC, P99 = "benchmark_score", "benchmark_p99_s"


@dataclass(frozen=True)
class Part:
    """A factorial.

    Args:
        what: what it shows, in one line.
        program: the benchmark.
        machine: the set-up.
        factors: what is varied.
        window_s: length of a measurement, in seconds.
    """

    what: str
    program: str
    machine: Machine
    factors: tuple[Factor, ...]
    window_s: float = 8.0


PARTS = {
    "apache-one": Part("the paper's 27 cells: Apache under ab, on one core with 256 MiB", "ab", ONE, PAPER),
    "php-one": Part("the paper's 27 cells: PHP's interpreter, on one core", "php", ONE, PAPER, 4.0),
    "apache-two": Part("the paper's 27 cells: Apache under ab, on two cores with 1 GiB", "ab", TWO, PAPER),
    "php-two": Part("the paper's 27 cells: PHP's interpreter, on two cores", "php", TWO, PAPER, 4.0),
    "wrk": Part("today's pts/apache: wrk with kept connections", "wrk", TWO, (SLICE, POLICY)),
    "slap": Part(
        "MariaDB under mariadb-slap, which the paper names and does not report", "slap", TWO, (SLICE, POLICY)
    ),
    "sysbench": Part("MariaDB under sysbench's oltp_read_write, as pts/mariadb", "sysbench", TWO, (SLICE, POLICY)),
    "stack": Part(
        "Apache with PHP beside batch jobs on one core: open arrivals", "stack", ONE, (SLICE, POLICY, NICE)
    ),
    "memory": Part("liu2003's dynamic page with less memory than workers", "memory", ONE, (ZRAM, POLICY)),
}


ONLINE, LEFT, TUNED = "online", "left alone", "tune linux"
ONLINE_S = 160.0
"""Twenty windows: a knob's two neighbours are judged in some six."""


def arms(part: str, seed: int) -> Sequence[Arm]:
    """A block of a part, in its order."""
    if part == ONLINE:
        return _online(seed)
    one, found, controls = PARTS[part], [], 0
    control = usual(one.factors)
    for levels in block(full(one.factors), seed, control):
        again = levels == control and controls > 0
        controls += levels == control
        found.append(_arm(part, one, levels, CONTROL if again else label(levels), seed))
    return found


def _online(seed: int) -> Sequence[Arm]:
    """The stack beside its batch jobs left alone, and under `tune linux` with the knobs of the factorial."""
    both = [
        Arm(
            ONLINE,
            name,
            seed,
            Cell("stack", ONE),
            controller,
            ONLINE_S,
            PARTS["stack"].window_s,
            Objective(P99),
            roles=(Role.SLICE, Role.SCHEDULING_POLICY, Role.PRIORITY),
        )
        for name, controller in ((LEFT, "static"), (TUNED, "climb"))
    ]
    return both if seed % 2 else both[::-1]


def label(levels: Levels) -> str:
    """A cell in words, as it stands in tables."""
    return ", ".join(f"{name} {level}" for name, level in levels.items())


def _arm(part: str, one: Part, levels: Levels, name: str, seed: int) -> Arm:
    values = tuple(SET[pair] for pair in levels.items() if pair in SET)
    return Arm(
        part,
        name,
        seed,
        Cell(one.program, one.machine, values),
        "static",
        one.window_s,
        one.window_s,
        Objective(METRIC, minimize=False),
        roles=(),
        guarded=False,
        paced=False,
        extras={"levels": dict(levels)},
    )


def _described() -> dict[str, str]:
    return {name: part.what for name, part in PARTS.items()} | {
        ONLINE: "the stack beside batch jobs, left alone and under `tune linux`"
    }


def told(track: Track) -> Sequence[str]:
    """The score of a run, the mean over its windows."""
    scores = [w.readings[METRIC] for w in track.windows if METRIC in w.readings]
    problems = [problem for w in track.windows for problem in w.problems if "benchmark" in problem]
    return [f"  {fmean(scores):.1f}"] if scores else [f"  not measured: {'; '.join(problems) or 'no window'}"]


LAB = Lab(
    "lamp2016",
    "the kernel's scheduler and swappiness under a web stack (lamp2016), as factorials in blocks",
    _described(),
    arms,
    knobs=("slice_us",),
    objective=METRIC,
    results="trimtab.lab._lamp2016_results",
    told=told,
    root="set what the whole machine shares, and confine private servers",
    survives=True,
)
