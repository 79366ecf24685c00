"""The doctor's findings on a running Squid."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.plants import _findings
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.process import SquidMaster
from trimtab.sensors import resources


def findings(master: SquidMaster) -> tuple[Finding, ...]:
    """Findings on one Squid; nothing is changed."""
    clock = SystemClock()
    return _findings.of(f"squid pid {master.pid}", lambda: Squid(clock, Attached(master, clock)), _said)


def _said(plant: Squid) -> Iterable[Finding]:
    """Findings on one that was attached to."""
    where = ", ".join(f"{address} port {port}" for address, port in plant.listeners)
    yield Finding("", True, f"listens at {where}, manager at {plant.manager_url}")
    yield from _findings.knobs(plant, lambda _: f"to be set in {plant.location()}")
    yield from _findings.notes(plant.notes)
    yield from resources.probe(plant.pid)
