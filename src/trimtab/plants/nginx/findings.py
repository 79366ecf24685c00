"""What the doctor says of a running nginx: its knobs, its status page, and what it takes to change it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _own_file
from trimtab.plants.nginx import edits, stub_status
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.places import NAME, Nowhere
from trimtab.plants.nginx.process import Master
from trimtab.sensors import accept_queue, resources, shim
from trimtab.trust import require_trusted


def findings(master: Master) -> tuple[Finding, ...]:
    """What can be done with one nginx; nothing is changed."""
    subject = f"nginx pid {master.pid}"
    try:
        nginx = Attached(master)
    except UsageError as error:
        reason, _, enable = str(error).partition(": ")
        return (Finding(subject, False, reason, enable or "see the reason"),)
    except (PlantGone, OSError) as error:
        return (Finding(subject, False, f"cannot be read: {error}", "try again; it may just have ended"),)
    addresses = ", ".join(f"{host}:{port}" for host, port in nginx.listeners)
    found = [Finding(subject, True, f"on {addresses}, configured by {nginx.program.config_file}")]
    found += [replace(one, subject=f"{subject} {one.subject}") for one in _sensors(nginx)]
    found += [_knob(nginx, subject, knob) for knob in nginx.possible]
    return (*found, *(Finding(f"{subject} note", True, note) for note in nginx.notes))


def _knob(nginx: Attached, subject: str, name: str) -> Finding:
    """Whether a knob can be moved, where, and what would make it possible."""
    place, now = nginx.possible[name], f"{nginx.in_force[name]} now"
    if isinstance(place, Nowhere):
        return Finding(f"{subject} {name}", False, f"{now}; {place.why}", place.enable)
    if name not in nginx.knobs:
        return Finding(f"{subject} {name}", False, f"{now}: connections are not kept", "set a time above 0")
    try:
        permitted(nginx, [place.path])
    except (UsageError, PlantGone) as error:
        return Finding(f"{subject} {name}", False, f"{now}; cannot be changed from here", str(error))
    span = nginx.knobs[name].domain
    return Finding(f"{subject} {name}", True, f"{now}, {span.minimum}..{span.maximum} possible; set in {place.path}")


def _sensors(nginx: Attached) -> tuple[Finding, ...]:
    """What its sensors can say."""
    clock, pid, page = SystemClock(), nginx.master.pid, nginx.page
    found = (*accept_queue.probe(nginx.listeners, pid, clock), *resources.probe(pid))
    found += () if page is None else stub_status.probe(page.url, clock, page.host)
    return found if nginx.shared is None else (*found, *shim.probe(nginx.shared))


def permitted(nginx: Attached, paths: Iterable[Path]) -> None:
    """Makes sure that nginx may be signalled and these files written.

    Args:
        nginx: the running nginx.
        paths: our own files, or the operator's that are to be edited.

    Raises:
        UsageError: not by us, or what stands there is not ours.
        PlantGone: it has ended.
    """
    nginx.master.signal(0)
    for path in paths:
        require_trusted(path.parent)
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"no permission to write in {path.parent}: run as its owner or as root")
        own = path if path.name == NAME else edits.beside(path)
        text = _own_file.read(own)
        if text is not None and _own_file.leftover(text) is None:
            raise UsageError(f"{own} was not written by trimtab, or was edited since: move it away")
