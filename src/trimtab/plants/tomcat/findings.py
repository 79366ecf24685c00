"""The doctor's findings on a running Tomcat; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _findings
from trimtab.plants.tomcat.attached import Attached
from trimtab.plants.tomcat.plant import Tomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.sensors import resources


def findings(process: TomcatProcess) -> tuple[Finding, ...]:
    """Findings on one Tomcat."""
    subject = f"tomcat pid {process.pid}"

    def attach() -> Tomcat:
        clock = SystemClock()
        return Tomcat(clock, Attached(process, clock))

    found = _findings.of(subject, attach, _said)
    return (*found, *(replace(one, subject=f"{subject} {one.subject}") for one in resources.probe(process.pid)))


def _said(plant: Tomcat) -> Iterable[Finding]:
    """Findings on one that was attached to."""
    ports = ", ".join(f"{address}:{port}" for address, port in plant.listeners)
    yield Finding("", True, f"listens at {ports}")
    try:
        plant.check_permissions()
        where, reason = "to be set by JMX", ""
    except (UsageError, PlantGone) as error:
        where, reason = "cannot be changed from here", str(error)
    yield from _findings.each_knob(plant, where, reason)
    yield from _findings.notes(plant.notes)
