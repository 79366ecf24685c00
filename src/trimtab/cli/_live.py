"""A run on a terminal: the latest windows as a table that fits, the newest reason, the referee, the time left."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from types import FrameType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trimtab.cli._progress import Row, search_line, what
from trimtab.core import Drawing, Knob, MoveState, Window
from trimtab.events import Event, MoveDone, WindowDone
from trimtab.referee import Course
from trimtab.settings import Settings
from trimtab.trust import printable
from trimtab.units import format_duration

_KEPT = 60
"""Windows that are remembered; no terminal is wide enough for more."""
_SAID = 20
"""Changes and notes that are printed again after the terminal has another size."""
_GAP = 2
_LEAST_ROWS = 3


class LiveView:
    """Draws a run in place, after each event and when the terminal gets another size.

    Trials and notes scroll away above the table. Nothing is drawn by the clock: between two windows there is nothing
    new to show, and the machine belongs to the server. Nor is anything drawn by the handler of a signal: it runs in
    the thread that watches the server, and a terminal that is held (Ctrl-S) makes whoever writes wait.

    Args:
        rows: the rows of every window.
        settings: how the run goes.
        knobs: the plant's knobs, for their units.
        course: the referee of the run; None where nobody judges it.
        drawing: the plant's own view below the table.
        console: the console; standard output when None.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        settings: Settings,
        knobs: Sequence[Knob] = (),
        course: Course | None = None,
        drawing: Drawing | None = None,
        console: Console | None = None,
    ) -> None:
        self._console = console or Console(markup=False, emoji=False, highlight=False)
        self._rows, self._settings, self._knobs = rows, settings, knobs
        self._course, self._drawing = course, drawing
        self._windows: deque[Window] = deque(maxlen=_KEPT)
        self._said: deque[RenderableType] = deque(maxlen=_SAID)
        self._reason, self._searched, self._drawn = "", "", list[str]()
        self._trials: tuple[float, float] | None = None
        self._drawing_now, self._resized = threading.Lock(), False
        self._sizes = SimpleQueue[bool]()
        self._live = self._new()

    def __enter__(self) -> LiveView:
        """Begins to draw, and to follow the size of the terminal."""
        self._live.start()
        with contextlib.suppress(RuntimeError):  # no room for a thread now: the next event follows the size
            threading.Thread(target=self._follow, name="trimtab-size", daemon=True).start()
        self._before = signal.signal(signal.SIGWINCH, self._on_size)
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the last state on the screen."""
        signal.signal(signal.SIGWINCH, self._before)
        self._sizes.put(False)
        with self._drawing_now:
            self._resized = False
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Shows an event."""
        if self._course is not None:
            self._course.tell(event)
        with self._drawing_now:
            self._show(event)
        if self._resized:
            self._again()

    def _show(self, event: Event) -> None:
        if isinstance(event, WindowDone):
            if event.window.index == 0:
                self._windows.clear()
            self._windows.append(event.window)
            cut = event.window.aborted
            self._reason = f"cut short: {cut}" if cut else "; ".join(event.window.problems)
            self._drawn = self._drawing(event.window) if self._drawing is not None else []
        elif isinstance(event, MoveDone):
            self._reason = what(event, self._knobs)
            self._searched = search_line(event, self._settings.objective) or self._searched
            figures = event.proposed.evidence
            self._trials = (figures["trial"], figures["trials"]) if "trials" in figures else self._trials
            if self._remarkable(event.state):
                self._say(event.window.start_s + event.window.duration_s, self._reason)
        else:
            self._say(event.at_s, f"note: {event.text}")
        self._live.update(self._view(), refresh=True)

    def _new(self) -> Live:
        """A display that is refreshed only when it is told to."""
        return Live(
            console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False, screen=False
        )

    def _on_size(self, number: int, frame: FrameType | None) -> None:
        """The terminal has another size."""
        self._resized = True
        self._sizes.put(True)  # the one queue that may be used in a handler, whatever it has interrupted

    def _follow(self) -> None:
        """Follows the size until the run has ended, in a thread of its own."""
        while self._sizes.get():
            with contextlib.suppress(OSError):  # the terminal has gone, which the next event tells
                self._again()

    def _again(self) -> None:
        """Draws everything anew, unless that was done: lines that the terminal has wrapped cannot be taken away."""
        with self._drawing_now:
            if not self._resized:
                return
            self._resized = False
            self._live.stop()
            self._console.clear()
            for one in self._said:
                self._console.print(one)
            self._live = self._new()
            self._live.start()
            self._live.update(self._view(), refresh=True)

    def _say(self, at_s: float, text: str) -> None:
        """Prints a change or a note above the table."""
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        line.add_column(overflow="fold")
        line.add_row(Text(format_duration(round(at_s)), style="dim"), _text(text))
        self._said.append(line)
        self._live.console.print(line)

    def _remarkable(self, state: MoveState) -> bool:
        """Whether a move is worth a line that stays: a trial, or a failure, but not each step of a live method."""
        trials = self._course is not None and self._course.cost_s is not None
        return state is not MoveState.HELD and (trials or state not in (MoveState.APPLIED, MoveState.ADVISED))

    def _view(self) -> RenderableType:
        """All lines that are drawn in place."""
        if not self._windows:
            return Text("the first window is being measured", style="dim")
        below: list[RenderableType] = [self._progress()]
        if self._reason:
            below.insert(0, _text(self._reason))
        searched = [self._searched] if self._searched else []
        below[-1:-1] = [_text(line) for line in (*searched, *self._referee(), *self._drawn)]
        options = self._console.options
        used = len(self._console.render_lines(Group(*below), options, pad=False))
        room = max(_LEAST_ROWS, self._console.size.height - used - 4)  # the two header lines, a gap, the cursor's own
        return Group(*self._table(self._console.size.width, room), Text(""), *below)

    def _progress(self) -> RenderableType:
        """How much of the run has passed."""
        last, settings = self._windows[-1], self._settings
        elapsed_s = last.start_s + last.duration_s
        at = f"{format_duration(round(elapsed_s))}, window {last.index + 1}"
        if self._trials is not None:
            made, trials = self._trials
            return self._bar(trials, made, f"{at}, trial {made:.0f} of {trials:.0f}")
        if settings.duration_s == float("inf"):
            return Text(at, style="dim")
        total = f"{format_duration(round(settings.duration_s))}, window {last.index + 1} of about "
        text = f"{format_duration(round(elapsed_s))} of {total}{round(settings.duration_s / settings.window_s)}"
        return self._bar(settings.duration_s, min(elapsed_s, settings.duration_s), text)

    def _bar(self, total: float, done: float, text: str) -> RenderableType:
        """A bar with a text behind it; the text alone where there is no room."""
        width = min(40, self._console.size.width - len(text) - 1)
        if width < 8:
            return Text(text, style="dim")
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(ProgressBar(total, done, width), Text(text, "dim"))
        return line

    def _referee(self) -> list[str]:
        """Lines on the referee's judgement, and on the cost of the trials."""
        course = self._course
        if course is None or course.cost_s is None:
            return []
        said, judgement = [], course.judgement
        if judgement is not None:
            so = str(judgement.verdict) if judgement.final else "on trial"
            said.append(f"referee: {so}: {judgement.why}")
        if course.trials:
            ends = Counter(str(one.judgement.verdict) for one in course.trials)
            tried = ", ".join(f"{count} {verdict}" for verdict, count in ends.items())
            said.append(f"tried: {tried}; trying has cost {course.cost_s:.1f} s of normal operation so far")
        return said

    def _table(self, width: int, room: int) -> Iterator[RenderableType]:
        """The rows over the latest windows, as many as fit, and how many rows there are more.

        Args:
            width: columns of the terminal.
            room: lines that there are for rows.
        """
        windows = list(self._windows)
        heads = [(str(w.index), format_duration(round(w.start_s + w.duration_s))) for w in windows]
        rows = [(row, [printable(row.cell(w)) for w in windows]) for row in self._rows]
        rows = [(row, cells) for row, cells in rows if row.knob or set(cells) != {"-"} or row is self._rows[0]]
        hidden = max(0, len(rows) - room)
        if hidden:
            hidden += 1
            moved = sorted(range(len(rows)), key=lambda i: len(set(rows[i][1])) == 1)[: len(rows) - hidden]
            rows = [rows[i] for i in sorted(moved)]
        names = [printable(row.title) for row, _ in rows]
        name = min(max(map(len, (*names, "window"))), width // 2)
        cell = max(len(text) for texts in (*heads, *(cells for _, cells in rows)) for text in texts)
        count = min(len(windows), max(1, (width - name) // (cell + _GAP)))
        table = Table(box=None, padding=0, pad_edge=False, header_style="dim")
        table.add_column(Text("window\nat"), width=name, no_wrap=True, overflow="ellipsis")
        for index, at in heads[-count:]:
            table.add_column(Text(f"{index}\n{at}"), width=cell + _GAP, justify="right", no_wrap=True)
        for (row, cells), text in zip(rows, names, strict=True):
            before = [cells[0], *cells[:-1]][-count:]
            styles = (
                "bold" if row.knob and now != was else "" for was, now in zip(before, cells[-count:], strict=True)
            )
            shown = [Text(c, style) for c, style in zip(cells[-count:], styles, strict=True)]
            table.add_row(Text(text, "bold" if row is self._rows[0] else ""), *shown)
        yield table
        if hidden:
            yield Text(f"and {hidden} more", "dim")


def _text(line: str) -> Text:
    """A line from which nothing can steer the terminal, wrapped at words."""
    return Text(printable(line), overflow="fold")
