"""The run store: every run, window, move and note, in one SQLite file that only its owner can read.

Each write is a transaction of its own in write-ahead mode with `synchronous=NORMAL`. That survives the end of this
process at any instant, SIGKILL included, because the log is then already in the kernel's page cache; only a power cut
can lose the last writes, and it never damages the file. What is needed to undo after a power cut is with the plant's
own change (for Apache, in its snippet), so an fsync for every window would cost disk writes and protect nothing more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trimtab import own
from trimtab.core.move import Move
from trimtab.core.plant import Applied
from trimtab.core.trial import MoveState
from trimtab.core.window import Window
from trimtab.errors import StoreError, UsageError
from trimtab.events import Note, NoteKind, Outcome, Status
from trimtab.processes import Process, identify
from trimtab.records import (
    Plan,
    Run,
    StoredMove,
    dumps,
    move_json,
    plan_json,
    run_from,
    stored_move_from,
    window_from,
)
from trimtab.trust import printable, untrusted

SCHEMA_VERSION = 1
_LUMPS = 16
"""A run that keeps only its last windows forgets the others a sixteenth of what it keeps at a time."""

_SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, started REAL NOT NULL, finished REAL, pid INTEGER NOT NULL,
    pid_started INTEGER NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL, restored INTEGER NOT NULL,
    label TEXT NOT NULL, grouping TEXT NOT NULL, plan TEXT NOT NULL);
CREATE TABLE windows (
    run INTEGER NOT NULL REFERENCES runs (id), idx INTEGER NOT NULL, start_s REAL NOT NULL, duration_s REAL NOT NULL,
    configuration TEXT NOT NULL, readings TEXT NOT NULL, samples INTEGER, problems TEXT NOT NULL,
    aborted TEXT NOT NULL, PRIMARY KEY (run, idx)) WITHOUT ROWID;
CREATE TABLE moves (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, idx INTEGER NOT NULL, proposed TEXT NOT NULL,
    move TEXT NOT NULL, state TEXT NOT NULL, detail TEXT NOT NULL, took_s REAL, configuration TEXT,
    FOREIGN KEY (run, idx) REFERENCES windows (run, idx));
CREATE INDEX moves_of_run ON moves (run, idx);
CREATE TABLE notes (
    run INTEGER NOT NULL REFERENCES runs (id), at_s REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
    knob TEXT NOT NULL);
"""

_RUN = "SELECT id, started, finished, pid, pid_started, status, detail, restored, plan FROM runs"


_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite opens with a file: itself, and what is beside it."""


def default_path() -> Path:
    """Where the store is unless the user says otherwise: `trimtab/runs.sqlite` in the XDG state directory."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else own.home() / ".local" / "state") / "trimtab" / "runs.sqlite"


