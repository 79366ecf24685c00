"""A run on a terminal: it fits, wraps at words, follows the size and lets nothing that others write steer it."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trimtab.cli import _live
from trimtab.cli._live import LiveView
from trimtab.cli._progress import Lines, Quietly, Row, rows_of, showing, what
from trimtab.core import Domain, How, Knob, Move, MoveState, Objective, Role, Window, of_class
from trimtab.events import Event, MoveDone, Note, NoteKind, WindowDone
from trimtab.guarantee import DelayGuarantee
from trimtab.observer import Stop
from trimtab.referee import Course, Referee
from trimtab.settings import Mode, Settings

STYLE, MOVE = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3|9)[0-8][;m]")
WIDTHS = (60, 80, 110, 200)
HOSTILE = "\x1b]0;mine\x07\x1b[31mred [bold]loud[/bold] :smile: \u202e"
OBJECTIVE = Objective()


def knob(name: str, label: str = "", domain: Domain | None = None) -> Knob:
    role = Role.PROCESS_BUDGET if label else Role.WORKER_LIMIT
    return Knob(name, name, "", domain or Domain(0, 500), 1, How.RELOAD, "a reload", "", role, label)


def terminal(width: int, height: int = 40) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=width, height=height, markup=False, emoji=False, highlight=False
    )
    return console, out


def visible(out: io.StringIO) -> list[str]:
    """The lines without styles, ended where the cursor is moved too; what is left may not steer anything."""
    text = MOVE.sub("\n", STYLE.sub("", out.getvalue())).replace("\r", "")
    assert not [c for c in text if c != "\n" and not c.isprintable()]
    return text.split("\n")


def windows(number: int, knobs: Sequence[Knob], readings: Callable[[int], dict[str, float]]) -> list[Window]:
    return [
        Window(i, 10.0 * i, 10.0, {k.name: (7 * i + n) % 3 for n, k in enumerate(knobs)}, readings(i), 200)
        for i in range(number)
    ]


def told(window: Window, reason: str, state: MoveState = MoveState.HELD, **changes: int) -> list[Event]:
    move = Move(changes, reason)
    return [WindowDone(window), MoveDone(window, move, move, state)]


def shown(rows: Sequence[Row], events: Sequence[Event], width: int, height: int = 40, **more: object) -> list[str]:
    console, out = terminal(width, height)
    with LiveView(rows, Settings(10.0, 600.0), console=console, **more) as view:  # type: ignore[arg-type]
        for event in events:
            view(event)
    return visible(out)


def frame(lines: Sequence[str]) -> list[str]:
    """The last table and what stands below it."""
    last = list(lines[max(i for i, line in enumerate(lines) if line.startswith("window")) :])
    while not last[-1]:
        last.pop()
    return last


@given(
    width=st.sampled_from(WIDTHS),
    height=st.integers(10, 60),
    knobs=st.integers(0, 8),
    classes=st.integers(0, 4),
    words=st.lists(st.text(min_size=1, max_size=25), min_size=1, max_size=12),
    values=st.lists(st.floats(0, 1e6), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_nothing_is_wider_or_higher_than_the_terminal(
    width: int, height: int, knobs: int, classes: int, words: list[str], values: list[float]
) -> None:
    names = tuple(f"class-of-clients-{k}" for k in range(classes))
    moved = [knob(f"max_children_of_the_pool_{k}") for k in range(knobs)]
    promised = None
    if classes:
        moved = [knob(of_class("process_budget", name), name) for name in names]
        delays = tuple(of_class("connection_delay_s", name) for name in names)
        promised = DelayGuarantee("relative", names, tuple(float(k + 1) for k in range(classes)), delays)
    rows = rows_of([k.name for k in moved], OBJECTIVE, moved, promised)
    seen = windows(4 * len(values), moved, lambda i: {"response_time_s": values[i // 4], "cpu_ratio": values[i // 4]})
    reason = " ".join(words)
    events: list[Event] = [WindowDone(w) for w in seen[:-1]]
    events += [*told(seen[-1], reason, MoveState.FAILED), Note(1.0, NoteKind.PLANT, reason)]
    lines = shown(rows, events, width, height, knobs=moved)
    assert max(map(len, lines)) <= width
    if len(reason) < width:
        assert len(frame(lines)) <= max(height, 14)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_reason_is_wrapped_between_words(width: int) -> None:
    reason = "nothing is to be gained from any other limit of workers than the present one " * 4
    seen = windows(3, [], lambda i: {"response_time_s": 0.1})
    lines = frame(shown(rows_of([], OBJECTIVE), [e for w in seen for e in told(w, reason)], width))
    assert reason.split() == " ".join(lines[lines.index("") + 1 : -1]).split()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_has_the_objective_every_knob_and_what_was_measured_of_the_latest_windows(width: int) -> None:
    choice = Domain.choice("static", "dynamic", "x")
    moved = [*(knob(f"knob_{k}") for k in range(7)), knob("manager", domain=choice)]
    seen = windows(30, moved, lambda i: {"response_time_s": 1.0 + i, "cpu_ratio": 0.5})
    lines = frame(
        shown(rows_of([k.name for k in moved], OBJECTIVE, moved), [WindowDone(w) for w in seen], width, knobs=moved)
    )
    titles = [line.split()[0] for line in lines if line.split()]
    assert titles[:11] == ["window", "at", "RT", *(f"knob_{k}" for k in range(7)), "manager"]
    assert titles[11] == "CPU" and "AQT" not in titles, "what nobody measures has no row"
    assert lines[0].split()[-3:] == ["27", "28", "29"] and lines[1].split()[-1] == "5m"
    assert set(lines[10].split()[1:]) <= {"static", "dynamic", "x"}
    assert "5m of 10m, window 30 of about 60" in "\n".join(lines)


def test_rows_that_do_not_fit_are_counted_and_those_that_change_are_kept() -> None:
    moved = [knob(f"still_{k}") for k in range(8)] + [knob("moving")]
    seen = [
        Window(i, 10.0 * i, 10.0, {**{k.name: 5 for k in moved}, "moving": i}, {"response_time_s": 1.0 + i})
        for i in range(5)
    ]
    lines = frame(shown(rows_of([k.name for k in moved], OBJECTIVE, moved), [WindowDone(w) for w in seen], 80, 12))
    assert any(line.startswith("moving") for line in lines)
    assert any(re.match(r"and \d+ more", line) for line in lines)


def test_what_others_write_is_text() -> None:
    (window,) = windows(1, [], lambda i: {"response_time_s": 0.1})
    events = [*told(window, HOSTILE, MoveState.FAILED), Note(1.0, NoteKind.PLANT, HOSTILE)]
    text = "\n".join(shown([Row(HOSTILE, lambda w: HOSTILE)], events, 200))
    assert "[bold]loud[/bold]" in text and ":smile:" in text and "\\x1b]0;mine" in text


def test_the_referee_and_what_trying_has_cost_are_shown() -> None:
    limit = knob("workers")
    course = Course(Referee(OBJECTIVE), [limit])

    def at(index: int) -> Window:
        workers, response_s = (150, 1.0) if index < 8 else (40, 3.0)
        readings = {"response_time_s": response_s, "cpu_ratio": 0.5, "request_rate_hz": 160.0}
        return Window(index, 10.0 * index, 10.0, {"workers": workers}, readings, 1600)

    events = [event for i in range(9) for event in told(at(i), f"reason {i}")]
    lines = shown(rows_of(["workers"], OBJECTIVE), events, 80, course=course)
    assert any(line.startswith("referee: on trial: the change is new") for line in frame(lines))
    course = Course(Referee(OBJECTIVE), [limit])
    lines = frame(shown(rows_of(["workers"], OBJECTIVE), [*events, *told(at(9), "back")], 80, course=course))
    assert any(line.startswith("referee: worse: ") for line in lines)
    (cost,) = [line for line in lines if line.startswith("tried: 1 worse; trying has cost ")]
    assert float(cost.split("cost ")[1].split()[0]) == pytest.approx(40.0, rel=0.2), "20 s of windows, twice too much"


def test_a_trial_stays_above_the_table_and_a_step_of_a_live_method_does_not() -> None:
    seen = windows(3, [], lambda i: {"response_time_s": 0.1})
    events = [e for w in seen for e in told(w, f"because {w.index}", MoveState.APPLIED, workers=w.index)]
    rows = rows_of(["workers"], OBJECTIVE)
    trials = shown(rows, events, 80, course=Course(Referee(OBJECTIVE), [knob("workers")]))
    assert [line.split()[0] for line in trials if "because" in line and line[0].isdigit()] == ["10s", "20s", "30s"]
    assert not [line for line in shown(rows, events, 80) if "because" in line and line[0].isdigit()]


def test_another_size_of_the_terminal_is_followed_at_once() -> None:
    console, out = terminal(110)
    seen = windows(10, [], lambda i: {"response_time_s": 0.1})
    with LiveView(rows_of([], OBJECTIVE), Settings(10.0, 600.0), console=console) as view:
        for window in seen:
            view(WindowDone(window))
        view(Note(3.0, NoteKind.PLANT, "a note that is wrapped anew where the terminal has become too narrow for it"))
        before = len(out.getvalue())
        console.width = 60
        signal.raise_signal(signal.SIGWINCH)
        eventually(lambda: "\x1b[2J" in out.getvalue())
        with view._drawing_now:
            drawn = io.StringIO(out.getvalue()[before:])
    assert "\x1b[2J" in drawn.getvalue()
    lines = visible(drawn)
    assert max(map(len, lines)) <= 60
    assert any("note: a note" in line for line in lines) and any(line.startswith("window") for line in lines)
    assert signal.getsignal(signal.SIGWINCH) is signal.SIG_DFL, "the handler of before is back"


class Held(io.StringIO):
    """A terminal that takes nothing once it is held, until it is let go; it knows who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.go, self.waiting = False, threading.Event(), list[threading.Thread]()

    def write(self, text: str) -> int:
        if self.held:
            self.waiting.append(threading.current_thread())
            if threading.current_thread() is not threading.main_thread():
                self.go.wait(300)
        return super().write(text)


