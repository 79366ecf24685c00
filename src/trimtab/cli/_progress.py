"""What a run looks like while it goes: a line per window for a person, or a line of JSON per event for a program."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from trimtab.core.metric import METRICS, metric
from trimtab.core.trial import MoveState
from trimtab.core.window import Configuration, Window
from trimtab.events import Event, MoveDone, Note, NoteKind, WindowDone, to_json
from trimtab.observer import Stop

SHOWN = ("response_time_s", "accept_queue_delay_s", "cpu_ratio", "memory_ratio", "busy_workers")
_TITLES = {"cpu_ratio": "CPU", "memory_ratio": "memory", "busy_workers": "busy"}


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
    """

    def __init__(self, knobs: Sequence[str], objective: str, decides: bool, out: TextIO | None = None) -> None:
        self._knobs = tuple(knobs)
        self._metrics = SHOWN if objective in SHOWN else (objective, *SHOWN)
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
                self._window(event.window, "; ".join(event.window.problems))
        elif isinstance(event, MoveDone):
            if self._pending is None:
                self._print(f"{'':>15} {_what(event)}")
            else:
                self._window(event.window, _what(event))
                self._pending = None
        else:
            self._note(event)

    def readings(self, window: Window) -> None:
        """Prints every reading of a window, with its symbol and what it is."""
        order = list(METRICS)
        for name in sorted(window.readings, key=lambda name: order.index(name.partition("@")[0])):
            known = metric(name)
            symbol = f" ({known.symbol})" if known.symbol else ""
            self._print(f"{'':>16}{name + symbol:<34} {shown(name, window.readings[name]):>12}  {known.description}")

    def _note(self, note: Note) -> None:
        if self._pending is not None:
            self._window(self._pending, "")
            self._pending = None
        if note.kind is NoteKind.STAND_DOWN:
            self._decides = False
        self._print(f"{'note':>6} {note.at_s:>7.1f}s {note.text}")

    def _window(self, window: Window, what: str) -> None:
        cells = [f"{window.configuration.get(name, '-'):>{_width(name)}}" for name in self._knobs]
        cells += [f"{shown(name, window.readings.get(name)):>{max(8, len(_title(name)))}}" for name in self._metrics]
        cut = f"cut short: {window.aborted}; " if window.aborted else ""
        end_s = window.start_s + window.duration_s
        self._print(f"{window.index:>6} {end_s:>7.1f}s {' '.join(cells)}  {cut}{what}")

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


def configuration_text(configuration: Configuration) -> str:
    """A configuration in words."""
    return ", ".join(f"{name} {value}" for name, value in configuration.items())


def _what(event: MoveDone) -> str:
    """What was done after a window, and why."""
    reason = event.move.reason
    if event.state is MoveState.HELD:
        return reason
    changes = ", ".join(
        f"{name} {event.window.configuration.get(name, '?')} -> {value}" for name, value in event.move.changes.items()
    )
    word = "" if event.state is MoveState.APPLIED else f" {event.state}"
    failed = event.detail if event.state not in (MoveState.APPLIED, MoveState.ADVISED, MoveState.DECLINED) else ""
    return f"{changes}{word}: {failed or reason}"


def _title(name: str) -> str:
    return _TITLES.get(name) or metric(name).symbol or name


def _width(name: str) -> int:
    return max(5, len(name))
