"""The doctor's findings on a running Squid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.plants import _findings
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.process import SquidMaster
from trimtab.sensors import resources


def findings(master: SquidMaster) -> tuple[Finding, ...]:
    """Findings on one Squid; nothing is changed."""
    subject = f"squid pid {master.pid}"
    found = _findings.of(subject, partial(_attached, master), _said)
    return (*found, *(replace(one, subject=f"{subject} {one.subject}") for one in resources.probe(master.pid)))


def _attached(master: SquidMaster) -> Squid:
    clock = SystemClock()
    return Squid(clock, Attached(master, clock))


def _said(plant: Squid) -> Iterable[Finding]:
    """Findings on one that was attached to."""
    where = ", ".join(f"{address} port {port}" for address, port in plant.listeners)
    yield Finding("", True, f"listens at {where}, manager at {plant.manager_url}")
    yield from _findings.knobs(plant)
    yield from _findings.notes(plant.notes)
