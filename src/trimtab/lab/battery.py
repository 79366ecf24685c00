"""Scenarios drawn at random on the simulated server: waiting of clients with trim, over that without it.

A draw is left alone, tuned by trim as `tune` runs it, and run at fixed settings from end to end, all with the same
clients. What counts is the time that all clients waited together, those who gave up and all trying included. Peers
run as their users run them: without a referee, and on a limit that changes without a reload where they have one.

The server is a model (`trimtab.plants.simulated`): what comes out says how the methods decide, not how fast a real
server is. Seeds 1 to 99 are for development; what judges is drawn above 100, once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from trimtab.errors import UsageError
from trimtab.host import facts
from trimtab.lab import Context, Lab, chosen
from trimtab.lab._battery_draw import Drawn, as_json, drawn
from trimtab.lab._battery_summary import ratios, summary, waits
from trimtab.lab._results import new_folder
from trimtab.lab._tables import ranges
from trimtab.plants.apache import DEFAULTS

PARTS = {
    "trim": "each draw left alone, with trim, and at fixed settings",
    "peers": "the same with the peers beside trim",
}
PEERS = ("apache2buddy", "gradient2", "vegas", "brpc", "tpe", "nelder_mead", "fuzzy", "saturation")
NICE = 10


DESCRIPTION = "never worse than left alone: scenarios drawn by seeds, on the simulated server"


def run(parts: tuple[str, ...], context: Context) -> None:
    """Runs the draws of the seeds; both parts run the same ones, the second with more methods.

    Raises:
        UsageError: there is no such part, or a report is asked for.
    """
    peers = PEERS if "peers" in chosen(PARTS, parts) else ()
    if context.report is not None:
        raise UsageError("battery writes no report: '--results FOLDER' has its table and figure")
    folder = None if context.results is None else new_folder(context.results)
    found = []
    for one in _all(context.seeds, peers):
        context.say(f"seed {one.scenario.seed}: {one.ratio:.3f} of left alone, {1 / one.to_gain:.3f} at the best")
        found.append(one)
        if context.stop:
            break
    text = summary(found)
    context.say(text)
    if folder is not None:
        with (folder / "draws.jsonl").open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(as_json(one)) + "\n" for one in found)
        (folder / "waits.json").write_text(json.dumps(waits(found)).replace("], [", "],\n["), encoding="utf-8")
        (folder / "ratios.svg").write_text(ratios(found), encoding="utf-8")
        said = ", ".join(f"{name} {value}" for name, value in facts().items())
        part = "peers" if peers else "trim"
        command = f"trimtab lab run battery --part {part} --seeds {ranges(context.seeds)}"
        head = f"# battery: {DESCRIPTION}\n\n    {command}\n\n{said}\n\n"
        (folder / "summary.md").write_text(head + text, encoding="utf-8")


def _all(seeds: Sequence[int], peers: Sequence[str]) -> Iterator[Drawn]:
    """The draws of these seeds in their order, on all CPUs, behind whatever else runs."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("forkserver"), os.nice, (NICE,)) as pool:
        yield from pool.map(partial(drawn, peers=peers), seeds)


LAB = Lab(
    "battery",
    DESCRIPTION,
    PARTS,
    arms=lambda part, seed: (),
    knobs=("max_request_workers", "keep_alive_timeout_ms"),
    objective=DEFAULTS.minimize,
    programs=(),
    unstored=run,
)
