"""Reasons that keep_alive_cost gives the operator, as text."""

from __future__ import annotations

import math

from trimtab.controllers._capacity import Capacity
from trimtab.controllers._held_worker import Prices
from trimtab.controllers._survival import Survival
from trimtab.core import Readings

FURTHER = 1.2
"""The rate past a time is quoted only where periods longer than it by this factor were seen."""


def milliseconds(time_s: float) -> str:
    """A time, as short as the knob's unit allows."""
    return f"{time_s * 1e3:.0f} ms" if time_s >= 0.01 else f"{time_s * 1e3:.2g} ms"


def at_prices(prices: Prices, curve: Survival, readings: Readings, target_s: float, move: tuple[float, float]) -> str:
    """Reason for a time at these prices, with the workers that a move would free and its cost.

    Args:
        prices: the prices in force.
        curve: how long idle periods last and how they end.
        readings: the window's.
        target_s: mean wait for a worker above which workers are scarce, in seconds.
        move: the time in force and the best one, in seconds.
    """
    now_s, best_s = move
    wait_s = readings.get("accept_queue_delay_s")
    waits = "the wait for a worker was not measured" if wait_s is None else f"connections wait {milliseconds(wait_s)}"
    text = (
        f"{waits} (scarce above {milliseconds(target_s)}), a new one costs a worker {milliseconds(prices.setup_s)}: "
        f"a held worker has to bring {prices.earning_hz:.2g} requests/s"
    )
    if curve.horizon_s > FURTHER * best_s:
        brings_hz = curve.earned_hz(best_s, min(2 * best_s, curve.horizon_s))
        text += f"; beyond {milliseconds(best_s)} it earns only {brings_hz:.2g}"
    held, mean_s = readings.get("idle_held_workers"), curve.held_s(now_s)
    if held is None or mean_s <= 0 or best_s == now_s:
        return text
    freed, more = held * (1 - curve.held_s(best_s) / mean_s), curve.asked(now_s) - curve.asked(best_s)
    if best_s < now_s:
        return f"{text}; that frees {freed:.1f} of {held:.1f} held workers for {more:.1%} more new connections"
    return f"{text}; that saves {-more:.1%} new connections for {-freed:.1f} more held workers"


def in_burst(curve: Survival, now_s: float, end_s: float) -> str:
    """Warning that the time in force cuts bursts.

    Args:
        curve: how long idle periods last and how they end.
        now_s: the time in force, in seconds.
        end_s: where bursts end, in seconds.
    """
    upto_s = max(end_s, 2 * now_s)
    return (
        f"bursts, which end at {milliseconds(end_s)}, are cut: of the periods longer than {milliseconds(now_s)}, "
        f"{curve.asked_within(now_s, upto_s):.0%} bring a request by {milliseconds(upto_s)}"
    )


def cutting_bursts(end_s: float, held: float | None) -> str:
    """Why bursts are cut.

    Args:
        end_s: where they end, in seconds.
        held: share of the occupied workers' time that idle connections hold; None when it was not measured.
    """
    share = "" if held is None else f", and idle connections hold {held:.0%} of those that are occupied"
    return f"even with the time at the end of bursts ({milliseconds(end_s)}) requests waited for a worker{share}"


def for_free(readings: Readings, capacity: Capacity) -> str:
    """Which time is not too long where idle connections hold no worker."""
    idle, held = readings.get("idle_connections", 0.0), readings.get("idle_held_workers", 0.0)
    text = f"{idle:.1f} idle connections hold {held:.1f} workers"
    if math.isfinite(capacity.ceiling_s):
        longest = f"{milliseconds(capacity.ceiling_s)} is the longest keep-alive time that left any"
        return f"{text}, but new connections had to wait for a free slot: {longest}"
    if capacity.rest_s > 0:
        return f"{text}, and connections wait, but not for a slot: ending idle ones earlier did not help"
    return f"{text}: they are free, so the longest time is kept"
