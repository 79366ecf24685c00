"""A dated folder of results: raw data of every run, figures and a summary. It is written once and never edited."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.metrics import metric
from trimtab.report.track import Track


def new_folder(path: Path) -> Path:
    """Makes the folder.

    Raises:
        UsageError: it is a file, or exists and is not empty: results are not overwritten.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is not a folder")
    if path.exists() and any(path.iterdir()):
        raise UsageError(f"{path} has results already, which are never edited: name another folder")
    path.mkdir(parents=True, exist_ok=True)
    return path


FIRST_KNOB = "max_request_workers"


def write_raw(folder: Path, tracks: Sequence[Track]) -> None:
    """Every window and every move of every run, as CSV, and what is known of each run, as JSON lines.

    Histograms have a file of their own, summed up by run: a column for each bin would hide all others.
    """
    _write_histograms(folder, tracks)
    metrics = sorted({name for t in tracks for w in t.windows for name in w.readings if not _is_bin(name)})
    knobs = sorted({FIRST_KNOB, *(name for t in tracks for w in t.windows for name in w.configuration)})
    knobs.sort(key=lambda name: name != FIRST_KNOB)
    with (folder / "windows.csv").open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["group", "label", "seed", "window", "start_s", "duration_s", *knobs, *metrics])
        for t in tracks:
            for w in t.windows:
                where = [t.run.plan.group, t.label, t.run.plan.settings.seed, w.index]
                when = [f"{w.start_s:.3f}", f"{w.duration_s:.3f}", *(w.configuration.get(name, "") for name in knobs)]
                rows.writerow([*where, *when, *(_short(w.readings.get(name)) for name in metrics)])
    with (folder / "moves.csv").open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["group", "label", "seed", "window", "changes", "state", "took_s", "reason"])
        for t in tracks:
            for m in t.changes():
                what = " ".join(f"{k}={v}" for k, v in m.move.changes.items())
                where = [t.run.plan.group, t.label, t.run.plan.settings.seed, m.index]
                rows.writerow([*where, what, m.state.value, _short(m.took_s), m.move.reason])
    with (folder / "runs.jsonl").open("w", encoding="utf-8") as out:
        for t in tracks:
            plan = t.run.plan
            known = {
                "group": plan.group,
                "label": t.label,
                "controller": plan.controller,
                "seed": plan.settings.seed,
                "status": t.run.status.value,
                "initial": dict(plan.initial),
                "host": dict(plan.host),
            }
            out.write(json.dumps(known) + "\n")


def _write_histograms(folder: Path, tracks: Sequence[Track]) -> None:
    """The counts of each run by bin, where there are any."""
    counted: list[tuple[Track, Counter[str]]] = []
    for t in tracks:
        counts: Counter[str] = Counter()
        for w in t.windows:
            counts.update({name: value for name, value in w.readings.items() if _is_bin(name)})
        counted.append((t, counts))
    if not any(counts for _, counts in counted):
        return
    with (folder / "histograms.csv").open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["run", "group", "label", "seed", "workload", "histogram", "bin", "count"])
        for t, counts in counted:
            plan = t.run.plan
            where = [t.run.id, plan.group, t.label, plan.settings.seed, plan.workload]
            for name in sorted(counts, key=lambda n: (n.partition("@")[0], int(n.partition("@")[2]))):
                histogram, _, index = name.partition("@")
                rows.writerow([*where, histogram, index, _short(counts[name])])


def _is_bin(name: str) -> bool:
    """Whether a reading is the count of a histogram's bin."""
    return metric(name).unit == "intervals"


def _short(value: float | None) -> str:
    """Six significant digits; empty when not measured."""
    return "" if value is None else f"{value:.6g}"
