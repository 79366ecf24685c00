"""The tables of the run store, and how a store of an older trimtab becomes one of today.

An event is a row of `windows`, `moves` or `notes`; `sequence` counts them together in each run, in the order in which
they came to pass. `readings` holds all that was measured in a window; `chosen` is the place of those that decisions
went by, and NULL for the others. `states` holds where a run stood after its last decision, and `checkpoints`, of a
run that forgets its first windows, where it stood before those that are left: `idx` is the next window's.

Schema 1 had no sequence, no nodes and no states, kept the readings of a window as one text, and what only some runs
have in places of other things: a plan's `guarantee`, the host's `workload` and `steady`. Schema 2 had no checkpoints.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab import codec
from trimtab.core import Move, Role
from trimtab.errors import StoreError, UsageError
from trimtab.events import NoteKind, Status
from trimtab.processes import Process
from trimtab.records import GUARANTEE, Plan
from trimtab.trust import printable

VERSION = 3
_TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, started REAL NOT NULL, finished REAL, pid INTEGER NOT NULL,
    pid_started INTEGER NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL, restored INTEGER NOT NULL,
    label TEXT NOT NULL, grouping TEXT NOT NULL, plan TEXT NOT NULL);
CREATE TABLE windows (
    run INTEGER NOT NULL REFERENCES runs (id), idx INTEGER NOT NULL, sequence INTEGER NOT NULL, node TEXT NOT NULL,
    start_s REAL NOT NULL, duration_s REAL NOT NULL, configuration TEXT NOT NULL, samples INTEGER,
    problems TEXT NOT NULL, aborted TEXT NOT NULL, PRIMARY KEY (run, idx)) WITHOUT ROWID;
CREATE TABLE readings (
    run INTEGER NOT NULL, idx INTEGER NOT NULL, place INTEGER NOT NULL, node TEXT NOT NULL, source TEXT NOT NULL,
    metric TEXT NOT NULL, value REAL NOT NULL, chosen INTEGER, PRIMARY KEY (run, idx, place),
    FOREIGN KEY (run, idx) REFERENCES windows (run, idx) ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE moves (
    run INTEGER NOT NULL, sequence INTEGER NOT NULL, node TEXT NOT NULL, idx INTEGER NOT NULL,
    proposed TEXT NOT NULL, move TEXT NOT NULL, state TEXT NOT NULL, detail TEXT NOT NULL, took_s REAL,
    configuration TEXT, PRIMARY KEY (run, sequence),
    FOREIGN KEY (run, idx) REFERENCES windows (run, idx) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX moves_of_window ON moves (run, idx);
CREATE TABLE notes (
    run INTEGER NOT NULL REFERENCES runs (id), sequence INTEGER NOT NULL, node TEXT NOT NULL, at_s REAL NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL, knob TEXT NOT NULL, PRIMARY KEY (run, sequence)) WITHOUT ROWID;
CREATE TABLE states (
    run INTEGER PRIMARY KEY REFERENCES runs (id), sequence INTEGER NOT NULL, past TEXT NOT NULL);
"""
_CHECKPOINTS = """
CREATE TABLE checkpoints (
    run INTEGER NOT NULL REFERENCES runs (id), idx INTEGER NOT NULL, sequence INTEGER NOT NULL, past TEXT NOT NULL,
    PRIMARY KEY (run, idx)) WITHOUT ROWID
"""
_ALWAYS = frozenset({"runs", "windows", "moves", "notes"})
"""Tables that a store of each version has."""
_ROLES = {"MaxRequestWorkers": Role.WORKER_LIMIT, "workers": Role.WORKER_LIMIT, "KeepAliveTimeout": Role.KEEP_ALIVE}
"""Native name to role of the knobs in stores that were written before knobs had roles; budgets carry a class."""


def require_store(db: sqlite3.Connection, path: Path) -> None:
    """Makes sure that an open file is a run store of whatever version, or has nothing in it yet; else it is closed.

    Raises:
        UsageError: it is something else; nothing of it is changed.
        sqlite3.Error: it cannot be read.
    """
    try:
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        ours = not there or there >= _ALWAYS
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        ours = False
    if not ours:
        db.close()
        raise UsageError(f"{printable(os.fspath(path))} is no run store: name another file by --store")