def test_another_size_of_a_terminal_that_takes_nothing_keeps_nobody_waiting() -> None:
    out = Held()
    console = Console(file=out, force_terminal=True, width=110, height=40)
    with LiveView(rows_of([], OBJECTIVE), Settings(10.0, 600.0), console=console) as view:
        view(WindowDone(windows(1, [], lambda i: {"response_time_s": 0.1})[0]))
        out.held = True
        signal.raise_signal(signal.SIGWINCH)
        eventually(lambda: bool(out.waiting))
        assert threading.main_thread() not in out.waiting, "the one that watches the server"
        out.held = False
        out.go.set()


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until something holds, a minute at most."""
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_size_that_changes_while_something_is_drawn_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    console, out = terminal(110)
    real = LiveView._view

    def interrupted(self: LiveView) -> object:
        monkeypatch.setattr(_live.LiveView, "_view", real)
        console.width = 60
        signal.raise_signal(signal.SIGWINCH)
        assert "\x1b[2J" not in out.getvalue()
        return real(self)

    monkeypatch.setattr(_live.LiveView, "_view", interrupted)
    with LiveView(rows_of([], OBJECTIVE), Settings(10.0, 600.0), console=console) as view:
        view(WindowDone(windows(1, [], lambda i: {"response_time_s": 0.1})[0]))
    assert "\x1b[2J" in out.getvalue()


def test_a_machine_without_room_for_a_thread_shows_less_and_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    said, event = list[Event](), Note(1.0, NoteKind.PLANT, "said")
    show = Quietly(said.append, Stop())

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        show(event)
        console, _ = terminal(80)
        with LiveView((), Settings(10.0, 600.0), console=console):
            pass
    assert said == []
    show(event)
    assert said == [event]


class Terminal(io.StringIO):
    """A terminal that can do nothing."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", WIDTHS)
