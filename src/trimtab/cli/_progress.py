"""View of a run while it goes: a table on a terminal, a line per window elsewhere, or JSON for a program."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from trimtab import codec
from trimtab.cli import silence
from trimtab.core import Drawing, Knob, MoveState, Objective, Role, Window, of_class
from trimtab.events import Event, MoveDone, Note, NoteKind, WindowDone, to_json
from trimtab.guarantee import RELATIVE, DelayGuarantee
from trimtab.metrics import known, metric
from trimtab.observer import Stop
from trimtab.referee import Course
from trimtab.report.text import came, changes, desired, seconds, setting, shown, title, words
from trimtab.settings import Mode, Settings
from trimtab.trust import printable

SHOWN = ("request_time_s", "page_time_s", "accept_queue_delay_s", "cpu_ratio", "memory_ratio", "busy_workers")
OF_CLASS = (("queue_length", "queue"), ("in_service", "in service"))
MOST_CHANGES = 6
"""Most changes of a move that are shown on the terminal; the report has all."""
_INDENT = 16
_SHOWN_WITHIN_S = 1.0
"""A line is written in less than a thousandth of it."""


@dataclass(frozen=True)
class Row:
    """A knob or a reading, window by window.

    Args:
        title: its heading.
        cell: its value in a window, as text.
        knob: whether it is a knob.
    """

    title: str
    cell: Callable[[Window], str]
    knob: bool = False


def rows_of(
    names: Sequence[str], objective: Objective, knobs: Sequence[Knob] = (), guarantee: DelayGuarantee | None = None
) -> tuple[Row, ...]:
    """Rows of every window: the objective first, or each class's guarantee, then knobs and readings.

    Args:
        names: names of the knobs to show.
        objective: the run's objective.
        knobs: the plant's knobs, for their units.
        guarantee: the guarantee to classes of clients; None when it tunes.
    """
    set_to = [_setting(name, knobs) for name in names]
    first = [_reading(name) for name in objective.metrics]
    classes = [knob.label for knob in knobs if knob.name in names and knob.role is Role.PROCESS_BUDGET]
    seen = [_reading(of_class(name, one), f"{one} {text}") for name, text in OF_CLASS for one in classes]
    if guarantee is None:
        return *first, *set_to, *seen, *(_reading(name) for name in SHOWN if name not in objective.metrics)
    promised = [_quotient(guarantee, k) for k in range(guarantee.kind == RELATIVE, len(guarantee.classes))]
    measured = enumerate(zip(guarantee.classes, guarantee.delays, strict=True))
    delays = [_reading(name, f"{c} {guarantee.percentile(k)}delay") for k, (c, name) in measured]
    return *promised, *delays, *set_to, *seen


def _reading(name: str, text: str = "") -> Row:
    return Row(text or title(name), lambda window: shown(name, window.readings.get(name)))


def _setting(name: str, knobs: Sequence[Knob]) -> Row:
    return Row(name, lambda window: setting(name, window.configuration.get(name), knobs), knob=True)


def _quotient(guarantee: DelayGuarantee, k: int) -> Row:
    """A class's quotient of measured and desired delay."""

    def cell(window: Window) -> str:
        value = guarantee.quotient(window, k)
        return "-" if value is None else f"{value:.0%}"

    return Row(f"{guarantee.classes[k]}, of {desired(guarantee, k)}", cell)


def what(event: MoveDone, knobs: Sequence[Knob] = ()) -> str:
    """The change after a window with its reason, as text."""
    if event.state is MoveState.HELD:
        return event.move.reason
    word = "" if event.state is MoveState.APPLIED else f" {event.state}"
    failed = event.detail if event.state not in (MoveState.APPLIED, MoveState.ADVISED, MoveState.DECLINED) else ""
    reached = came(event.move.changes, event.configuration)
    made = changes(reached, event.window.configuration, knobs, MOST_CHANGES) or "all as it was"
    return f"{made}{word}: {failed or event.move.reason}"


