"""What the doctor says of a running Apache: its knobs, its status page, and what it takes to change it."""

from __future__ import annotations

from dataclasses import replace

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.gate.server import shared_of
from trimtab.plants import _own_file
from trimtab.plants.apache import status
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.knobs import knobs
from trimtab.plants.apache.place import place
from trimtab.plants.apache.process import Parent
from trimtab.sensors import accept_queue, resources, server_status, shim


def findings(parent: Parent) -> tuple[Finding, ...]:
    """What can be done with one Apache; nothing is changed."""
    subject = f"apache pid {parent.pid}"
    try:
        apache = Attached(parent)
    except UsageError as error:
        forbidden = "forbidden" in str(error) or "status page" in str(error)
        return (Finding(subject, False, str(error), status.HOW_TO if forbidden else "see the reason"),)
    except (PlantGone, OSError) as error:
        return (Finding(subject, False, f"cannot be read: {error}", "try again; it may just have ended"),)
    limits = apache.limits
    version = ".".join(map(str, apache.origin.version))
    addresses = ", ".join(f"{host}:{port}" for host, port in apache.listeners)
    found = [
        Finding(
            subject, True, f"Apache {version} {limits.mpm} on {addresses}, configured by {apache.origin.config_file}"
        ),
    ]
    found += [replace(one, subject=f"{subject} {one.subject}") for one in _sensors(apache)]
    try:
        permitted(apache)
        path = place(apache.origin, apache.config, None, apache.in_force)
        _own_file.writable(path, None)
    except (UsageError, PlantGone) as error:
        reason, usable = str(error), False
    else:
        reason, usable = f"to be set in {path}", True
    for knob in knobs(limits):
        span = f"{knob.domain.minimum}..{knob.domain.maximum} by {knob.domain.step}"
        value = apache.in_force[knob.name]
        detail = f"{value} {knob.unit} now, {span} possible; {reason if usable else 'cannot be changed from here'}"
        found.append(Finding(f"{subject} {knob.name}", usable, detail, "" if usable else reason))
    if not limits.keep_alive:
        found.append(Finding(f"{subject} keep_alive_timeout_ms", False, "KeepAlive is Off", "set 'KeepAlive On'"))
    return (*found, *(Finding(f"{subject} note", True, note) for note in apache.notes))


def _sensors(apache: Attached) -> tuple[Finding, ...]:
    """What its sensors can say."""
    clock, pid = SystemClock(), apache.master.pid
    queues = accept_queue.probe(apache.listeners, pid, clock)
    found = (*queues, *resources.probe(pid), *server_status.probe(apache.status_url, clock))
    shared = shared_of(pid)
    return found if shared is None else (*found, *shim.probe(shared))


def permitted(apache: Attached) -> None:
    """Makes sure that Apache may be signalled.

    Raises:
        UsageError: not by us.
        PlantGone: it has ended.
    """
    apache.master.signal(0)