def test_lines_on_a_terminal_without_a_table_fit_too(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out, moved = Terminal(), [knob(f"max_children_of_the_pool_{k}") for k in range(8)]
    lines = Lines(rows_of([k.name for k in moved], OBJECTIVE, moved), True, out, moved)
    lines.header()
    for window in windows(3, moved, lambda i: {"response_time_s": 0.1}):
        for event in told(window, f"a reason {HOSTILE} " + "of many words " * 20):
            lines(event)
    shown_lines = out.getvalue().split("\n")
    assert max(map(len, shown_lines)) <= width
    assert not [c for c in out.getvalue() if c != "\n" and not c.isprintable()]
    assert [line.split()[0] for line in shown_lines if line[:6].strip().isdigit()] == ["0", "1", "2"]


def test_without_a_terminal_there_is_one_line_per_window(capsys: pytest.CaptureFixture[str]) -> None:
    moved = [knob("workers")]
    with showing(False, rows_of(["workers"], OBJECTIVE, moved), Settings(10.0, 600.0), Stop(), knobs=moved) as tell:
        for window in windows(3, moved, lambda i: {"response_time_s": 0.1}):
            for event in told(window, "a reason of many words " * 20):
                tell(event)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["window", "0", "1", "2"]
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)


def test_who_is_asked_about_a_change_has_seen_the_window_that_speaks_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    moved, settings = [knob("workers")], Settings(10.0, 600.0, mode=Mode.APPROVE)
    with showing(False, rows_of(["workers"], OBJECTIVE, moved), settings, Stop(), knobs=moved, live=False) as tell:
        (window,) = windows(1, moved, lambda i: {"response_time_s": 0.1})
        done, made = told(window, "for a reason")
        tell(done)
        shown_before = capsys.readouterr().out.splitlines()[-1].split()
        assert shown_before[0] == "0" and {"100", "ms"} <= set(shown_before)
        tell(made)
    assert isinstance(made, MoveDone)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [what(made, moved)]


