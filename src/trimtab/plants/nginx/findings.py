"""The doctor's findings on a running nginx: its knobs, its status page, and how it can be changed."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _findings
from trimtab.plants.nginx import stub_status
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.locations import Nowhere
from trimtab.plants.nginx.plant import Nginx
from trimtab.plants.nginx.process import Master
from trimtab.sensors import accept_queue, resources, shim


def findings(master: Master) -> tuple[Finding, ...]:
    """Findings on one nginx; nothing is changed."""
    attached: list[Attached] = []

    def make() -> Nginx:
        attached.append(Attached(master))
        return Nginx(SystemClock(), attached[0])

    return _findings.of(f"nginx pid {master.pid}", make, lambda _: _said(attached[0]))


def _said(nginx: Attached) -> Iterable[Finding]:
    clock, pid, page = SystemClock(), nginx.master.pid, nginx.page
    addresses = ", ".join(f"{host}:{port}" for host, port in nginx.listeners)
    yield Finding("", True, f"on {addresses}, configured by {nginx.program.config_file}")
    yield from accept_queue.probe(nginx.listeners, pid, clock)
    yield from resources.probe(pid)
    if page is not None:
        yield from stub_status.probe(page.url, clock, page.host)
    if nginx.shared is not None:
        yield from shim.probe(nginx.shared)
    for name in nginx.possible:
        yield _knob(nginx, name)
    yield from _findings.notes(nginx.notes)


def _knob(nginx: Attached, name: str) -> Finding:
    """Whether a knob can be moved, where, and if not how to make it so."""
    location, now = nginx.possible[name], f"{nginx.in_force[name]} now"
    if isinstance(location, Nowhere):
        return Finding(name, False, f"{now}; {location.why}", location.enable)
    if name not in nginx.knobs:
        return Finding(name, False, f"{now}: connections are not kept", "set a time above 0")
    try:
        nginx.permitted([location.path], False)
    except (UsageError, PlantGone) as error:
        return Finding(name, False, f"{now}; cannot be changed from here", str(error))
    span = nginx.knobs[name].domain
    return Finding(name, True, f"{now}, {span.minimum}..{span.maximum} possible; set in {location.path}")
