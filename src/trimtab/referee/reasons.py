"""Texts of the referee for the operator."""

from __future__ import annotations

import math

from trimtab.referee.estimate import Effect


def spent(lost_s: float) -> str:
    """A change has cost more than may be risked."""
    return f"the change has cost clients as much as {lost_s:.0f} s of normal operation, more than may be risked"


def too_few(count: int, needed: int, missing: str) -> str:
    """The reference is too short yet.

    Args:
        count: its windows.
        needed: how many there must be.
        missing: what the objective needs and was not measured of late.
    """
    why = f": {missing} was not measured" if missing else ""
    return f"window {count} of {needed} of a reference{why}"


def only_further() -> str:
    """Another change is under way."""
    return "nothing is seen of fewer workers yet: only still fewer may be tried"


def tried(rests: bool) -> str:
    """A change goes a way that is closed.

    Args:
        rests: whether that is for how often it was in vain, not for this workload.
    """
    if rests:
        return "tried three times or more in this run, and not better: not again for a while"
    return "tried on this workload already, and not better"


def other_work(what: str) -> str:
    """What is completed is not what was before, so nothing follows from how much, or how fast, it is.

    Args:
        what: in what it differs.
    """
    return f"{what}, as where requests fail: what is completed is not what it was"


def failing(now: float, before: float) -> str:
    """More requests fail than before.

    Args:
        now: share of them that fail.
        before: share that did.
    """
    return f"{now:.2g} of the requests fail, {before:.2g} did before the change"


def within() -> str:
    """A change was made smaller."""
    return "beyond that requests have failed in this run"


def broken(names: str) -> str:
    """A limit that was kept is broken."""
    return f"{names} was kept before the change and is broken now"


def mended(names: str) -> str:
    """A limit that was broken is kept."""
    return f"{names} was broken before the change and is kept now"


def stood_down() -> str:
    """A knob was left to the operator while others were on trial."""
    return "the operator has set another knob during the trial, which has no verdict therefore"


def unmeasured(windows: int, missing: str, grows: bool) -> str:
    """Nothing that counts was measured since a change.

    Args:
        windows: in how many.
        missing: what the objective needs and was not there; empty when too few requests were.
        grows: whether connections pile up.
    """
    grown = "and connections pile up" if grows else "though no connections pile up"
    what = f"{missing} was not measured" if missing else "nothing could be measured"
    return f"{what} in {windows} windows after the change, {grown}"


def backlog(lost: bool, idle: bool) -> str:
    """The server was overloaded before the change, and still is."""
    if lost:
        return "the overloaded server completes less than before the change"
    if idle:
        return "the overloaded server completes no more than before the change"
    return "an earlier backlog is still draining: no verdict before it is gone"


def more_completed() -> str:
    """An overloaded server works off more than it did."""
    return "with work always waiting the server completes more than before the change"


def new_here(reference: int) -> str:
    """There is nothing to compare yet."""
    return "the change is new" if reference >= 2 else "there is no reference to compare the change with"


def estimated(found: Effect, windows: int, on_limits: bool) -> str:
    """An effect, as an operator reads it: a factor and its range of two standard errors."""
    low, high = math.exp(found.size - 2 * found.error), math.exp(found.size + 2 * found.error)
    counted = f"{windows} window{'s' if windows > 1 else ''}"
    what = "what is beyond the limits" if on_limits else "the cost"
    return (
        f"at equal load {what} is {math.exp(found.size):.2f} times what it was ({low:.2f} to {high:.2f}, {counted})"
    )


def opened_anew() -> str:
    """A shorter keep-alive time would have far clients open more connections than it is worth."""
    return "clients are so far away that to connect anew would take them longer than can be gained"


def overloaded(drains: bool, live: bool, capacity: float, lost: str) -> str:
    """Why an overloaded server is left alone; empty when the change may be made.

    Args:
        drains: whether the backlog becomes shorter by itself.
        live: whether the change takes effect without a reload.
        capacity: how many times more work the server is promised to complete with it.
        lost: the time without service that it takes, in words, where that is not soon earned back; else empty.
    """
    if capacity <= 1:
        return "the server is overloaded, and this change adds no capacity"
    if drains and not live:
        return "the server is overloaded and the backlog drains by itself: a reload would only delay it"
    if lost:
        return f"the server is overloaded: {capacity:.2g} times the work does not soon make up for {lost} without any"
    return ""