def search_line(event: MoveDone, objective: Objective) -> str:
    """The trial's objective with the interval that repeats allow, the incumbent, and the cost; else empty.

    Args:
        event: the move after a trial, whose evidence says it.
        objective: the objective.
    """
    figures, name = event.proposed.evidence, objective.metric
    if "trials" not in figures:
        return ""
    spread = figures.get("spread_ratio")
    # Two standard deviations of windows of one configuration, the one figure that single trials can be held against.
    within = "" if spread is None else f" ± {2 * spread:.0%}"
    best = figures.get("incumbent")
    said = [
        f"{words(name)} {shown(name, event.window.readings.get(name))}{within}",
        *([] if best is None else [f"incumbent {shown(name, best)}"]),
        f"it lost {seconds(figures['trial_lost_s'])} of the start's work, all trials {seconds(figures['lost_s'])}",
    ]
    return "; ".join(said)


@contextlib.contextmanager
def reader_may_go(stop: Stop) -> Iterator[None]:
    """Asks the run to stop when nobody reads its output any more, or it cannot be written.

    The terminal is gone, or the disk is full: what comes after is printed nowhere, and the run ends as by a signal.
    """
    try:
        yield
    except OSError as error:
        silence()
        unwritten = f"output that cannot be written ({error.strerror})"
        stop.reason = stop.reason or ("SIGPIPE" if isinstance(error, BrokenPipeError) else unwritten)


