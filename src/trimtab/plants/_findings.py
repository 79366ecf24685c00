"""The doctor's findings that are the same for all running servers; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from trimtab.clock import SystemClock
from trimtab.core import Clock, Finding, Knob, Plant
from trimtab.errors import PlantGone, TrimtabError, UsageError
from trimtab.processes import HIDDEN, SHOW, hidden

DEADLINE_S = 120.0
"""The doctor begins to look at a server of a kind until so long after the first."""
M = TypeVar("M")
P = TypeVar("P", bound=Plant)


def each(
    name: str,
    running: Sequence[M],
    findings: Callable[[M], tuple[Finding, ...]],
    enable: str,
    whose: str = "",
    clock: Clock | None = None,
) -> tuple[Finding, ...]:
    """Findings on each server of a kind that runs here; a single one where none does.

    Args:
        name: the plant's name.
        running: the first processes.
        findings: the findings on one of them.
        enable: advice where none runs.
        whose: which of them count; empty for all.
        clock: by which those that answer slowly keep nobody waiting without end; None for the machine's.
    """
    if not running and hidden():
        return (Finding(name, False, f"none is seen here: {HIDDEN}", f"{SHOW}; or {enable}"),)
    if not running:
        return (Finding(name, False, f"none runs here {whose}".strip(), enable),)
    clock = clock or SystemClock()
    found, deadline_s = list[Finding](), clock.now_s() + DEADLINE_S
    for index, one in enumerate(running):
        if clock.now_s() > deadline_s:
            left = f"{len(running) - index} more were not looked at: the others took more than {DEADLINE_S:g} s"
            return (*found, Finding(name, False, left, f"name one: trimtab observe {name} --pid PID"))
        found += findings(one)
    return tuple(found)


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
    except (TrimtabError, OSError) as error:  # those of the others are said all the same
        return (Finding(subject, False, f"cannot be read: {error}", "try again; it may be busy, or just have ended"),)


def knobs(plant: Plant, where: Callable[[Knob], str]) -> Iterable[Finding]:
    """Each knob of a server: its value, its domain, and whether it can be moved.

    Args:
        plant: the server.
        where: how a knob is set; asked where a change could be made.
    """
    now, reason = plant.configuration(), ""
    try:
        plant.check_permissions()
    except (UsageError, PlantGone) as error:
        reason = str(error)
    for knob in plant.knobs():
        how = "cannot be changed from here" if reason else where(knob)
        yield Finding(knob.name, not reason, f"{span(knob, now[knob.name])}; {how}", reason)


def span(knob: Knob, value: int) -> str:
    """A knob's value now and its domain."""
    domain = knob.domain
    possible = " or ".join(domain.choices) or f"{domain.minimum}..{domain.maximum} by {domain.step}"
    return f"{domain.shown(value) if domain.choices else f'{value} {knob.unit}'} now, {possible} possible"


def notes(lines: Iterable[str]) -> Iterable[Finding]:
    """Notes for the user, as findings."""
    return (Finding("note", True, line) for line in lines)
