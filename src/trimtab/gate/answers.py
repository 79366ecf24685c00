"""The answers of a gate to orders, as types; `native/wire/src/gate.rs` is the other side."""

from __future__ import annotations

import msgspec


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the gate's protocol."""


class State(_Answer, frozen=True, tag="done"):
    """The settings in force in a gate.

    Args:
        configuration: knob name to value.
        mode: "budgets", or "open" when the controller's lease ran out.
        generation: tells this gate from all that were before it.
    """

    configuration: dict[str, int]
    mode: str
    generation: int


class ClassCounters(_Answer, frozen=True, rename={"name": "class"}):
    """Counters of one class, cumulative since the first gate of the run.

    Args:
        name: the class.
        arrivals: connections classified.
        dispatched: connections given to a worker.
        refused: connections refused because the queue was full.
        aborted: clients that gave up while they waited.
        delay_sum_s: sum of the delays of those dispatched, in seconds.
        delay_buckets: largest delay of a bucket, in microseconds, and its count; empty buckets are absent.
        queue: connections that wait now.
        in_service: connections that a worker has now, or that are on their way to one.
        queue_connection_s: integral of `queue`.
        in_service_connection_s: integral of `in_service`.
        oldest_wait_s: how long the first of the queue has waited; 0 when nothing waits.
    """

    name: str
    arrivals: int
    dispatched: int
    refused: int
    aborted: int
    delay_sum_s: float
    delay_buckets: tuple[tuple[int, int], ...]
    queue: int
    in_service: int
    queue_connection_s: float
    in_service_connection_s: float
    oldest_wait_s: float


class Counters(_Answer, frozen=True, tag="readings"):
    """Counters of all classes.

    Args:
        now_s: the gate's clock, in seconds.
        mode: as in `State`.
        classes: in order of priority.
    """

    now_s: float
    mode: str
    classes: tuple[ClassCounters, ...]


class Refused(_Answer, frozen=True, tag="refused"):
    """The order could not be carried out; nothing changed.

    Args:
        message: why, in one line.
    """

    message: str
