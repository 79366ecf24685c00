"""What a run looks like while it goes: a line per window for a person, or a line of JSON per event for a program."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from trimtab.core.knob import Knob
from trimtab.core.objective import Limit
from trimtab.core.trial import MoveState
from trimtab.core.window import Window
from trimtab.events import Event, MoveDone, Note, NoteKind, WindowDone, to_json
from trimtab.metrics import known, metric
from trimtab.observer import Stop

SHOWN = ("request_time_s", "page_time_s", "accept_queue_delay_s", "cpu_ratio", "memory_ratio", "busy_workers")
_TITLES = {
    "request_time_s": "request",
    "page_time_s": "page",
    "cpu_ratio": "CPU",
    "memory_ratio": "memory",
    "busy_workers": "busy",
}


@contextlib.contextmanager
def reader_may_go(stop: Stop) -> Iterator[None]:
    """Asks the run to stop when nobody reads any more what it prints."""
    try:
        yield
    except BrokenPipeError:
        stop.reason = stop.reason or "SIGPIPE"


def quietly(tell: Callable[[Event], None], stop: Stop) -> Callable[[Event], None]:
    """`tell`, which asks the run to stop when nobody reads any more."""

    def told(event: Event) -> None:
        with reader_may_go(stop):
            tell(event)

    return told


def json_lines(event: Event) -> None:
    """Prints one event as one line of JSON."""
    print(json.dumps(to_json(event)), flush=True)


class Lines:
    """Prints one line per window: time, knobs, the readings that matter, what was done and why.

    Args:
        knobs: names of the knobs to show.
        objective: the metric that counts; shown in any case.
        decides: True when a move follows each window.
        out: where to.
        limits: what the objective is subject to; shown too, and said where one is broken.
        described: the knobs themselves, for the names of choices.
    """

    def __init__(
        self,
        knobs: Sequence[str],
        objective: str,
        decides: bool,
        out: TextIO | None = None,
        limits: Sequence[Limit] = (),
        described: Sequence[Knob] = (),
    ) -> None:
        self._knobs = tuple(knobs)
        self._limits = tuple(limits)
        self._domains = {knob.name: knob.domain for knob in described}
        own = dict.fromkeys((objective, *(limit.metric for limit in limits)))
        self._metrics = (*(name for name in own if name not in SHOWN), *SHOWN)
        self._decides = decides
        self._out = out or sys.stdout
        self._pending: Window | None = None

    def header(self) -> None:
        """Prints the titles of the columns."""
        titles = [f"{name:>{_width(name)}}" for name in self._knobs]
        titles += [f"{_title(name):>{max(8, len(_title(name)))}}" for name in self._metrics]
        self._print(f"{'window':>6} {'time':>8} {' '.join(titles)}  what and why")

    def __call__(self, event: Event) -> None:
        """Prints what an event says."""
        if isinstance(event, WindowDone):
            if self._decides:
                self._pending = event.window
            else:
                self._window(event.window, "; ".join([*self._broken(event.window), *event.window.problems]))
        elif isinstance(event, MoveDone):
            if self._pending is None:
                self._print(f"{'':>15} {self._what(event)}")
            else:
                self._window(event.window, "; ".join([*self._broken(event.window), self._what(event)]))
                self._pending = None
        else:
            self._note(event)

    def readings(self, window: Window) -> None:
        """Prints every reading of a window, with its symbol and what it is."""
        order = list(known())
        for name in sorted(window.readings, key=lambda name: order.index(name.partition("@")[0])):
            what = metric(name)
            symbol = f" ({what.symbol})" if what.symbol else ""
            self._print(f"{'':>16}{name + symbol:<34} {shown(name, window.readings[name]):>12}  {what.description}")

    def _note(self, note: Note) -> None:
        if self._pending is not None:
            self._window(self._pending, "")
            self._pending = None
        if note.kind is NoteKind.STAND_DOWN:
            self._decides = False
        self._print(f"{'note':>6} {note.at_s:>7.1f}s {note.text}")

    def _window(self, window: Window, what: str) -> None:
        cells = [f"{self._value(window, name):>{_width(name)}}" for name in self._knobs]
        cells += [f"{shown(name, window.readings.get(name)):>{max(8, len(_title(name)))}}" for name in self._metrics]
        cut = f"cut short: {window.aborted}; " if window.aborted else ""
        end_s = window.start_s + window.duration_s
        self._print(f"{window.index:>6} {end_s:>7.1f}s {' '.join(cells)}  {cut}{what}")

    def _broken(self, window: Window) -> list[str]:
        """The limits that a window breaks; of one that was cut short its reason says it."""
        limits = () if window.aborted else self._limits
        return [f"{limit} is broken" for limit in limits if (limit.margin(window) or 0.0) < 0]

    def _value(self, window: Window, knob: str) -> str:
        """A knob's value in a window, a choice by its name."""
        value, domain = window.configuration.get(knob), self._domains.get(knob)
        if value is None:
            return "-"
        return str(value) if domain is None else domain.shown(value)

    def _what(self, event: MoveDone) -> str:
        """What was done after a window, and why."""
        reason = event.move.reason
        if event.state is MoveState.HELD:
            return reason
        after = {**event.window.configuration, **event.move.changes}
        changed = replace(event.window, configuration=after)
        changes = ", ".join(
            f"{name} {self._value(event.window, name)} -> {self._value(changed, name)}" for name in event.move.changes
        )
        word = "" if event.state is MoveState.APPLIED else f" {event.state}"
        failed = event.detail if event.state not in (MoveState.APPLIED, MoveState.ADVISED, MoveState.DECLINED) else ""
        return f"{changes}{word}: {failed or reason}"

    def _print(self, line: str) -> None:
        print(line.rstrip(), file=self._out, flush=True)


def shown(name: str, value: float | None) -> str:
    """A reading with its unit, short enough for a column."""
    if value is None:
        return "-"
    unit = metric(name).unit
    if unit == "s":
        return f"{value:.2f}s" if value >= 1 else f"{value * 1e3:.1f}ms"
    if unit == "ratio":
        return f"{value:.0%}"
    if unit.startswith("bytes"):
        return f"{value / 2**20:.1f}MiB{unit.removeprefix('bytes')}"
    return f"{value:.1f}{unit if unit == 'Hz' else ''}"


def _title(name: str) -> str:
    return _TITLES.get(name) or metric(name).symbol or name


def _width(name: str) -> int:
    return max(5, len(name))
