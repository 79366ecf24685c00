"""A dated folder of results: summary, figures, the facts of each run, and the store that all can be made again from.

It is written once and never edited. The store is kept compressed where it is small enough for a repository; where it
is not, and the lab's results name the readings that they are made from (`READS`), with no others.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import lzma
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trimtab import host
from trimtab.errors import TrimtabError, UsageError
from trimtab.lab import FOUND, Claim, Lab, Page
from trimtab.lab._tables import ranges
from trimtab.records import Plan
from trimtab.report.track import Track, tracks
from trimtab.store import Store

STORE = "runs.sqlite.xz"
MOST_STORED_BYTES = 512 << 10
"""Most bytes of a compressed store in a results folder: a repository can carry it many times."""
MOST_READ_BYTES = 1 << 30
"""Most bytes of a store once it is decompressed: a file from elsewhere must not fill the disk."""


def new_folder(path: Path) -> Path:
    """Makes the folder.

    Raises:
        UsageError: it is a file, or exists and is not empty, as results are not overwritten; or it cannot be made.
    """
    try:
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is not a folder")
        if path.exists() and any(path.iterdir()):
            raise UsageError(f"{path} has results already, which are never edited: name another folder")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}") from None
    return path


def write_results(
    lab: Lab, folder: Path, store: Store, run_ids: Sequence[int], say: Callable[[str], None] = lambda text: None
) -> None:
    """Writes summary, figures, the facts of each run and the compressed store.

    Args:
        lab: the experiment.
        folder: an empty folder.
        store: the store of the runs.
        run_ids: their numbers.
        say: told what was left out.

    Raises:
        TrimtabError: they could not be written; the folder is empty again.
    """
    try:
        # In a folder of its own first: one with half of the results could neither be used nor be written again.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as directory:
            _write(lab, Path(directory), store, run_ids, say)
            for one in sorted(Path(directory).iterdir()):
                one.rename(folder / one.name)
    except BrokenPipeError:
        raise  # nobody listens to `say` any more
    except OSError as error:
        what = f"the results cannot be written to {folder}: {error.strerror or error}"
        raise TrimtabError(f"{what}; the same command tries again") from error


def _write(lab: Lab, folder: Path, store: Store, run_ids: Sequence[int], say: Callable[[str], None]) -> None:
    found = tracks(store, run_ids)
    lines = [f"# {lab.name}: {lab.description}", "", *_conditions(lab, found), "", *sections(lab, folder, found)]
    (folder / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "runs.jsonl").write_text("".join(json.dumps(_known(t)) + "\n" for t in found), encoding="utf-8")
    compressed, reads = packed(store, run_ids), getattr(importlib.import_module(lab.results), "READS", ())
    if len(compressed) > MOST_STORED_BYTES and reads:
        compressed = packed(store, run_ids, reads)
        say(f"{STORE} has the readings that the summary is made from, and no others")
    if len(compressed) <= MOST_STORED_BYTES:
        (folder / STORE).write_bytes(compressed)
    else:
        say(f"{STORE} is left out: {len(compressed) >> 10} KiB, allowed are {MOST_STORED_BYTES >> 10}")


def sections(lab: Lab, folder: Path, found: Sequence[Track]) -> list[str]:
    """What the lab's module of results says of these runs, and the claims; its figures go to the folder."""
    module, page = importlib.import_module(lab.results), Page(folder, by_part(found))
    return [*module.summary(page), *_claims(page, getattr(module, "CLAIMS", ()))]


def by_part(found: Sequence[Track]) -> dict[str, dict[str, list[Track]]]:
    """Part to label to repeats, in the order of the runs."""
    parts: dict[str, dict[str, list[Track]]] = {}
    for track in found:
        parts.setdefault(track.run.plan.group, {}).setdefault(track.label, []).append(track)
    return parts


