"""Calibration of the simulated shop: constants from a real run, and both side by side.

    python -m trimtab.lab._shop_calibration runs.sqlite.xz

prints what belongs into simulated_shop.toml, from the results folder of `trimtab lab run chung2004 --part noise`.

    scale_k  <-  scale_k x (CPU seconds for a page, real) / (the same, simulated)                        (K1)

until both agree, for each tier k, at the settings and load of the real run; so too the blocks that a page asks for.
What is fitted agrees then, so it proves nothing: the error is that of the other mixes, and of rate and page times.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.lab._results import unpacked
from trimtab.lab._shop_model import MIXES, RATE, TIERS, TIME, Constants, constants, cpu_s, run
from trimtab.lab._tables import table
from trimtab.report.track import Track, tracks

_ROUNDS = 8
_ENOUGH = 0.005
_LENGTH_S = 60.0
_SEED = 1_000_039
_BLOCKS, _READS = "blocks_per_page@database", "reads_per_page@database"
FITTED = "shopping"
"""The mix to whose real run the constants are fitted; the cost of one page to how the others stand to each other."""
_P95, _HITS = "client_page_time_p95_s", "hit_ratio@proxy"
_ROWS = {
    RATE: ("pages a second", 1.0),
    TIME: ("mean page time [ms]", 1e3),
    _P95: ("95th percentile of it [ms]", 1e3),
    **{f"cpu_s.{tier}": (f"CPU of the {tier} for a page [ms]", 1e3) for tier in TIERS},
    _HITS: ("images that the proxy has", 1.0),
    _BLOCKS: ("blocks that a page asks for", 1.0),
    _READS: ("blocks read for a page", 1.0),
}


@dataclass(frozen=True)
class Measured:
    """A run of the real shop.

    Args:
        mix: what its browsers did.
        cpu_s: CPU seconds of each tier for a page: its `cpu_ratio` times its cores by pages a second.
        readings: what else was measured, by the simulator's names; for the table only.
        values: settings by knob; those not named were as shipped.
        load: browsers, time_scale and items, where they are not those of the constants.
        blocks: blocks that a page asks the database's buffer for; None where they were not counted.
    """

    mix: str
    cpu_s: Mapping[str, float]
    readings: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    blocks: float | None = None


def calibrated(measured: Measured) -> dict[str, Any]:
    """Constants with which the simulated shop takes as much CPU for a page, and reads as much, as the real one did.

    Args:
        measured: the real run.

    Raises:
        ValueError: a tier's CPU time is missing or not positive.
    """
    wrong = [tier for tier in TIERS if not 0 < measured.cpu_s.get(tier, 0.0) < math.inf]
    if wrong:
        raise ValueError(f"cpu_s of {', '.join(wrong)} must be there and more than 0")
    found: dict[str, Any] = dict(constants())
    found["load"] = {**found["load"], **measured.load}
    for _ in range(_ROUNDS):
        readings = run(found, measured.values, measured.mix, _SEED, _LENGTH_S)
        factors = {tier: measured.cpu_s[tier] / value for tier, value in cpu_s(found, readings).items()}
        if measured.blocks is not None:
            factors["blocks"] = measured.blocks / readings[_BLOCKS]
        scale = found["scale"]
        found["scale"] = {**scale, **{name: scale[name] * factor for name, factor in factors.items()}}
        if all(abs(factor - 1.0) < _ENOUGH for factor in factors.values()):
            break
    return found


def measured_in(track: Track) -> Measured:
    """What a run of the untuned real shop measured, as means over its windows.

    Args:
        track: a run of chung2004's part `noise`.

    Raises:
        ValueError: a reading is missing.
    """

    def mean(metric: str, source: str = "") -> float:
        found = [r.value for w in track.windows for r in w.measured if r.metric == metric and source in r.source]
        if not found:
            raise ValueError(f"{track.label}: {source} {metric} was not measured".replace("  ", " "))
        return statistics.fmean(found)

    rate = mean(RATE)
    reads = mean("disk_read_bytes_hz", "database/") / constants()["database"]["block_bytes"] / rate
    cores = {tier: constants()[tier]["cores"] for tier in TIERS}
    return Measured(
        track.run.plan.extras["mix"],
        {tier: mean("cpu_ratio", f"{tier}/") * cores[tier] / rate for tier in TIERS},
        {RATE: rate, TIME: mean(TIME), _P95: mean(_P95), _READS: reads},
        blocks=reads / (1.0 - mean("buffer_pool_hit_ratio", "database/")),
    )


def compared(measured: Measured, of: Constants) -> dict[str, tuple[float | None, float]]:
    """Reading to its real value, None where it was not measured, and the simulated one, at the same settings.

    Args:
        measured: the real run.
        of: the simulated shop's constants.
    """
    load = {**of["load"], **measured.load}
    readings = run({**of, "load": load}, measured.values, measured.mix, _SEED, _LENGTH_S)
    simulated = {**readings, **{f"cpu_s.{tier}": value for tier, value in cpu_s(of, readings).items()}}
    real = {**measured.readings, **{f"cpu_s.{tier}": value for tier, value in measured.cpu_s.items()}}
    return {name: (real.get(name), simulated[name]) for name in _ROWS if name in simulated}


def real_against_simulated() -> str:
    """The shipped constants against the real shop, as Markdown."""
    said = []
    for mix in MIXES:
        row = dict(constants()["real"][mix])
        cpu, blocks, reads = (row.pop(name) for name in ("cpu_s", "blocks_per_page", "reads_per_page"))
        readings = {_BLOCKS: blocks, _READS: reads, **{f"client_page_{name}": value for name, value in row.items()}}
        said.append(_table(mix, compared(Measured(mix, cpu, readings), constants())))
    return "\n".join(said)


def _table(mix: str, found: Mapping[str, tuple[float | None, float]]) -> str:
    told = "CPU times and blocks are fitted to it" if mix == FITTED else "nothing is fitted to it"
    rows = []
    for name, (real, simulated) in found.items():
        words, factor = _ROWS[name]
        shown = "not measured" if real is None else f"{real * factor:.3g}"
        error = "" if real is None else f"{simulated / real - 1.0:+.1%}"
        rows.append((words, shown, f"{simulated * factor:.3g}", error))
    heading = f"### real against simulated shop, {mix} mix: {told}"
    return "\n".join([heading, "", *table(("", ">real", ">simulated", ">error"), rows)])


def main(arguments: list[str]) -> None:
    """Prints the sections `real` and `scale` of a results folder's compressed store."""
    with unpacked(Path(arguments[0])) as store:
        ids = [run.id for run in store.runs("noise")]
        found = {one.mix: one for one in map(measured_in, tracks(store, ids))}
    for mix, one in found.items():
        cpu = ", ".join(f"{tier} = {seconds:.6f}" for tier, seconds in one.cpu_s.items())
        print(f"[real.{mix}]")
        for name, value in {**one.readings, _BLOCKS: one.blocks}.items():
            print(f"{name.removeprefix('client_page_').partition('@')[0]} = {value:.4g}")
        print(f"cpu_s = {{ {cpu} }}\n")
    print("[scale]")
    for name, factor in calibrated(found[FITTED])["scale"].items():
        print(f"{name} = {factor:.4g}")


if __name__ == "__main__":
    main(sys.argv[1:])
