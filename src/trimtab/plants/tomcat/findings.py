"""The doctor's findings on a running Tomcat; nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.plants import _findings
from trimtab.plants.tomcat.attached import Attached
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.sensors import resources

MOST_EACH = 4
"""Tomcats of another user that are looked at: anybody can start processes that look like one and never answer."""


def chosen(running: Sequence[TomcatProcess]) -> tuple[list[TomcatProcess], tuple[Finding, ...]]:
    """The Tomcats to look at, the own ones first, then in turn one of each user; and a line on those left out."""
    seen, ranked, left = Counter[int | None](), list[tuple[int, TomcatProcess]](), Counter[int | None]()
    for one in running:
        seen[one.user] += 1
        if not one.own and seen[one.user] > MOST_EACH:
            left[one.user] += 1
        else:
            ranked.append((0 if one.own else seen[one.user], one))
    ranked.sort(key=lambda pair: pair[0])
    said = {user: f"{number} more that uid {user} runs were not looked at" for user, number in left.items()}
    how = "name one: trimtab observe tomcat --pid PID"
    return [one for _, one in ranked], tuple(Finding("tomcat", False, line, how) for line in said.values())


def findings(process: TomcatProcess) -> tuple[Finding, ...]:
    """Findings on one Tomcat."""
    clock = SystemClock()
    return _findings.of(f"tomcat pid {process.pid}", lambda: Tomcat(clock, Attached(process, clock)), _said)


def _said(plant: Tomcat) -> Iterable[Finding]:
    """Findings on one that was attached to."""
    ports = ", ".join(f"{address}:{port}" for address, port in plant.listeners)
    yield Finding("", True, f"listens at {ports}")
    yield from _findings.knobs(plant, lambda _: "to be set by JMX")
    yield from _findings.notes(plant.notes)
    yield from resources.probe(plant.pid, workers=False)
