"""Calibration of the simulated shop: constants from a real run, and both side by side.

    python -m trimtab.lab._shop_calibration runs.sqlite.xz

prints what belongs into simulated_shop.toml, from the results folder of `trimtab lab run chung2004 --part noise`.

    scale_k  <-  scale_k x (CPU seconds for a page, real) / (the same, simulated)                        (K1)
    page     <-  page x (browsing's by ordering's, real) / (the same, simulated)                          (K2)
    p_m      =   exp(b (z_m - z_shopping))                                                              (K3)

until both agree, at the settings and load of the real run: (K1) for each tier k under the shopping mix, so too the
blocks that a page asks for; (K2) for the database's CPU time and the blocks of a page of best sellers, which are what
the mixes differ in. The machine's pace z is another under each mix, and CPU times follow it by b (Eq. (P1) of
`trimtab.search.pace`, from the windows of all mixes and tiers): p_m is how many times longer the same work took
than under shopping. What is fitted agrees, so it proves nothing: the error is that of the rest.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab.lab._results import unpacked
from trimtab.lab._shop_model import MIXES, RATE, TIERS, TIME, Constants, constants, cpu_s, run
from trimtab.lab._tables import table
from trimtab.report.track import Track, tracks
from trimtab.search.pace import mean_of, pace_of, slope_of

_ROUNDS = 12
_ENOUGH = 0.005
_LENGTH_S = 60.0
_SEED = 1_000_039
_BLOCKS, _READS = "blocks_per_page@database", "reads_per_page@database"
FITTED, MANY, FEW = "shopping", "browsing", "ordering"
"""The mix to whose real run the constants are fitted, and those with the most and the fewest pages of `PAGE`."""
PAGE = "best_sellers"
"""The page whose cost is fitted to how two mixes stand to each other."""
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
        pace: p of Eq. (K3).
    """

    mix: str
    cpu_s: Mapping[str, float]
    readings: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    blocks: float | None = None
    pace: float = 1.0


def calibrated(measured: Mapping[str, Measured]) -> dict[str, Any]:
    """Constants with which the simulated shop takes as much CPU for a page, and reads as much, as the real one did.

    Args:
        measured: the real runs, by mix: that of `FITTED`, and those of `MANY` and `FEW` where `PAGE` is to be fitted.

    Raises:
        ValueError: a tier's CPU time is missing or not positive.
    """
    for one in measured.values():
        wrong = [tier for tier in TIERS if not 0 < one.cpu_s.get(tier, 0.0) < math.inf]
        if wrong:
            raise ValueError(f"cpu_s of {', '.join(wrong)} must be there and more than 0")
    found: dict[str, Any] = dict(constants())
    found["load"] = {**found["load"], **measured[FITTED].load}
    for _ in range(_ROUNDS):
        far = {mix: _far(one, found) for mix, one in measured.items()}
        scale, fitted = found["scale"], far[FITTED]
        found["scale"] = {name: value * fitted.get(name, 1.0) for name, value in scale.items()}
        apart = {"database_ms": 1.0, "blocks": 1.0}
        if MANY in far and FEW in far:
            apart = {name: far[MANY].get(of, 1.0) / far[FEW].get(of, 1.0) for name, of in _OF_PAGE.items()}
            page = found["pages"][PAGE]
            page = {**page, **{name: page[name] * factor for name, factor in apart.items()}}
            found["pages"] = {**found["pages"], PAGE: page}
        if all(abs(factor - 1.0) < _ENOUGH for factor in (*fitted.values(), *apart.values())):
            break
    return found


_OF_PAGE = {"database_ms": "database", "blocks": "blocks"}
"""What a page asks for, and the scale that it is a part of."""


def _far(one: Measured, of: Constants) -> dict[str, float]:
    """Real to simulated CPU time of each tier for a page, and blocks where they were counted."""
    readings = run(_at(one, of), one.values, one.mix, _SEED, _LENGTH_S)
    factors = {tier: one.cpu_s[tier] / value for tier, value in cpu_s(of, readings).items()}
    return factors | ({"blocks": one.blocks / readings[_BLOCKS]} if one.blocks is not None else {})