def packed(store: Store, run_ids: Sequence[int], reads: Sequence[str] = ()) -> bytes:
    """A store with these runs alone, compressed.

    Args:
        store: where they are.
        run_ids: their numbers.
        reads: metrics whose readings are kept; none keeps all, and what a run needs to be gone on with.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.sqlite"
        store.execute("VACUUM INTO ?", (str(path),))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as copy:
            kept = ",".join(str(int(one)) for one in run_ids)
            tables = [row[0] for row in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                columns = {row[1] for row in copy.execute(f'PRAGMA table_info("{table}")')}
                name = "run" if "run" in columns else "id" if table == "runs" else ""
                if name:
                    copy.execute(f'DELETE FROM "{table}" WHERE {name} NOT IN ({kept})')
            if reads:
                copy.execute(f"DELETE FROM readings WHERE metric NOT IN ({','.join('?' * len(reads))})", tuple(reads))
                copy.execute("DELETE FROM states")
            copy.execute("VACUUM")
        return lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Store]:
    """The store of a results folder, from its compressed file.

    Raises:
        UsageError: it is no such file, what is in it is no store, or it is too large.
        StoreError: the store in it cannot be opened.
    """
    if path.exists() and not path.is_file():  # a FIFO would be waited for without end
        raise UsageError(f"{path} is no compressed store ({STORE}): it is not a regular file")
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "runs.sqlite"
        try:
            with lzma.open(path) as file:
                body = file.read(MOST_READ_BYTES + 1)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise UsageError(f"{path} is no compressed store ({STORE}): {error}") from error
        if len(body) > MOST_READ_BYTES:
            raise UsageError(f"{path} holds more than {MOST_READ_BYTES >> 20} MiB")
        target.touch(mode=0o600)
        target.write_bytes(body)
        try:
            opened = Store(target)
        except UsageError as error:
            raise UsageError(f"{path} is no compressed store ({STORE}): {error}") from None
        with contextlib.closing(opened) as store:
            yield store


def _conditions(lab: Lab, found: Sequence[Track]) -> list[str]:
    """How to repeat the figures, the facts that all runs share, and where they were made on machines that differ."""
    plans = [t.run.plan for t in found]
    seeds = ranges(p.settings.seed for p in plans if p.group in lab.parts)
    parts = " ".join(f"--part {part}" for part in dict.fromkeys(p.group for p in plans) if part in lab.parts)
    lost = [t for t in found if t.run.status.value != "done"]
    shared = set.intersection(*(set(p.host.items()) for p in plans)) if plans else set()
    return [
        "Repeat with",
        "",
        f"    trimtab lab run {lab.name} {parts} --seeds {seeds} --results FOLDER",
        "",
        f"- {len(found)} runs, of which {len(lost)} did not come to their end; windows of "
        + ", ".join(f"{s:g} s" for s in sorted({p.settings.window_s for p in plans})),
        *(f"- {name.replace('_', ' ')}: {value}" for name, value in sorted(shared)),
        *(f"- {name.replace('_', ' ')}: {values}; not the same in all runs" for name, values in _differing(plans)),
    ]


def _differing(plans: Sequence[Plan]) -> Iterator[tuple[str, str]]:
    """Facts on the machine, and the version of trimtab, that are not those of all runs: with all their values."""
    for name in sorted(host.facts()):
        values = dict.fromkeys(str(plan.host.get(name, "unknown")) for plan in plans)
        if len(values) > 1:
            yield name, ", ".join(values)


def _claims(page: Page, claims: Sequence[Claim]) -> list[str]:
    """The paper's statements, or our goals, held against these runs."""
    rows = [(c, value) for c in claims if (value := c.measured(page)) is not None]
    if not rows:
        return []
    lines = ["## Claims", "", "| claim | said | here | agrees |", "|---|---|---:|---|"]
    for claim, value in rows:
        agrees = "yes" if claim.low <= value <= claim.high else "no"
        lines.append(f"| {claim.what} | {claim.paper} | {value:,.2f} | {agrees} |")
    return [*lines, ""]


def _known(track: Track) -> dict[str, object]:
    """The line of a run in runs.jsonl."""
    plan = track.run.plan
    return {
        "run": track.run.id,
        "group": plan.group,
        "label": track.label,
        "controller": plan.controller,
        "seed": plan.settings.seed,
        "status": track.run.status.value,
        "detail": track.run.detail,
        "initial": dict(plan.initial),
        "host": dict(plan.host),
        "extras": {name: value for name, value in plan.extras.items() if name != FOUND},
    }
