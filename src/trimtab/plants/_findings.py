"""The doctor's findings that are the same for all running servers; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from trimtab.core import Finding, Plant
from trimtab.errors import PlantGone, UsageError
from trimtab.plants._own_file_plant import OwnFilePlant

M = TypeVar("M")
P = TypeVar("P", bound=Plant)


def each(
    name: str, running: Sequence[M], findings: Callable[[M], tuple[Finding, ...]], enable: str, whose: str = ""
) -> tuple[Finding, ...]:
    """Findings on each server of a kind that runs here; a single one where none does.

    Args:
        name: the plant's name.
        running: the first processes.
        findings: the findings on one of them.
        enable: advice where none runs.
        whose: which of them count; empty for all.
    """
    if not running:
        return (Finding(name, False, f"none runs here {whose}".strip(), enable),)
    return tuple(finding for one in running for finding in findings(one))


def of(subject: str, make: Callable[[], P], said: Callable[[P], Iterable[Finding]]) -> tuple[Finding, ...]:
    """Findings on one server; a single one where it cannot be read.

    Args:
        subject: its name.
        make: attaches to it.
        said: the findings, whose subjects follow its name.
    """
    try:
        with closing(make()) as plant:
            return tuple(replace(one, subject=f"{subject} {one.subject}".strip()) for one in said(plant))
    except UsageError as error:
        return (Finding(subject, False, str(error), "see the reason"),)
    except (PlantGone, OSError) as error:
        return (Finding(subject, False, f"cannot be read: {error}", "try again; it may just have ended"),)


def knobs(plant: OwnFilePlant) -> Iterable[Finding]:
    """Each knob of a server that is steered by a file of ours: its value, its domain, and whether it can be moved."""
    try:
        plant.check_permissions()
        where, reason = f"to be set in {plant.location()}", ""
    except (UsageError, PlantGone) as error:
        where, reason = "cannot be changed from here", str(error)
    yield from each_knob(plant, where, reason)


def each_knob(plant: Plant, where: str, reason: str) -> Iterable[Finding]:
    """Each knob of a server: its value and its domain.

    Args:
        plant: the server.
        where: how a knob of it is set, or that it is not.
        reason: why it is not; empty when it is.
    """
    now = plant.configuration()
    for knob in plant.knobs():
        domain = knob.domain
        span = " or ".join(domain.choices) or f"{domain.minimum}..{domain.maximum} by {domain.step}"
        value = domain.shown(now[knob.name]) if domain.choices else f"{now[knob.name]} {knob.unit}"
        yield Finding(knob.name, not reason, f"{value} now, {span} possible; {where}", reason)


def notes(lines: Iterable[str]) -> Iterable[Finding]:
    """Notes for the user, as findings."""
    return (Finding("note", True, line) for line in lines)
