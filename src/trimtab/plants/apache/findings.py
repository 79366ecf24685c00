"""The doctor's findings on a running Apache: its knobs, its status page, and how it can be changed."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.gate.server import shared_of
from trimtab.plants import _findings
from trimtab.plants.apache.access_log import AccessLog
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.plant import Apache
from trimtab.plants.apache.process import Parent
from trimtab.sensors import accept_queue, resources, server_status, shim


def findings(parent: Parent) -> tuple[Finding, ...]:
    """Findings on one Apache; nothing is changed."""
    return _findings.of(f"apache pid {parent.pid}", lambda: Apache(SystemClock(), Attached(parent)), _said)


def _said(plant: Apache) -> Iterable[Finding]:
    addresses = ", ".join(f"{host}:{port}" for host, port in plant.listeners)
    yield Finding("", True, f"{plant.server} on {addresses}, configured by {plant.config_file}")
    yield from accept_queue.probe(plant.listeners, plant.pid, plant.clock)
    yield from resources.probe(plant.pid)
    yield from server_status.probe(plant.status_url, plant.clock)
    for sensor in plant.sensors():
        if isinstance(sensor, AccessLog):
            first, *more = map(str, sensor.there())
            yield Finding(
                "errors of requests", True, f"from {first}" + (f" and {len(more)} more logs" if more else "")
            )
    if (shared := shared_of(plant.pid)) is not None:
        yield from shim.probe(shared)
    yield from _findings.knobs(plant, lambda _: f"to be set in {plant.location()}")
    yield from _findings.notes(plant.notes)
