"""trimtab's main job in five minutes: Debian's own Apache through an hour with a rush, left alone and with trimtab.

The configuration is Debian's, all of it; the memory is 256 MiB. Before the rush nothing is wrong, and trimtab is to
do nothing. In the rush idle connections hold so many workers that the server swaps, and does not come back by itself.

On the real testbed where this machine allows its limits; else the same loop on the simulated plant, and it says so.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trimtab import own
from trimtab.core import Objective, Window
from trimtab.lab import Arm, Context, Lab, World
from trimtab.lab._beds import WARM_S, OnApache
from trimtab.lab._clients import in_all, page_time_s, time_text
from trimtab.plants.apache import DEFAULTS
from trimtab.plants.simulated import Simulated
from trimtab.report.track import Track
from trimtab.store import Store
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.content import dynamic_url
from trimtab.testbed.setups import Setup, server_cpus
from trimtab.workloads._population import Step, Url
from trimtab.workloads.wagon import Wagon

NORMAL_S, RUSH_S, AFTER_S = 40.0, 60.0, 40.0
"""An hour of a day, 25 times as fast: before a rush, the rush, and after it."""
RUSH = 5.0
"""How many times as many sessions begin in the rush."""
WINDOW_S = 2.0
SIMULATED_WARM_S = 20.0
"""Virtual time before the first window: the simulated server starts empty and is at work by then."""
SPEC = ApacheSpec(
    mpm="prefork",
    max_request_workers=150,
    server_limit=256,
    start_servers=5,
    spare_workers=(5, 10),
    keep_alive_timeout_ms=5000,
    listen_backlog=511,
    php=True,
    memory_limit_bytes=256 * 2**20,
    swap=True,
    cpus=server_cpus(),
    cpu_weight=100,
)
"""Debian's own prefork, all of it (mpm_prefork.conf, apache2.conf), with 256 MiB for the server."""
HOUR = Setup(
    "hour",
    SPEC,
    Wagon(
        class_name="pages",
        urls=(Url(dynamic_url(cpu_us=300, memory_kb=3400), cpu_s=0.0011),),
        timeout_s=10.0,
        time_scale=60.0,
        rate_scale=0.25,
        schedule=(Step(WARM_S + NORMAL_S, RUSH), Step(WARM_S + NORMAL_S + RUSH_S, 1.0)),
    ),
    (150,),
    150,
)
TITLE = "Debian's own Apache through a rush: left alone, and with trimtab"
PARTS = {"demo": "Debian's own pool through a rush, and the same with trimtab, in turn"}
APACHE = ("apache2", "httpd")
METHODS = {"left alone": "static", "trim": "trim"}


@dataclass(frozen=True)
class OnSimulated:
    """The simulated plant in virtual time, where the real testbed cannot show the effect."""

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it, and waits until it is at work."""
        with contextlib.closing(Simulated(seed=arm.seed)) as plant:
            plant.clock.sleep(SIMULATED_WARM_S)
            yield World(plant)


def arms(part: str, seed: int) -> list[Arm]:
    """Both halves for one seed."""
    bed = OnSimulated() if _unreal() else OnApache(HOUR)
    duration_s, objective = NORMAL_S + RUSH_S + AFTER_S, Objective(DEFAULTS.minimize)
    return [
        Arm(part, label, seed, bed, controller, duration_s, WINDOW_S, objective, roles=DEFAULTS.roles)
        for label, controller in METHODS.items()
    ]


def introduced(context: Context) -> None:
    """Says what will be run."""
    if why := _unreal():
        context.say(f"SIMULATED, because {why}: the same loop on the simulated plant, in virtual time")
        return
    context.say("a private Apache (prefork, PHP) on loopback, one CPU, memory limit, WAGON sessions")
    context.say("Debian's own pool and keep-alive time, 256 MiB: a normal stretch, a rush, and after it")


def told(track: Track) -> tuple[str, str]:
    """Two lines on how clients fared in a run."""
    return summary(track.label, track.windows)


def report(store: Store, run_ids: Sequence[int]) -> str:
    """The HTML page, with the clients' figures of each run in its title."""
    from trimtab.report.page import render  # loads the plotting library, which a run does not need

    runs = [store.run(run_id) for run_id in run_ids]
    said = [summary(run.plan.label, store.windows(run.id))[0] for run in runs]
    return render(store, run_ids, f"{TITLE}. For its clients: {'; '.join(said)}")


def summary(label: str, windows: Sequence[Window]) -> tuple[str, str]:
    """Two lines on how clients fared in a run: in all, and in each part of the hour.

    Args:
        label: the run's label.
        windows: its windows.
    """
    ends, parts, begin_s = (NORMAL_S, NORMAL_S + RUSH_S, math.inf), [], 0.0
    for name, end_s in zip(("before", "rush", "after"), ends, strict=True):
        parts.append(f"{name} {time_text(page_time_s([w for w in windows if begin_s <= w.start_s < end_s]))}")
        begin_s = end_s
    return in_all(label, windows), f"  mean time of a page for the client: {', '.join(parts)}"


def _unreal() -> str:
    """Why the real testbed cannot show the effect here; empty when it can."""
    if not any(own.program(name) for name in APACHE):
        return "there is no Apache on this machine (as root, 'make demo' installs it)"
    if os.geteuid() != 0:
        return "only root can limit the memory of a private Apache"
    return ""


LAB = Lab(
    "demo",
    "trimtab's main job: Debian's own Apache through a rush, left alone and tuned (5 minutes)",
    PARTS,
    arms,
    knobs=("max_request_workers", "keep_alive_timeout_ms"),
    objective=DEFAULTS.minimize,
    report=report,
    told=told,
    programs=(),
    conditions=introduced,
)
