"""What the load generator reports, as types; parsed strictly, for an unknown key means another protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from trimtab.errors import NativeError

_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Latency:
    """Figures of one duration, in seconds; None was not measured.

    Args:
        count: samples.
        mean_s: mean.
        p50_s: median.
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        max_s: largest.
        histogram: HDR histogram of microseconds, V2, base64; in the summary only.
    """

    count: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None
    histogram: str | None


@dataclass(frozen=True)
class Class:
    """What one class did in an interval or in the whole run.

    Args:
        class_name: its name.
        requests: requests with a complete reply.
        pages: pages completed.
        sessions: sessions started.
        connections: connections opened.
        body_bytes: bytes of reply bodies.
        page_intended: page time from the intended start.
        page_actual: page time from the actual start.
        request_intended: request time from the intended send.
        request_actual: request time from the actual send.
        connect: time to connect.
        first_byte: time from the actual send to the reply's first byte.
        errors: failed requests by kind: connect, reset, timeout, malformed, http_4xx, http_5xx, local.
        resent: requests sent again because the server had closed the idle connection; not errors.
        outstanding: requests due and without a reply at the end: censored.
        unsent: requests due and not yet sent at the end: censored.
    """

    class_name: str
    requests: int
    pages: int
    sessions: int
    connections: int
    body_bytes: int
    page_intended: Latency
    page_actual: Latency
    request_intended: Latency
    request_actual: Latency
    connect: Latency
    first_byte: Latency
    errors: Mapping[str, int]
    resent: int
    outstanding: int
    unsent: int


@dataclass(frozen=True)
class Interval:
    """One interval of a run.

    Args:
        at_s: its end, in seconds since the run's start.
        duration_s: its length in seconds.
        classes: by class, in the order of the populations.
        active_sessions: sessions in progress at its end.
        lateness: how late the generator itself acted against its own schedule.
    """

    at_s: float
    duration_s: float
    classes: tuple[Class, ...]
    active_sessions: int
    lateness: Latency


@dataclass(frozen=True)
class Summary:
    """The whole run.

    Args:
        duration_s: its length in seconds.
        classes: by class, in the order of the populations.
        lateness: how late the generator itself acted against its own schedule.
        cpu_s: CPU seconds that the generator used.
        stopped_early: True when it was stopped before its duration.
    """

    duration_s: float
    classes: tuple[Class, ...]
    lateness: Latency
    cpu_s: float
    stopped_early: bool


def parse(message: Mapping[str, Any]) -> Interval | Summary:
    """One message of the generator as its type.

    Raises:
        NativeError: it is not of the protocol; the message names the key.
    """
    kinds: dict[object, type[Interval] | type[Summary]] = {"interval": Interval, "summary": Summary}
    kind = kinds.get(message.get("type"))
    if kind is None:
        raise NativeError(f"the load generator sent a message of unknown type {message.get('type')!r}")
    data = {key: value for key, value in message.items() if key != "type"}
    if isinstance(data.get("classes"), list):
        data["classes"] = tuple(_class(one) for one in data["classes"])
    if "lateness" in data:
        data["lateness"] = _record(Latency, data["lateness"])
    return _record(kind, data)


def to_json(report: Interval | Summary) -> dict[str, Any]:
    """A report as the generator sent it."""
    data = {"type": type(report).__name__.lower(), **asdict(report)}
    for one in data["classes"]:
        one["class"] = one.pop("class_name")
    return data


def _class(message: Any) -> Class:
    data = dict(message)
    if "class" in data:
        data["class_name"] = data.pop("class")
    for field in fields(Class):
        if field.type == "Latency" and field.name in data:
            data[field.name] = _record(Latency, data[field.name])
    return _record(Class, data)


def _record(kind: type[_Record], data: Mapping[str, Any]) -> _Record:
    wanted = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if wrong := wanted.symmetric_difference(data):
        which = "no" if wrong <= wanted else "an unknown"
        name = sorted(wrong - wanted or wrong)[0]
        raise NativeError(f"the load generator sent a {kind.__name__} with {which} key {name!r}")
    return kind(**data)
