"""How long a reload stops Apache and PHP-FPM, and what clients wait meanwhile, on servers of the battery under load.

    python benchmarks/standstill/run.py --out DIR

A case is a draw of the battery (`trimtab lab run harm`), by its seed, with its own pool or another number of workers.
The server runs under the draw's clients; every two seconds its limit of workers is changed by one and back, as
trimtab changes it, for 40 seconds. For each change:

- standstill: from the signal until the first new worker, as the plant measures it; in a crowded Apache also the time
  before, in which it lets nobody in;
- expected: what the plant expected in the window before the first change;
- seen: what connections waited longer in the accept queue, as the plant measures it, which the referee charges;
- waited longer: seconds that clients waited in sum from the end of the window before to the start of the one after,
  which includes a second in which the server settles, less what they wait in as much time in the windows around,
  which is given as usually. Means over the changes, as seen.

Nothing is judged by it: the seeds are spent. DIR gets runs.jsonl and summary.md; about ten minutes, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from trimtab.core import Window
from trimtab.host import facts
from trimtab.lab import Arm, Context, harm
from trimtab.lab._clients import WAITED, WAITING, within_s
from trimtab.lab._drawn import Drawn
from trimtab.lab._engine import run_lab
from trimtab.lab._scenario import draw
from trimtab.report.track import tracks
from trimtab.store import Store

CASES = (
    (107, None),
    (109, 20),
    (109, 60),
    (109, 120),
    (112, None),
    (109, None),
    (110, None),
    (113, None),
    (114, None),
    (101, None),
)
"""Seed of the draw, and the workers where they are not its own: PHP-FPM first, then Apache's prefork."""
LENGTH_S = 40.0
LABEL = "reloads"


@dataclass(frozen=True)
class Row:
    """One change.

    Args:
        case: the draw and its workers.
        server: the server.
        workers: workers that were there before it.
        swapped: share of the memory that was in swap.
        expected_s: standstill that was expected; None after the first change.
        standstill_s: standstill measured.
        seen_s: what connections waited longer in the accept queue; None where that is not known.
        waited_s: what clients waited from window to window.
        usual_s: what they wait in as much time.
    """

    case: str
    server: str
    workers: float
    swapped: float
    expected_s: float | None
    standstill_s: float
    seen_s: float | None
    waited_s: float
    usual_s: float


def arms(seed: int, workers: int | None) -> Sequence[Arm]:
    """The run that tells the draw's rate, and the one with reloads."""
    made = harm.arms(harm.PART, seed)
    alone = next(arm for arm in made if arm.label == harm.ONE)
    trim = next(arm for arm in made if arm.label == harm.TRIM)
    assert isinstance(trim.bed, Drawn)
    bed, now = replace(trim.bed, workers=workers), workers or trim.bed.scenario.max_request_workers
    name = "max_request_workers"
    if bed.scenario.php == "fpm":
        name, now = "max_children", bed.pool().max_children
    other = now + 1 if now <= 5 else now - 1
    return alone, replace(
        trim,
        label=LABEL,
        bed=bed,
        controller="alternate",
        options={"settings": f"{name}={other}"},
        guarded=False,
        duration_s=LENGTH_S,
    )


def rows(case: str, server: str, windows: Sequence[Window]) -> list[Row]:
    """The changes of a run."""
    found: list[Row] = []
    for before, after in pairwise(windows):
        gap_s = after.start_s - before.start_s - before.duration_s
        if before.configuration == after.configuration:
            continue
        r, then = before.readings, after.readings
        found.append(
            Row(
                case,
                server,
                r.get("busy_workers", 0.0) + r.get("idle_workers", 0.0),
                r.get("swap_bytes", 0.0) / max(1.0, r.get("memory_bytes", 1.0)),
                None if found else r.get("standstill_s"),
                then["standstill_s"],
                then.get("standstill_wait_s"),
                then[WAITED] - r[WAITED] - within_s([after]),
                gap_s * (r[WAITING] + then[WAITING]) / 2,
            )
        )
    return found


def summary(found: Sequence[Row], conditions: str) -> str:
    """The table."""
    lines = ["# How long a reload stops a server", "", "    python benchmarks/standstill/run.py --out DIR", ""]
    lines += (__doc__ or "").split("\n\n", 2)[2].strip().splitlines()
    lines += ["", f"Conditions: {conditions}", ""]
    lines.append(
        "| draw | server | workers | in swap | changes | expected | standstill | seen | waited longer | usually |"
    )
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for case in dict.fromkeys(row.case for row in found):
        mine = [row for row in found if row.case == case]
        expected = f"{mine[0].expected_s:.2f} s" if mine[0].expected_s is not None else "-"
        longer = sum(row.waited_s - row.usual_s for row in mine) / len(mine)
        usual = sum(row.usual_s for row in mine) / len(mine)
        known = [row.seen_s for row in mine if row.seen_s is not None]
        seen = f"{sum(known) / len(known):.1f} s" if known else "-"
        if len(known) < len(mine):
            seen += f" ({len(mine) - len(known)} not known)"
        lines.append(
            f"| {case} | {mine[0].server} | {_range([r.workers for r in mine], 0)} "
            f"| {_range([100 * r.swapped for r in mine], 0)} % | {len(mine)} | {expected} "
            f"| {_range([r.standstill_s for r in mine], 2)} s | {seen} | {longer:.1f} s | {usual:.1f} s |"
        )
    return "\n".join([*lines, ""])


def _range(values: Sequence[float], places: int) -> str:
    low, high = f"{min(values):.{places}f}", f"{max(values):.{places}f}"
    return low if low == high else f"{low} to {high}"


def main() -> None:
    """Reads the command line, runs every case, writes as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    found: list[Row] = []
    with TemporaryDirectory() as work, (options.out / "runs.jsonl").open("w") as raw:
        for number, (seed, workers) in enumerate(CASES):
            made = arms(seed, workers)
            lab = replace(harm.LAB, arms=lambda part, seed, made=made: made)  # type: ignore[misc]
            with contextlib.closing(Store(Path(work) / f"{number}.sqlite")) as store:
                run_lab(lab, (), Context(store, seeds=(seed,), say=lambda text: print(text, flush=True)))
                track = next(t for t in tracks(store, [run.id for run in store.runs()]) if t.label == LABEL)
            case = f"{seed}, {workers} workers" if workers else f"{seed}"
            server = "Apache prefork" if draw(seed).php == "module" else "PHP-FPM"
            for row in rows(case, server, track.windows):
                found.append(row)
                raw.write(json.dumps(asdict(row)) + "\n")
            (options.out / "summary.md").write_text(summary(found, str(facts())))
    print(f"results: {options.out}")


if __name__ == "__main__":
    main()