def bring_up(db: sqlite3.Connection) -> None:
    """Makes the tables of a new store, or of an old one those of today, in one transaction or not at all.

    Raises:
        StoreError: it comes from a newer trimtab, a run of an older one still goes on in it, or it holds what no
            trimtab has written; it is as it was.
        sqlite3.Error: it cannot be written; it is as it was.
    """
    if _version(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = _version(db)  # somebody else may have brought it up since
        if version > VERSION:
            raise StoreError(f"it was written by a newer trimtab (schema {version}, here {VERSION})")
        if version == 0:
            _create(db)
        elif version == 1:
            _from_first(db)
        elif version == 2:
            db.execute(_CHECKPOINTS)
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already
            db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _create(db: sqlite3.Connection) -> None:
    for statement in (*_TABLES.split(";")[:-1], _CHECKPOINTS):
        db.execute(statement)


def _from_first(db: sqlite3.Connection) -> None:
    """Moves all that is in a store of schema 1; no type of today fits its texts, so they are read as plain JSON."""
    for run, pid, started in db.execute("SELECT id, pid, pid_started FROM runs WHERE status = ?", (Status.RUNNING,)):
        if Process(pid, started).alive():
            raise StoreError(f"run {run} of an older trimtab (process {pid}) still writes into it: end that first")
    tables = ("runs", "windows", "moves", "notes")
    order = {"windows": "run, idx"}
    old = {t: db.execute(f"SELECT * FROM {t} ORDER BY {order.get(t, 'rowid')}").fetchall() for t in tables}
    last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
    for table in reversed(tables):
        db.execute(f"DROP TABLE {table}")
    _create(db)
    for row in old["runs"]:
        try:
            plan = codec.encode(codec.convert(plan_from_first(json.loads(row[-1])), Plan))
            db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * 11)})", (*row[:-1], plan))
            events_from_first(
                db, *([one for one in old[table] if one[table == "moves"] == row[0]] for table in tables[1:])
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"run {row[0]}, written by an older trimtab, cannot be read: {error}") from None
    if last is not None:  # a number is never used twice
        db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'runs'", last)


def events_from_first(
    db: sqlite3.Connection, windows: list[tuple[Any, ...]], moves: list[tuple[Any, ...]], notes: list[tuple[Any, ...]]
) -> None:
    """Writes the events of one run in the order in which they came to pass.

    A note came before the first window that began after it. A knob stood down before the decision of the window that
    it was seen in, or, where that decision's move was what found the edit, after it.
    """
    following = [row[2] for row in windows[1:]] + [float("inf")]
    moved = {row[2]: row for row in moves}
    sequence = 0
    for window, next_s in zip(windows, following, strict=True):
        run, index, start_s, duration_s, configuration, readings, samples, problems, aborted = window
        move = moved.get(index)
        early: list[tuple[Any, ...]] = []
        late: list[tuple[Any, ...]] = []
        while notes and notes[0][1] <= next_s:
            note = notes.pop(0)
            in_move = move is not None and move[5] == "stood-down" and note[4] in json.loads(move[4])[0]
            at_once = note[1] < start_s or (note[2] == NoteKind.STAND_DOWN and note[4] and not in_move)
            (early if at_once else late).append(note)
        sequence = _notes(db, early, sequence)
        whole = (run, index, sequence, "", start_s, duration_s, configuration, samples, problems, aborted)
        db.execute("INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", whole)
        db.executemany(
            "INSERT INTO readings VALUES (?, ?, ?, '', '', ?, ?, ?)",
            [(run, index, place, *one, place) for place, one in enumerate(json.loads(readings).items())],
        )
        sequence += 1
        if move is not None:
            texts = [codec.encode(Move(*json.loads(text))) for text in move[3:5]]
            whole = (run, sequence, "", index, *texts, *move[5:])
            db.execute("INSERT INTO moves VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", whole)
            sequence += 1
        sequence = _notes(db, late, sequence)
    _notes(db, notes, sequence)


def _notes(db: sqlite3.Connection, notes: list[tuple[Any, ...]], sequence: int) -> int:
    """Writes notes; the sequence after them."""
    rows = [(note[0], sequence + i, "", *note[1:]) for i, note in enumerate(notes)]
    db.executemany("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return sequence + len(notes)


def plan_from_first(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of schema 1 as today's, both as JSON has them."""
    plan = {key: value for key, value in raw.items() if key not in ("undo", "plant", GUARANTEE)}
    host = dict(raw.get("host", {}))
    extras = {} if raw.get(GUARANTEE) is None else {GUARANTEE: raw[GUARANTEE]}
    if "steady" in host:
        extras["steady"] = json.loads(host.pop("steady"))
    return {
        **plan,
        "subjects": [{"plant": raw["plant"]}],
        "knobs": [_knob_from_first(knob) for knob in raw["knobs"]],
        "workload": host.pop("workload", ""),
        "host": host,
        "extras": extras,
    }


def _knob_from_first(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A knob of schema 1, also one from before knobs had roles."""
    label = str(raw["name"]).partition("@")[2]
    role = Role.PROCESS_BUDGET if label else _ROLES.get(raw["native_name"], Role.OTHER)
    return {"role": role.value, "label": label, **raw}