def _at(one: Measured, of: Constants) -> Constants:
    """The constants under the load of a real run, and at the pace that the machine had."""
    scale = {name: value * (one.pace if name in TIERS else 1.0) for name, value in of["scale"].items()}
    return {**of, "load": {**of["load"], **one.load}, "scale": scale}


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


def at_paces(found: Sequence[Track]) -> dict[str, Measured]:
    """What the runs of the three mixes measured, by mix, with the pace of each, Eq. (K3).

    Args:
        found: runs of chung2004's part `noise`.
    """
    measured = {one.mix: one for one in map(measured_in, found)}
    b = slope_of(row for track in found for row in _cpu_times(track)).value
    z = {t.run.plan.extras["mix"]: mean_of([pace_of(w.readings) for w in t.windows]) for t in found}
    return {mix: replace(one, pace=math.exp(b * (z[mix] - z[FITTED]))) for mix, one in measured.items()}


def _cpu_times(track: Track) -> Iterator[tuple[str, float | None, float]]:
    """Mix and tier, z, and the logarithm of the tier's CPU time for a page, of each window."""
    for window in track.windows:
        for one in window.measured:
            if one.metric == "cpu_ratio" and one.value > 0:
                key = f"{track.run.plan.extras['mix']} {one.source.partition('/')[0]}"
                yield key, pace_of(window.readings), math.log(one.value / window.readings[RATE])


def compared(measured: Measured, of: Constants) -> dict[str, tuple[float | None, float]]:
    """Reading to its real value, None where it was not measured, and the simulated one, at the same settings.

    Args:
        measured: the real run.
        of: the simulated shop's constants.
    """
    readings = run(_at(measured, of), measured.values, measured.mix, _SEED, _LENGTH_S)
    simulated = {**readings, **{f"cpu_s.{tier}": value for tier, value in cpu_s(of, readings).items()}}
    real = {**measured.readings, **{f"cpu_s.{tier}": value for tier, value in measured.cpu_s.items()}}
    return {name: (real.get(name), simulated[name]) for name in _ROWS if name in simulated}


def real_against_simulated() -> str:
    """The shipped constants against the real shop, as Markdown."""
    said = []
    for mix in MIXES:
        row = dict(constants()["real"][mix])
        cpu, blocks, reads, pace = (row.pop(name) for name in ("cpu_s", "blocks_per_page", "reads_per_page", "pace"))
        readings = {_BLOCKS: blocks, _READS: reads, **{f"client_page_{name}": value for name, value in row.items()}}
        said.append(_table(mix, compared(Measured(mix, cpu, readings, pace=pace), constants())))
    return "\n".join(said)


def _table(mix: str, found: Mapping[str, tuple[float | None, float]]) -> str:
    told = "CPU times and blocks are fitted to it" if mix == FITTED else "only best sellers are fitted to it"
    rows = []
    for name, (real, simulated) in found.items():
        words, factor = _ROWS[name]
        shown = "not measured" if real is None else f"{real * factor:.3g}"
        error = "" if real is None else f"{simulated / real - 1.0:+.1%}"
        rows.append((words, shown, f"{simulated * factor:.3g}", error))
    heading = f"### real against simulated shop, {mix} mix: {told}"
    return "\n".join([heading, "", *table(("", ">real", ">simulated", ">error"), rows)])


def main(arguments: list[str]) -> None:
    """Prints the sections `real` and `scale`, and the page, of a results folder's compressed store."""
    with unpacked(Path(arguments[0])) as store:
        found = at_paces(tracks(store, [run.id for run in store.runs("noise")]))
    for mix, one in found.items():
        cpu = ", ".join(f"{tier} = {seconds:.6f}" for tier, seconds in one.cpu_s.items())
        print(f"[real.{mix}]")
        for name, value in {**one.readings, _BLOCKS: one.blocks}.items():
            print(f"{name.removeprefix('client_page_').partition('@')[0]} = {value:.4g}")
        print(f"cpu_s = {{ {cpu} }}\npace = {one.pace:.4g}\n")
    fitted = calibrated(found)
    print("[scale]")
    for name, factor in fitted["scale"].items():
        print(f"{name} = {factor:.4g}")
    print("".join(f"\n{PAGE}: {name} = {fitted['pages'][PAGE][name]:.4g}" for name in _OF_PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
