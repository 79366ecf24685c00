"""sugiki2005 on the real testbed: throughput and response time against the keep-alive time, and controllers of it.

An unmodified Apache prefork with 512 workers and a keep-alive time of 15 s runs with the shim in it, as `trimtab run`
starts it; SPECweb99-like clients who think come in growing numbers. Fixed times are set live, as `trimtab keep-alive
set` does, and only `off` is the server's own configuration. The controllers start from the server's 15 s and are
told nothing. The same is done on the event MPM and on nginx, which the paper has not, and with MaxRequestWorkers.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core import Objective
from trimtab.lab import Arm, Lab
from trimtab.lab._sugiki2005_beds import OWN_MS, Joint, KeptAlive
from trimtab.plants.keep_alive.knobs import KEEP_ALIVE
from trimtab.testbed.setups import DYNAMIC
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
SETTINGS = {
    **{"off": 0, "200 ms": 200, "400 ms": 400, "600 ms": 600, "800 ms": 800, "1 s": 1000, "2 s": 2000},
    "15 s": OWN_MS,
}
"""The fixed keep-alive times in ms. 15 s is the server's own: nothing is set there, and nothing is tried."""
AUTO = {"keep-alive": 0.6, "keep-alive-cost": 2.0}
"""Controllers and their windows in s. The paper's wants 500 intervals for a control and gets one a window at most."""
PAPERS = "keep-alive"
"""The paper's controller."""
COUNTS = {"standard": (400, 800, 1200, 1600), "large": (400, 600, 800, 1200)}
"""Clients of a sweep: fewer than the workers can hold, about as many, and more."""
PAPERS_MOST = 1200
"""Clients up to which the paper's sweeps go; beyond, a few settings are enough."""
FEW = ("off", "400 ms", "2 s", "15 s")
"""Settings for where not all of them are needed."""
MANY = (1200, 1600)
SWITCHED = 800
"""Clients of a switch: those whom 512 workers can hold with either load."""
WINDOW_S = 2.0
FIXED_S = 6.0
AUTO_S = 70.0
GATHER_S = {400: 100.0, 600: 80.0}
"""The paper's controller wants sixty controls from 15 s on, of 500 intervals each; then the queue has to clear."""
STEADY_S = 16.0
"""The end of a run with a controller, in which it is taken to have settled."""
SWITCH_S = 70.0
PRODUCTION, PRODUCTION_S = 400, 30.0
"""Clients, none of whom has to wait, and for how long they are watched."""
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
JOINT_STEADY_S = 20.0


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a part for one seed."""
    if part == "joint":
        return [_joint(label, seed) for label in STAGES]
    if part == "production":
        return [_arm(part, "15 s", seed, PRODUCTION, PRODUCTION_S, surge=surge) for surge in (False, True)]
    if part == "switch":
        moving = [_arm(part, label, seed, SWITCHED, 2 * SWITCH_S, switch_s=SWITCH_S) for label in AUTO]
        held = {"600 ms": Mix.STANDARD, "400 ms": Mix.STANDARD, "800 ms": Mix.LARGE, "1 s": Mix.LARGE}
        return [*moving, *(_arm(part, label, seed, SWITCHED, FIXED_S, mix=mix) for label, mix in held.items())]
    if part in ("event", "nginx"):
        fixed = [_arm(part, label, seed, users, FIXED_S, server=part) for users in MANY for label in FEW]
        return [*fixed, *(_arm(part, label, seed, users, AUTO_S, server=part) for users in MANY for label in AUTO)]
    mix, found = Mix(part), list[Arm]()
    for users in COUNTS[part]:
        labels = FEW if users > PAPERS_MOST else tuple(SETTINGS)
        found += [_arm(part, label, seed, users, FIXED_S, mix=mix) for label in labels]
    for users in COUNTS[part]:
        for label in AUTO:
            duration_s = GATHER_S.get(users, AUTO_S) if label == PAPERS else AUTO_S
            found.append(_arm(part, label, seed, users, duration_s, mix=mix))
    return found


def _arm(
    part: str,
    label: str,
    seed: int,
    users: int,
    duration_s: float,
    *,
    mix: Mix = Mix.STANDARD,
    server: str = "prefork",
    switch_s: float | None = None,
    surge: bool = False,
) -> Arm:
    """One run at a fixed time or with a controller, with the stretches over which it is judged."""
    since_s = duration_s - STEADY_S if label in AUTO else 0.0
    steady = [(mix.value, since_s, duration_s)]
    if switch_s is not None:
        ends = ((Mix.STANDARD, switch_s), (Mix.LARGE, duration_s))
        steady = [(load.value, end_s - STEADY_S, end_s) for load, end_s in ends]
    bed = KeptAlive(users, SETTINGS.get(label, OWN_MS), mix, server, switch_s, surge)
    return Arm(
        part,
        label,
        seed,
        bed,
        label if label in AUTO else "static",
        duration_s,
        AUTO.get(label, WINDOW_S),
        OBJECTIVE,
        roles=(),
        guarded=False,
        paced=False,
        extras={"clients": users, "steady": steady},
    )


def _joint(label: str, seed: int) -> Arm:
    """The last stage of a label; all labels that move something have the same time in all."""
    stages = STAGES[label]
    duration_s = STAGE_S if label == "neither" or len(stages) > 1 else 2 * STAGE_S
    names = ["trim" if moves else "static" for moves, _ in stages]
    bed = Joint(tuple(learns for _, learns in stages), names[0] if len(names) > 1 else "")
    steady = [(DYNAMIC.name, duration_s - JOINT_STEADY_S, duration_s)]
    return Arm("joint", label, seed, bed, names[-1], duration_s, WINDOW_S, extras={"steady": steady})


LAB = Lab(
    "sugiki2005",
    "Keep-alive time that follows the request intervals (Sugiki et al. 2005), on the real testbed",
    PARTS,
    arms,
    knobs=(KEEP_ALIVE,),
    objective=OBJECTIVE.metric,
    results="trimtab.lab._sugiki2005_results",
)