class Store:
    """An open store.

    Args:
        path: the file; None keeps the store in memory.
        create: False to read only what there is: a file that does not exist is then an empty store.

    Raises:
        UsageError: somebody else could change the file or what is beside it, or it is a link; it was not opened.
        StoreError: the file cannot be opened, is no store or comes from a newer trimtab.
    """

    def __init__(self, path: Path | None, create: bool = True) -> None:
        self.path = path
        name = ":memory:" if path is None or not (create or path.exists()) else os.fspath(path)
        try:
            if name != ":memory:":
                _make_private(Path(name))
            self._db = sqlite3.connect(name, timeout=10.0, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the run store {name}: {error}") from error
        with self._errors(), _alone(name):
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._migrate()

    def close(self) -> None:
        """Closes the file; may be called twice."""
        self._db.close()

    def begin(self, plan: Plan, keep: int | None = None) -> RunWriter:
        """Writes the start of a run by this process.

        Args:
            plan: what is known of it.
            keep: keeps only about so many of its windows with their moves and notes, the last ones; None to keep all.
        """
        this = identify(os.getpid()) or Process(os.getpid(), 0)
        run_id = self.execute(
            "INSERT INTO runs (started, pid, pid_started, status, detail, restored, label, grouping, plan)"
            " VALUES (?, ?, ?, ?, '', 0, ?, ?, ?)",
            (time.time(), this.pid, this.start_ticks, Status.RUNNING, plan.label, plan.group, plan_json(plan)),
        )
        return RunWriter(self, run_id, keep)

    def resume(self, run_id: int, keep: int | None = None) -> RunWriter:
        """Takes over a run whose process was killed: it runs again, in this process; its open moves are closed.

        Args:
            run_id: the run's number.
            keep: as of `begin`.
        """
        this = identify(os.getpid()) or Process(os.getpid(), 0)
        self.execute(
            "UPDATE runs SET status = ?, finished = NULL, pid = ?, pid_started = ? WHERE id = ?",
            (Status.RUNNING, this.pid, this.start_ticks, run_id),
        )
        self.execute(
            "UPDATE moves SET state = ?, detail = ? WHERE run = ? AND state = ?",
            (MoveState.FAILED, "trimtab was killed while it was applied", run_id, MoveState.OPEN),
        )
        return RunWriter(self, run_id, keep)

    def runs(self, group: str | None = None) -> list[Run]:
        """The runs, oldest first; only those of a group when one is given."""
        where = ("", ()) if group is None else (" WHERE grouping = ?", (group,))
        return [run_from(row) for row in self._rows(f"{_RUN}{where[0]} ORDER BY id", where[1])]

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
        return run_from(rows[0])

    def windows(self, run_id: int) -> list[Window]:
        """The windows of a run, in order."""
        rows = self._rows(
            "SELECT idx, start_s, duration_s, configuration, readings, samples, problems, aborted"
            " FROM windows WHERE run = ? ORDER BY idx",
            (run_id,),
        )
        return [window_from(row) for row in rows]

    def moves(self, run_id: int) -> list[StoredMove]:
        """The moves of a run, holds included, in order."""
        rows = self._rows(
            "SELECT number, idx, proposed, move, state, detail, took_s, configuration FROM moves WHERE run = ?"
            " ORDER BY number",
            (run_id,),
        )
        return [stored_move_from(row) for row in rows]

    def notes(self, run_id: int) -> list[Note]:
        """The notes of a run, in order."""
        rows = self._rows("SELECT at_s, kind, text, knob FROM notes WHERE run = ? ORDER BY rowid", (run_id,))
        return [Note(row[0], NoteKind(row[1]), row[2], row[3]) for row in rows]

    def finish(self, run_id: int, outcome: Outcome) -> None:
        """Writes how a run ended."""
        self.execute(
            "UPDATE runs SET finished = ?, status = ?, detail = ?, restored = ? WHERE id = ?",
            (time.time(), outcome.status, outcome.detail, outcome.restored, run_id),
        )

    def execute(self, statement: str, values: tuple[Any, ...]) -> int:
        """Carries out one statement and returns the number of the row it made, for the writer of a run."""
        with self._errors():
            return self._db.execute(statement, values).lastrowid or 0

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._db.execute(query, values).fetchall()

    def _migrate(self) -> None:
        """Makes the tables of a new store, and refuses one that a newer trimtab has written."""
        version = self._version()
        if version == 0:
            self._db.execute("BEGIN IMMEDIATE")
            if self._version() == 0:  # nobody else has made them since
                for statement in _SCHEMA.split(";")[:-1]:
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._db.execute("COMMIT")
        elif version > SCHEMA_VERSION:
            raise StoreError(f"{self.path} was written by a newer trimtab (schema {version}, here {SCHEMA_VERSION})")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns what SQLite raises into a StoreError."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"the run store {self.path or 'in memory'}: {error}") from error


class RunWriter:
    """Writes one run; a `Recorder` for the loop.

    Args:
        store: where.
        run_id: the run's number.
        keep: keeps only about so many windows, the last ones; None to keep all.
    """

    def __init__(self, store: Store, run_id: int, keep: int | None = None) -> None:
        self.store = store
        self.run_id = run_id
        self._keep = keep

    def window(self, window: Window) -> None:
        """Writes a window."""
        w = window
        if self._keep is not None and w.index % max(1, self._keep // _LUMPS) == 0:
            self._forget(w.index - self._keep)
        self.store.execute(
            "INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(
                    self.run_id,
                    w.index,
                    w.start_s,
                    w.duration_s,
                    dumps(dict(w.configuration)),
                    dumps(dict(w.readings)),
                ),
                *(w.samples, dumps(w.problems), w.aborted),
            ),
        )

    def move(self, index: int, proposed: Move, move: Move, state: MoveState) -> int:
        """Writes the move that follows from window `index` and returns its number."""
        return self.store.execute(
            "INSERT INTO moves (run, idx, proposed, move, state, detail) VALUES (?, ?, ?, ?, ?, '')",
            (self.run_id, index, move_json(proposed), move_json(move), state),
        )

    def outcome(self, number: int, state: MoveState, detail: str = "", applied: Applied | None = None) -> None:
        """Writes what became of an open move."""
        took_s = applied and applied.took_s
        configuration = applied and dumps(dict(applied.configuration))
        self.store.execute(
            "UPDATE moves SET state = ?, detail = ?, took_s = ?, configuration = ? WHERE number = ?",
            (state, detail, took_s, configuration, number),
        )

    def note(self, note: Note) -> None:
        """Writes a note."""
        self.store.execute(
            "INSERT INTO notes VALUES (?, ?, ?, ?, ?)", (self.run_id, note.at_s, note.kind, note.text, note.knob)
        )

    def finish(self, outcome: Outcome) -> None:
        """Writes how the run ended."""
        self.store.finish(self.run_id, outcome)

    def _forget(self, first: int) -> None:
        """Removes the windows before this one, the moves that followed from them, and the notes of their time."""
        for table in ("moves", "windows"):
            self.store.execute(f"DELETE FROM {table} WHERE run = ? AND idx < ?", (self.run_id, first))
        self.store.execute(
            "DELETE FROM notes WHERE run = ?1 AND at_s < (SELECT min(start_s) FROM windows WHERE run = ?1)",
            (self.run_id,),
        )


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Keeps others out while a store is opened: a change to WAL does not wait for them, whatever the time-out."""
    if name == ":memory:":
        yield
        return
    # The directory, because closing any other descriptor of the file would drop the locks that SQLite holds on it.
    directory = os.open(os.path.dirname(name) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


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


def _require_ours(path: Path) -> None:
    """Makes sure that nobody but root and this user has a say in what SQLite will open.

    Raises:
        UsageError: somebody has.
    """
    names = [path.with_name(f"{path.name}{suffix}") for suffix in _BESIDE]
    if links := [one for one in names if one.is_symlink()]:
        raise UsageError(f"the run store {printable(os.fspath(links[0]))} is a link: name the file itself")
    for one in (path.parent, *names):
        if reason := untrusted(one):
            raise UsageError(f"the run store {printable(os.fspath(path))} is not opened: {reason}")