def test_of_many_knobs_a_line_says_only_those_that_change(capsys: pytest.CaptureFixture[str]) -> None:
    moved = [knob(f"knob_{k}") for k in range(8)]
    lines = Lines(rows_of([k.name for k in moved], OBJECTIVE, moved), True, None, moved)
    lines.header()
    (window,) = windows(1, moved, lambda i: {"response_time_s": 0.1})
    for event in told(window, "for a reason"):
        lines(event)
    assert "knob_0" not in capsys.readouterr().out.splitlines()[0]


def test_a_change_is_shown_as_far_as_rules_among_the_knobs_have_let_it_come() -> None:
    moved = [knob("least"), knob("most")]
    window = Window(0, 0.0, 10.0, {"least": 10, "most": 100}, {}, 200)
    asked = Move({"least": 26, "most": 16}, "for a reason")
    reached = MoveDone(window, asked, asked, MoveState.APPLIED, "least 26 is more", {"least": 25, "most": 25})
    assert what(reached, moved) == "least 10 -> 25, most 100 -> 25: for a reason"
    nowhere = MoveDone(window, asked, asked, MoveState.APPLIED, "least 26 is more", window.configuration)
    assert what(nowhere, moved) == "all as it was: for a reason"
    refused = MoveDone(window, asked, asked, MoveState.REFUSED, "least 26 is more")
    assert what(refused, moved) == "least 10 -> 26, most 100 -> 16 refused: least 26 is more"


@contextlib.contextmanager
def pseudo_terminal(columns: int, lines: int) -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)


@pytest.mark.parametrize(
    ("environment", "table", "colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_a_run_on_a_real_terminal_fits_it_and_ends_in_plain_text(
    tmp_path: Path, environment: dict[str, str], table: bool, colour: bool
) -> None:
    tune = ["tune", "simulated", "--duration", "3m", "--store", os.fspath(tmp_path / "s.sqlite")]
    command = [sys.executable, "-m", "trimtab", *tune]
    environ = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")} | environment
    with pseudo_terminal(72, 30) as (ours, theirs):
        run = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
        os.close(theirs)
        said = b""
        with run, contextlib.suppress(OSError):  # EIO: the other side has closed
            while chunk := os.read(ours, 65536):
                said += chunk
        assert run.returncode == 0
    text = said.decode()
    lines = [line for line in re.split(r"[\r\n]+", MOVE.sub("\n", STYLE.sub("", text))) if line]
    assert max(map(len, lines)) <= 72
    assert ("\x1b[1A" in text) == table, "drawn in place"
    assert bool(COLOUR.search(text)) == colour
    assert any("window 17 of about 18" in line for line in lines) == table
    end = next(i for i, line in enumerate(lines) if line.startswith("run 1: done"))
    assert [line.split(":")[0] for line in lines[end:] if line[0] != " "] == [
        "run 1",
        "start",
        "end",
        "so",
        "basis",
        "cost",
    ]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (110, 40)])
def test_a_search_over_many_knobs_fits_and_says_what_a_trial_came_to_and_cost(width: int, height: int) -> None:
    moved = [knob(f"{('cache', 'web', 'app', 'db')[n % 4]}.some_long_name_of_a_knob_{n}") for n in range(24)]
    objective = Objective("client_page_rate_hz", minimize=False)
    events: list[Event] = []
    for window in windows(6, moved, lambda i: {"client_page_rate_hz": 400.0 + i}):
        figures = {"trial": window.index + 1.0, "trials": 30.0, "lost_s": 3.2, "trial_lost_s": 0.4}
        figures |= {"incumbent": 410.0, "spread_ratio": 0.03} if window.index else {}
        changes = {one.name: (window.configuration[one.name] + 1) % 3 for one in moved}
        move = Move(changes, "the next one", figures)
        events += [WindowDone(window), MoveDone(window, move, move, MoveState.APPLIED)]
    console, out = terminal(width, height)
    settings = Settings(10.0, float("inf"), objective)
    with LiveView(rows_of([k.name for k in moved], objective, moved), settings, moved, console=console) as view:
        for event in events:
            view(event)
    last = frame(visible(out))
    assert len(last) <= height and max(map(len, last)) <= width
    said = " ".join(" ".join(last).split())
    assert "client page rate 405 Hz ± 6%; incumbent 410 Hz; it lost 400 ms of the start's work" in said
    assert "and 18 more: the next one" in said
    assert "1m, window 6, trial 6 of 30" in said
    assert "cache.some_long_name_of_a_knob_0" in said
