"""The run store: every run, window, move and note, in one SQLite file that only its owner can read.

Each write is a transaction of its own in write-ahead mode with `synchronous=NORMAL`. That survives the end of this
process at any instant, SIGKILL included, because the log is then already in the kernel's page cache; only a power cut
can lose the last writes, and it never damages the file. What is needed to undo after a power cut is with the plant's
own change (for Apache, in its snippet), so an fsync for every window would cost disk writes and protect nothing more.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from os.path import samestat
from pathlib import Path
from typing import Any

from trimtab import codec, own, schema
from trimtab.core import Applied, Configuration, Move, MoveState, Reading, Window
from trimtab.errors import StoreError, UsageError
from trimtab.events import Event, MoveDone, Note, NoteKind, Outcome, Stamp, Status, WindowDone
from trimtab.locks import alone
from trimtab.processes import Process, identify
from trimtab.records import Plan, Run, StoredMove
from trimtab.replay import Past
from trimtab.trust import printable, untrusted

_LUMPS = 16
"""A run that keeps only its last windows deletes others once they are a sixteenth of these."""
_EVENTS = ("windows", "moves", "notes")
_MOVES = "SELECT sequence, idx, proposed, move, state, detail, took_s, configuration FROM moves"
_RUN = "SELECT id, started, finished, pid, pid_started, status, detail, restored, plan FROM runs"
KILLED = "trimtab was killed while it was applied"
"""Detail of a move that was under way when its run was killed, once somebody has tried to go on with that."""
_LOCK = "-lock"
_BESIDE = ("", "-wal", "-shm", "-journal", _LOCK)
"""Suffixes of the files that are opened: the store itself, those beside it that SQLite opens, and the lock."""
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)


def default_path() -> Path:
    """Path of the store unless the user names another: `trimtab/runs.sqlite` in the XDG state directory."""
    return own.state() / "runs.sqlite"


class Store:
    """An open store.

    Args:
        path: the file; None keeps the store in memory.
        create: False to read only what there is: a file that does not exist is then an empty store, and one on a disk
            that is full or cannot be written is read all the same.

    Raises:
        UsageError: somebody else could change the file or what is beside it, it is a link, or it is no store; it was
            left alone.
        StoreError: the file cannot be opened, or comes from a newer trimtab.
    """

    def __init__(self, path: Path | None, create: bool = True) -> None:
        self.path = path
        name = "" if path is None else os.fspath(path)
        try:
            if path is None or not (create or path.exists()):
                name = ":memory:"
            if name != ":memory:":
                _make_private(Path(name))
            with self._errors(), contextlib.nullcontext() if name == ":memory:" else alone(Path(f"{name}{_LOCK}")):
                self._db = sqlite3.connect(name, timeout=10.0, isolation_level=None)
                schema.require_store(self._db, Path(name))  # the next line would change another program's
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
                schema.bring_up(self._db)
        except (OSError, StoreError) as error:
            if create or not _unwritable(error.__cause__ or error):
                said = str(error) if isinstance(error, StoreError) else f"cannot open the run store {name}: {error}"
                raise StoreError(said) from error
            with self._errors():
                self._db = _read_only(Path(name))
        self._db.execute("PRAGMA foreign_keys=ON")
        self._file = None if path is None or name == ":memory:" else path.stat()

    def require_there(self) -> None:
        """Makes sure that what is written can be found again: SQLite goes on in a file that has no name any more.

        Raises:
            StoreError: the file was removed, moved or replaced.
        """
        with self._errors():
            if self._file is not None and self.path is not None and not samestat(self._file, self.path.stat()):
                raise StoreError("another file is in its place")

    def close(self) -> None:
        """Closes the file; may be called twice."""
        self._db.close()

    def begin(self, plan: Plan, keep: int | None = None) -> RunWriter:
        """Writes the start of a run by this process.

        Args:
            plan: its plan.
            keep: keeps only about so many of its windows with their moves and notes, the last ones; None to keep all.
        """
        this = identify(os.getpid()) or Process(os.getpid(), 0)
        run_id = self.execute(
            "INSERT INTO runs (started, pid, pid_started, status, detail, restored, label, grouping, plan)"
            " VALUES (?, ?, ?, ?, '', 0, ?, ?, ?)",
            (time.time(), this.pid, this.start_ticks, Status.RUNNING, plan.label, plan.group, codec.encode(plan)),
        )
        return RunWriter(self, run_id, keep)

    def resume(self, run_id: int, keep: int | None = None) -> RunWriter:
        """Takes over a run whose process was killed: it runs again, in this process; its open moves are closed.

        Args:
            run_id: the run's number.
            keep: as for `begin`.
        """
        this = identify(os.getpid()) or Process(os.getpid(), 0)
        self.execute(
            "UPDATE runs SET status = ?, finished = NULL, pid = ?, pid_started = ? WHERE id = ?",
            (Status.RUNNING, this.pid, this.start_ticks, run_id),
        )
        self.execute(
            "UPDATE moves SET state = ?, detail = ? WHERE run = ? AND state = ?",
            (MoveState.FAILED, KILLED, run_id, MoveState.OPEN),
        )
        return RunWriter(self, run_id, keep)

    def runs(self, group: str | None = None) -> list[Run]:
        """The runs, oldest first; only those of a group when one is given."""
        where = ("", ()) if group is None else (" WHERE grouping = ?", (group,))
        return [_run(row) for row in self._rows(f"{_RUN}{where[0]} ORDER BY id", where[1])]

    def unended(self) -> list[Run]:
        """The runs that go on, and those that were killed, oldest first."""
        return [_run(row) for row in self._rows(f"{_RUN} WHERE status = ? ORDER BY id", (Status.RUNNING,))]

    def run(self, run_id: int) -> Run:
        """One run.

        Raises:
            UsageError: there is no such run.
        """
        rows = self._rows(f"{_RUN} WHERE id = ?", (run_id,))
        if not rows:
            known = [row[0] for row in self._rows("SELECT id FROM runs ORDER BY id")]
            there = f"it has {known[0]} to {known[-1]}" if known else "it has none"
            raise UsageError(f"no run {run_id} in the store {self.path or 'in memory'}: {there}")
        return _run(rows[0])

    def windows(self, run_id: int) -> list[Window]:
        """The windows of a run, in order."""
        return [event.window for event in self._windows(run_id, -1)]

    def moves(self, run_id: int, after: int = -1) -> list[StoredMove]:
        """The moves of a run, holds included, in order; only those after a place in the sequence when given."""
        rows = self._rows(f"{_MOVES} WHERE run = ? AND sequence > ? ORDER BY sequence", (run_id, after))
        return [_move(run_id, row) for row in rows]

    def last_move(self, run_id: int) -> StoredMove | None:
        """The last move of a run; None where it has none."""
        rows = self._rows(f"{_MOVES} WHERE run = ? ORDER BY sequence DESC LIMIT 1", (run_id,))
        return _move(run_id, rows[0]) if rows else None

    def configurations(self, run_id: int) -> list[Configuration]:
        """All configurations that were in force in a run, each once; a long one has few of them in many windows."""
        rows = self._rows(
            "SELECT configuration FROM windows WHERE run = ?1 UNION"
            " SELECT configuration FROM moves WHERE run = ?1 AND configuration IS NOT NULL",
            (run_id,),
        )
        return [_read(row[0], Configuration, run_id) for row in rows]

    def notes(self, run_id: int, after: int = -1) -> list[Note]:
        """The notes of a run, in order; only those after a place in the sequence when one is given."""
        rows = self._rows(
            "SELECT at_s, kind, text, knob, sequence, node FROM notes"
            " WHERE run = ? AND sequence > ? ORDER BY sequence",
            (run_id, after),
        )
        return [Note(row[0], NoteKind(row[1]), row[2], row[3], Stamp(run_id, *row[4:])) for row in rows]

    def events(self, run_id: int, after: int = -1) -> list[Event]:
        """All events of a run in their order, with the outcomes of its moves.

        Args:
            run_id: the run's number.
            after: only what came after this place in the sequence.
        """
        found: list[Event] = [*self._windows(run_id, after), *self.notes(run_id, after)]
        windows = {event.window.index: event for event in found if isinstance(event, WindowDone)}
        for move in self.moves(run_id, after):
            if move.index in windows:
                seen = windows[move.index]
                stamp = replace(seen.stamp, sequence=move.sequence)
                outcome = (move.state, move.detail, move.configuration)
                found.append(MoveDone(seen.window, move.proposed, move.move, *outcome, stamp))
        return sorted(found, key=lambda event: event.stamp.sequence)

    def past(self, run_id: int) -> tuple[Past, list[Event]] | None:
        """State of a run after its last decision, as JSON has it, and the events since.

        None where nothing was stored of it: it decided nothing yet, or an older trimtab wrote it.
        """
        rows = self._rows("SELECT past, sequence FROM states WHERE run = ?", (run_id,))
        if not rows:
            return None
        return _read(rows[0][0], Past, run_id), self.events(run_id, rows[0][1])

    def checkpoint(self, run_id: int) -> tuple[Past, list[Event]] | None:
        """Where a run stood before the first of the windows that it kept, its states as JSON has them, and the rest.

        None where it kept all, or where an older trimtab forgot the others.
        """
        rows = self._rows(
            "SELECT past, sequence FROM checkpoints WHERE run = ?1"
            " AND idx <= (SELECT min(idx) FROM windows WHERE run = ?1) ORDER BY idx DESC LIMIT 1",
            (run_id,),
        )
        return (_read(rows[0][0], Past, run_id), self.events(run_id, rows[0][1])) if rows else None

    def forget(self, run_id: int, first: int) -> None:
        """Forgets what came before a window, as far as it is known where the run stood then.

        Args:
            run_id: the run's number.
            first: index of the window; of a run that decides one before it, down to the last known standing.
        """
        with self.transaction():
            for past, sequence in self._rows("SELECT past, sequence FROM states WHERE run = ?", (run_id,)):
                values = (run_id, _read(past, Past, run_id).windows, sequence, past)
                self.execute("INSERT OR IGNORE INTO checkpoints VALUES (?, ?, ?, ?)", values)
            known = self._rows("SELECT idx, sequence FROM checkpoints WHERE run = ? ORDER BY idx", (run_id,))
            stood = [one for one in known if one[0] <= first]
            if first < 1 or (known and not stood):
                return
            first, last = stood[-1] if stood else (first, None)
            for table in ("windows", "checkpoints"):
                self.execute(f"DELETE FROM {table} WHERE run = ? AND idx < ?", (run_id, first))
            self.execute(
                "DELETE FROM notes WHERE run = ?1"
                " AND sequence <= ifnull(?2, (SELECT min(sequence) - 1 FROM windows WHERE run = ?1))",
                (run_id, last),
            )

    def _windows(self, run_id: int, after: int) -> list[WindowDone]:
        measured: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        query = (
            "SELECT idx, chosen, metric, value, source, node FROM readings WHERE run = ?1"
            " AND idx >= (SELECT min(idx) FROM windows WHERE run = ?1 AND sequence > ?2) ORDER BY idx, place"
        )
        with self._errors():  # row by row, and each name once: a long run has millions of readings
            for index, *reading in self._db.execute(query, (run_id, after)):
                measured[index].append(tuple(sys.intern(one) if isinstance(one, str) else one for one in reading))
        rows = self._rows(
            "SELECT idx, start_s, duration_s, configuration, samples, problems, aborted, sequence, node"
            " FROM windows WHERE run = ? AND sequence > ? ORDER BY idx",
            (run_id, after),
        )
        return [_window(run_id, row, measured[row[0]]) for row in rows]

    def finish(self, run_id: int, outcome: Outcome) -> None:
        """Writes how a run ended."""
        self.execute(
            "UPDATE runs SET finished = ?, status = ?, detail = ?, restored = ? WHERE id = ?",
            (time.time(), outcome.status, outcome.detail, outcome.restored, run_id),
        )

    def last_sequence(self, run_id: int) -> int:
        """The place of a run's last event; -1 where it has none."""
        tables = " UNION ALL ".join(f"SELECT max(sequence) s FROM {t} WHERE run = ?1" for t in _EVENTS)
        return next(int(row[0]) for row in self._rows(f"SELECT ifnull(max(s), -1) FROM ({tables})", (run_id,)))

    def execute(self, statement: str, values: tuple[Any, ...]) -> int:
        """Carries out one statement and returns the number of the row it made, for the writer of a run.

        Bytes of a path or an argument that are no characters are stored escaped: SQLite takes no half characters.
        """
        whole = tuple(v.encode(errors="backslashreplace").decode() if isinstance(v, str) else v for v in values)
        with self._errors():
            return self._db.execute(statement, whole).lastrowid or 0

    def execute_all(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Carries out one statement for each of some rows, for the writer of a run."""
        with self._errors():
            self._db.executemany(statement, rows)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._db.execute(query, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes all writes within one transaction."""
        self.execute("BEGIN IMMEDIATE", ())
        try:
            yield
            self.execute("COMMIT", ())
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self.execute("ROLLBACK", ())
            raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns errors of SQLite, and of files, into a StoreError."""
        try:
            yield
        except (OSError, sqlite3.Error, StoreError) as error:
            raise StoreError(f"the run store {self.path or 'in memory'}: {error}") from error


class RunWriter:
    """Writes one run; a `Recorder` for the loop.

    Args:
        store: where it is written.
        run_id: the run's number.
        keep: keeps only about so many windows, the last ones; None to keep all.
    """

    def __init__(self, store: Store, run_id: int, keep: int | None = None) -> None:
        self.store = store
        self.run_id = run_id
        self._keep = keep
        self._sequence = store.last_sequence(run_id)

    def window(self, window: Window) -> Stamp:
        """Writes a window with all that was measured in it."""
        w = window
        self.store.require_there()
        if self._keep is not None and w.index % max(1, self._keep // _LUMPS) == 0:
            self.store.forget(self.run_id, w.index - self._keep)
        with self.store.transaction():
            stamp = self._next()
            configuration, problems = codec.encode(w.configuration), codec.encode(w.problems)
            self.store.execute(
                "INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(stamp.run, w.index, stamp.sequence, stamp.node, w.start_s, w.duration_s),
                    *(configuration, w.samples, problems, w.aborted),
                ),
            )
            rows = [
                (stamp.run, w.index, place, one.node, one.source, one.metric, one.value, chosen)
                for place, (one, chosen) in enumerate(_placed(w))
            ]
            self.store.execute_all("INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return stamp

    def move(self, index: int, proposed: Move, move: Move, state: MoveState) -> Stamp:
        """Writes the move that follows from window `index`."""
        stamp = self._next()
        self.store.execute(
            "INSERT INTO moves (run, sequence, node, idx, proposed, move, state, detail)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, '')",
            (stamp.run, stamp.sequence, stamp.node, index, codec.encode(proposed), codec.encode(move), state),
        )
        return stamp

    def outcome(self, stamp: Stamp, state: MoveState, detail: str = "", applied: Applied | None = None) -> None:
        """Writes the outcome of an open move."""
        took_s = applied and applied.took_s
        configuration = applied and codec.encode(applied.configuration)
        self.store.execute(
            "UPDATE moves SET state = ?, detail = ?, took_s = ?, configuration = ? WHERE run = ? AND sequence = ?",
            (state, detail, took_s, configuration, stamp.run, stamp.sequence),
        )

    def note(self, note: Note) -> Stamp:
        """Writes a note."""
        stamp = self._next()
        self.store.execute(
            "INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?, ?)",
            (stamp.run, stamp.sequence, stamp.node, note.at_s, note.kind, note.text, note.knob),
        )
        return stamp

    def stand(self, past: Past) -> None:
        """Writes the run's state, in place of the one before."""
        values = (self.run_id, self._sequence, codec.encode(past))
        self.store.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", values)

    def finish(self, outcome: Outcome) -> None:
        """Writes how the run ended."""
        self.store.finish(self.run_id, outcome)

    def _next(self) -> Stamp:
        """The place of the next event."""
        self._sequence += 1
        return Stamp(self.run_id, self._sequence)


def _placed(window: Window) -> list[tuple[Reading, int | None]]:
    """All readings of a window, each with its place among those that decisions go by; None where it was not chosen.

    A chosen one that no sensor is known to have measured has no source.
    """
    place = {name: index for index, name in enumerate(window.readings)}
    rows: list[tuple[Reading, int | None]] = []
    for one in window.measured:
        taken = one.metric in place and window.readings[one.metric] == one.value
        rows.append((one, place.pop(one.metric) if taken else None))
    return rows + [(Reading(name, window.readings[name], ""), index) for name, index in place.items()]


def _window(run_id: int, row: tuple[Any, ...], readings: list[tuple[Any, ...]]) -> WindowDone:
    """A row of the table of windows, with its readings, as a window."""
    index, start_s, duration_s, configuration, samples, problems, aborted, *stamp = row
    chosen = sorted(one[:3] for one in readings if one[0] is not None)
    window = Window(
        index,
        start_s,
        duration_s,
        _read(configuration, Configuration, run_id),
        {metric: value for _, metric, value in chosen},
        samples,
        _read(problems, tuple[str, ...], run_id),
        aborted,
        tuple(Reading(*one[1:]) for one in readings if one[3]),
    )
    return WindowDone(window, Stamp(run_id, *stamp))


def _move(run_id: int, row: tuple[Any, ...]) -> StoredMove:
    """A row of the table of moves as a stored move."""
    sequence, index, proposed, move, state, detail, took_s, configuration = row
    after = _read(configuration, Configuration, run_id) if configuration else None
    moves = (_read(proposed, Move, run_id), _read(move, Move, run_id))
    return StoredMove(sequence, index, *moves, MoveState(state), detail, took_s, after)


def _run(row: tuple[Any, ...]) -> Run:
    """A row of the table of runs as a run."""
    run_id, started, finished, pid, pid_started, status, detail, restored, plan = row
    ended = (finished, Status(status), detail, bool(restored))
    return Run(run_id, _read(plan, Plan, run_id), started, *ended, Process(pid, pid_started))


def _read(text: str, kind: Any, run_id: int) -> Any:
    """The value that a column of a run holds.

    Raises:
        StoreError: it is not of that kind.
    """
    try:
        return codec.decode(text, kind)
    except ValueError as error:
        raise StoreError(f"run {run_id} of the store cannot be read: {error}") from None


def _make_private(path: Path) -> None:
    """Makes the file and its directory where they do not exist, for the owner alone.

    Raises:
        UsageError: somebody else could change them, or what is beside the file, or it is a link.
        OSError: they cannot be made.
    """
    _require_ours(path)
    for directory in reversed([one for one in path.parents if not one.exists()]):
        directory.mkdir(mode=0o700, exist_ok=True)  # each by itself: `parents` would leave their modes to the umask
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _unwritable(error: BaseException) -> bool:
    """Whether a store cannot be opened because nothing can be written where it is."""
    return isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNWRITABLE


def _read_only(path: Path) -> sqlite3.Connection:
    """A store that nothing is written to; one without a log SQLite opens so where it is said to stay as it is."""
    _require_ours(path)
    log = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=10.0, isolation_level=None)
    schema.require_store(db, path)
    schema.bring_up(db)
    return db


def _require_ours(path: Path) -> None:
    """Makes sure that nobody but root and this user can change the files that will be opened.

    Raises:
        UsageError: somebody has, or what is there is no file.
    """
    names = [path.with_name(f"{path.name}{suffix}") for suffix in _BESIDE]
    if links := [one for one in names if one.is_symlink()]:
        raise UsageError(f"the run store {printable(os.fspath(links[0]))} is a link: name the file itself")
    for one in (path.parent, *names):
        if reason := untrusted(one):
            raise UsageError(f"the run store {printable(os.fspath(path))} is not opened: {reason}")
    if path.exists() and not path.is_file():  # SQLite takes an error of a FIFO's for one of the disk
        raise UsageError(f"{printable(os.fspath(path))} is no run store: name another file by --store")