class Quietly:
    """Shows events; asks the run to stop when nobody reads any more, and waits for no output that takes nothing.

    A terminal that is held (Ctrl-S), a pager, or a connection that stalls makes a write wait, and a run that waits
    watches nothing of what is on trial. So each event is shown by a thread. What comes while one is not done yet is
    not shown: the store has it.

    Args:
        tell: shows an event.
        stop: asked for when nobody reads any more.
    """

    def __init__(self, tell: Callable[[Event], None], stop: Stop) -> None:
        self._tell, self._stop = tell, stop
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __call__(self, event: Event) -> None:
        """Shows an event, unless an earlier one is not shown yet."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._error is None:
            thread = threading.Thread(target=self._show, args=(event,), name="trimtab-show", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the machine has no room for a thread now
                return
            self._thread = thread
            thread.join(_SHOWN_WITHIN_S)
        error, self._error = self._error, None
        if error is not None:
            with reader_may_go(self._stop):
                raise error

    def _show(self, event: Event) -> None:
        try:
            self._tell(event)
        except BaseException as error:  # the run's own thread raises it
            self._error = error


def json_lines(event: Event) -> None:
    """Prints one event as one line of JSON."""
    print(codec.encode_strict(to_json(event)), flush=True)


def say(line: str, out: TextIO | None = None, indent: int = 0) -> None:
    """Prints a line in which nothing can steer a terminal; on a terminal it is wrapped at words.

    Args:
        line: the line.
        out: the stream; standard output when None.
        indent: columns by which further lines are indented.
    """
    out, line = out or sys.stdout, printable(line.rstrip())
    if out.isatty():
        width = shutil.get_terminal_size().columns
        further = " " * min(indent, width // 3)
        line = textwrap.fill(
            line,
            width,
            subsequent_indent=further,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
    print(line, file=out, flush=True)


@contextlib.contextmanager
def showing(
    as_json: bool,
    rows: Sequence[Row],
    settings: Settings,
    stop: Stop,
    *,
    decides: bool = True,
    knobs: Sequence[Knob] = (),
    course: Course | None = None,
    drawing: Drawing | None = None,
    live: bool = True,
) -> Iterator[Callable[[Event], None]]:
    """Shows a run while this lasts; yields the receiver of its events.

    Args:
        as_json: True for a line of JSON per event.
        rows: the rows of every window.
        settings: how the run goes.
        stop: asked for when nobody reads any more.
        decides: True when a move follows each window.
        knobs: the plant's knobs, for their units.
        course: the referee of the run; None where nobody judges it.
        drawing: the plant's own view below a window.
        live: False for lines also where a terminal could show a table.
    """
    if as_json:
        yield Quietly(json_lines, stop)
        return
    terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    if live and terminal:
        from trimtab.cli._live import LiveView  # loads the library that draws tables

        with LiveView(rows, settings, knobs, course, drawing) as view:
            yield Quietly(view, stop)
        return
    asks = settings.mode is Mode.APPROVE
    lines = Lines(rows, decides, knobs=knobs, drawing=drawing, objective=settings.objective, at_once=asks)
    with reader_may_go(stop):
        lines.header()
    yield Quietly(lines, stop)


class Lines:
    """Prints one line per window: time, knobs, the readings that matter, the move and its reason.

    On a terminal it has as many columns as fit, and what and why are below.

    Args:
        rows: the rows of every window.
        decides: True when a move follows each window.
        out: the stream.
        knobs: the plant's knobs, for their units.
        drawing: the plant's own view below a window.
        objective: the objective; a limit that is broken is shown.
        at_once: True for a window's line before its move, about which somebody is asked, and not with it.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        decides: bool,
        out: TextIO | None = None,
        knobs: Sequence[Knob] = (),
        drawing: Drawing | None = None,
        objective: Objective | None = None,
        at_once: bool = False,
    ) -> None:
        # With more a line would hold little else; the move and its reason name each that is changed.
        many = decides and sum(row.knob for row in rows) > MOST_CHANGES
        self._rows = tuple(row for row in rows if not (many and row.knob))
        self._decides, self._knobs, self._drawing = decides, knobs, drawing
        self._objective, self._at_once = objective, at_once
        self._out = out or sys.stdout
        self._pending: Window | None = None

    def header(self) -> None:
        """Prints the titles of the columns."""
        self._line("window", "time", [row.title for row in self._rows], "what and why")

    def __call__(self, event: Event) -> None:
        """Prints an event."""
        if isinstance(event, WindowDone):
            if self._decides and not self._at_once:
                self._pending = event.window
            else:
                self._window(event.window, "; ".join([*self._broken(event.window), *event.window.problems]))
        elif isinstance(event, MoveDone):
            said = [what(event, self._knobs)]
            if self._objective is not None and (searched := search_line(event, self._objective)):
                said.append(searched)
            if self._pending is None:
                say(f"{'':>{_INDENT}}{'; '.join(said)}", self._out, _INDENT)
            else:
                self._window(event.window, "; ".join([*self._broken(event.window), *said]))
                self._pending = None
        else:
            self._note(event)

    def readings(self, window: Window) -> None:
        """Prints every reading of a window, with its symbol and description."""
        order = list(known())
        for name in sorted(window.readings, key=lambda name: order.index(name.partition("@")[0])):
            one = metric(name)
            symbol = f" ({one.symbol})" if one.symbol else ""
            value = shown(name, window.readings[name])
            say(f"{'':>{_INDENT}}{name + symbol:<34} {value:>12}  {one.description}", self._out, _INDENT + 4)

    def _note(self, note: Note) -> None:
        if self._pending is not None:
            self._window(self._pending, "")
            self._pending = None
        if note.kind is NoteKind.STAND_DOWN:
            self._decides = False
        say(f"{'note':>6} {note.at_s:>7.1f}s {note.text}", self._out, _INDENT)

    def _broken(self, window: Window) -> list[str]:
        """The limits that a window breaks; for one that was cut short the reason names them."""
        broken = () if window.aborted or self._objective is None else self._objective.broken(window)
        return [f"{limit} is broken" for limit in broken]

    def _window(self, window: Window, said: str) -> None:
        cut = f"cut short: {window.aborted}; " if window.aborted else ""
        cells = [row.cell(window) for row in self._rows]
        self._line(str(window.index), f"{window.start_s + window.duration_s:.1f}s", cells, f"{cut}{said}")
        for line in self._drawing(window) if self._drawing else ():
            say(line, self._out)

    def _line(self, first: str, second: str, cells: Sequence[str], said: str) -> None:
        """A line of as many columns as fit, with the text behind it, or on a terminal below it."""
        terminal = self._out.isatty()
        room = shutil.get_terminal_size().columns if terminal else None
        line = f"{first:>6} {second:>8}"
        for row, cell in zip(self._rows, cells, strict=True):
            column = f" {cell:>{max(9, len(row.title))}}"
            if room is not None and len(line) + len(column) > room:
                break
            line += column
        if not terminal:
            say(f"{line}  {said}", self._out)
            return
        say(line, self._out)
        if said and first != "window":
            say(f"{'':>{_INDENT}}{said}", self._out, _INDENT)
