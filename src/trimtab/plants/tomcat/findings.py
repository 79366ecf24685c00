"""The doctor's findings on a running Tomcat; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.plants import _findings
from trimtab.plants.tomcat.attached import Attached
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.sensors import resources


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
    yield from resources.probe(plant.pid)
