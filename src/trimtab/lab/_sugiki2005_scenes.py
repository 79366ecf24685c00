"""The runs of sugiki2005's experiments: server, clients, keep-alive time or controller, and how long."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.testbed import sugiki2005
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx_config import NginxSpec
from trimtab.testbed.setups import server_cpus
from trimtab.workloads._population import Population
from trimtab.workloads._specweb99_files import Mix
from trimtab.workloads._surge_files import FileSet
from trimtab.workloads.surge import Surge

OFF = "off"
OWN_MS = sugiki2005.DEFAULT_MS
SETTINGS = {
    **{OFF: 0, "200 ms": 200, "400 ms": 400, "600 ms": 600, "800 ms": 800, "1 s": 1000, "2 s": 2000},
    "15 s": OWN_MS,
}
"""The fixed keep-alive times in ms. 15 s is the server's own: nothing is set there, and nothing is tried."""
AUTO = {"keep-alive": 0.6, "keep-alive-cost": 2.0}
"""Controllers and their windows in s. The paper's wants 500 intervals for a control and gets one a window at most."""
PAPERS = "keep-alive"
"""The paper's controller."""
COUNTS = {Mix.STANDARD: (400, 800, 1200, 1600), Mix.LARGE: (400, 600, 800, 1200)}
"""Clients of a sweep: fewer than the workers can hold, about as many, and more."""
PAPERS_MOST = 1200
"""Clients up to which the paper's sweeps go; beyond, a few settings are enough."""
FEW = ("off", "400 ms", "2 s", "15 s")
"""Settings for where not all of them are needed."""
MANY = (1200, 1600)
SWITCHED = 800
"""Clients of a switch: those whom 512 workers can hold with either load."""
WARM_S = 10.0
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
_SPARE_S = 20.0
"""Load after the planned end of a run."""


@dataclass(frozen=True)
class Case:
    """One run to make.

    Args:
        part: the experiment that it belongs to.
        label: what it is in there: a setting or a controller.
        seed: source of the load's randomness.
        users: clients.
        mix: load (a) or (b); the one before a switch.
        server: prefork, event or nginx.
        duration_s: length of the run, in seconds.
        switches: whether load (a) gives way to (b) after `SWITCH_S`.
        surge: whether SURGE's users come in place of SPECweb99's.
    """

    part: str
    label: str
    seed: int
    users: int
    mix: Mix = Mix.STANDARD
    server: str = "prefork"
    duration_s: float = FIXED_S
    switches: bool = False
    surge: bool = False

    @property
    def method(self) -> str:
        """The controller's registered name."""
        return self.label if self.label in AUTO else "static"

    @property
    def window_s(self) -> float:
        """Length of a window, in seconds."""
        return AUTO.get(self.label, WINDOW_S)

    @property
    def time_ms(self) -> int | None:
        """The keep-alive time to set before the load comes; None to leave the server its own."""
        wanted = SETTINGS.get(self.label, OWN_MS)
        return None if wanted in (0, OWN_MS) else wanted

    def spec(self) -> ApacheSpec | NginxSpec:
        """The server as it is started."""
        own_ms = 0 if self.label == OFF else OWN_MS
        if self.server == "nginx":
            return NginxSpec(
                keep_alive_timeout_ms=own_ms,
                specweb99_directories=sugiki2005.DIRECTORIES,
                cpus=server_cpus(),
                cpu_weight=100,
            )
        spec = sugiki2005.server("event" if self.server == "event" else "prefork", own_ms)
        return replace(spec, surge_files=FileSet().files) if self.surge else spec

    def clients(self) -> tuple[Population, ...]:
        """Who asks."""
        if self.surge:
            return Surge(users=self.users).populations()
        if self.switches:
            return sugiki2005.switch(self.users, WARM_S + SWITCH_S)
        return sugiki2005.clients(self.mix, self.users)

    def load_s(self) -> float:
        """How long the load lasts at most, in seconds."""
        return WARM_S + self.duration_s + _SPARE_S

    def steady(self) -> tuple[tuple[str, float, float], ...]:
        """The load and the stretches of the run over which it is judged, from and to in seconds."""
        until_s = self.duration_s
        if self.switches:
            return (
                (Mix.STANDARD.value, SWITCH_S - STEADY_S, SWITCH_S),
                (Mix.LARGE.value, until_s - STEADY_S, until_s),
            )
        since_s = until_s - STEADY_S if self.label in AUTO else 0.0
        return ((self.mix.value, since_s, until_s),)

    def facts(self) -> dict[str, str]:
        """What is recorded of it beside the machine."""
        what = "SURGE" if self.surge else f"load {'(a)' if self.mix is Mix.STANDARD else '(b)'}"
        return {
            "workload": f"{what}{', then (b)' if self.switches else ''}, {self.users} clients",
            "clients": str(self.users),
            "processing": self.server,
            "keep-alive": self.label,
        }


def sweep(part: str, mix: Mix, seed: int) -> list[Case]:
    """The settings and both controllers against the number of clients (Fig. 9, 10, 12, 13)."""
    fixed = [
        Case(part, label, seed, users, mix)
        for users in COUNTS[mix]
        for label in (FEW if users > PAPERS_MOST else SETTINGS)
    ]
    autos = [
        Case(part, label, seed, users, mix, duration_s=GATHER_S.get(users, AUTO_S) if label == PAPERS else AUTO_S)
        for users in COUNTS[mix]
        for label in AUTO
    ]
    return fixed + autos


def others(part: str, seed: int) -> list[Case]:
    """The same on a server that waits in epoll, where the paper has nothing."""
    fixed = [Case(part, label, seed, users, server=part) for users in MANY for label in FEW]
    autos = [Case(part, label, seed, users, server=part, duration_s=AUTO_S) for users in MANY for label in AUTO]
    return fixed + autos


def switch(part: str, seed: int) -> list[Case]:
    """Both controllers through the change of load, and what is right for each of them before and after."""
    moving = [Case(part, label, seed, SWITCHED, duration_s=2 * SWITCH_S, switches=True) for label in AUTO]
    held = [
        Case(part, "600 ms", seed, SWITCHED, Mix.STANDARD),
        Case(part, "400 ms", seed, SWITCHED, Mix.STANDARD),
        Case(part, "800 ms", seed, SWITCHED, Mix.LARGE),
        Case(part, "1 s", seed, SWITCHED, Mix.LARGE),
    ]
    return moving + held


def production(part: str, seed: int) -> list[Case]:
    """Intervals where no connection is ended early, of SPECweb99's users and of SURGE's (Fig. 2)."""
    one = Case(part, "15 s", seed, PRODUCTION, duration_s=PRODUCTION_S)
    return [one, Case(part, "15 s", seed, PRODUCTION, duration_s=PRODUCTION_S, surge=True)]
