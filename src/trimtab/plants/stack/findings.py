"""The doctor's findings on a stack: tier by tier which knobs can be moved, and what would enable the rest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.core import Configuration, Finding, Knob, Plant
from trimtab.errors import OperatorEdit, PlantError, TrimtabError, UsageError
from trimtab.plants import _findings
from trimtab.plants.stack import clients
from trimtab.plants.stack.clients import Clients
from trimtab.plants.stack.description import Description
from trimtab.plants.stack.tiers import attached, check


def of(description: Description, base: Path) -> Iterable[Finding]:
    """Findings on each tier, and on the clients.

    Raises:
        UsageError: a tier's table is wrong, whatever runs here.
    """
    check(description, base)
    for tier in description.tiers:
        make = partial(attached, description, tier, base, SystemClock(), 0)
        yield from _findings.of(f"tier {tier}", make, _tier)
    if description.clients is not None:
        yield _clients(description, base)


def _tier(plant: Plant) -> Iterable[Finding]:
    """Each knob of a tier, and notes for the user."""
    now = plant.configuration()
    where = f"{plant.name}{'' if plant.pid is None else f' pid {plant.pid}'}"
    yield Finding("", True, f"{where}, {len(now)} knobs")
    try:
        plant.check_permissions()
        reason = ""
    except TrimtabError as error:
        reason = str(error)
    for knob in plant.knobs():
        yield _knob(plant, knob, now, reason)
    yield from _findings.notes(plant.notes)


def _knob(plant: Plant, knob: Knob, now: Configuration, reason: str) -> Finding:
    """Whether a knob can be moved: by preparing a change of it, which touches nothing, and taking it back."""
    domain, value = knob.domain, now[knob.name]
    near = [domain.clip(value + side * domain.step) for side in (1, -1)]
    other = [one for one in near if one != value and not plant.objection({**now, knob.name: one})]
    if not reason and other:
        try:
            plant.rollback(plant.prepare({knob.name: other[0]}))
        except (PlantError, OperatorEdit, UsageError) as error:
            reason = str(error)
    return Finding(knob.name, not reason, f"{_findings.span(knob, value)} ({knob.how})", reason)


def _clients(description: Description, base: Path) -> Finding:
    """Whether the clients can reach the server."""
    assert description.clients is not None
    try:
        own = clients.traffic(description.clients, base, 0)
        Clients(own, SystemClock()).require_reachable()
    except TrimtabError as error:
        return Finding("clients", False, str(error), "see the reason")
    return Finding("clients", True, f"{own.target.endpoint} takes their connections")
