"""Calibration of the simulated shop: constants from a real run, and both side by side.

    scale_k  <-  scale_k x (CPU seconds for a page, real) / (the same, simulated)                        (K1)

until both agree, for each tier k, at the settings and load of the real run; the blocks by the reads in the same way.
What is fitted agrees then, so it proves nothing: the error is that of the other mixes, and of rate and page times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.lab._shop_model import MIXES, RATE, TIERS, TIME, Constants, constants, cpu_s, run

_ROUNDS = 8
_ENOUGH = 0.005
_LENGTH_S = 60.0
_SEED = 1_000_039
_READS = "reads_per_page@database"
FITTED = "shopping"
"""The mix to whose real run the constants are fitted; the cost of one page to how the others stand to each other."""
_P95, _HITS = "client_page_time_p95_s", "hit_ratio@proxy"
_ROWS = {
    RATE: ("pages a second", 1.0),
    TIME: ("mean page time [ms]", 1e3),
    _P95: ("95th percentile of it [ms]", 1e3),
    **{f"cpu_s.{tier}": (f"CPU of the {tier} for a page [ms]", 1e3) for tier in TIERS},
    _HITS: ("images that the proxy has", 1.0),
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
        blocks_read: blocks read from disk for a page; None where they were not counted.
    """

    mix: str
    cpu_s: Mapping[str, float]
    readings: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    blocks_read: float | None = None


def calibrated(measured: Measured, of: Constants | None = None) -> dict[str, Any]:
    """Constants with which the simulated shop takes as much CPU for a page, and reads as much, as the real one did.

    Args:
        measured: the real run.
        of: the constants to begin with; None for those that are shipped.

    Raises:
        ValueError: a tier's CPU time is missing or not positive.
    """
    wrong = [tier for tier in TIERS if not 0 < measured.cpu_s.get(tier, 0.0) < math.inf]
    if wrong:
        raise ValueError(f"cpu_s of {', '.join(wrong)} must be there and more than 0")
    found: dict[str, Any] = dict(constants() if of is None else of)
    found["load"] = {**found["load"], **measured.load}
    for _ in range(_ROUNDS):
        readings = run(found, measured.values, measured.mix, _SEED, _LENGTH_S)
        factors = {tier: measured.cpu_s[tier] / value for tier, value in cpu_s(found, readings).items()}
        if measured.blocks_read is not None:
            factors["blocks"] = measured.blocks_read / readings[_READS]
        scale = found["scale"]
        found["scale"] = {**scale, **{name: scale[name] * factor for name, factor in factors.items()}}
        if all(abs(factor - 1.0) < _ENOUGH for factor in factors.values()):
            break
    return found


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
        cpu, reads = row.pop("cpu_s"), row.pop("reads_per_page")
        readings = {_READS: reads, **{f"client_page_{name}": value for name, value in row.items()}}
        said.append(_table(mix, compared(Measured(mix, cpu, readings), constants())))
    return "\n".join(said)


def _table(mix: str, found: Mapping[str, tuple[float | None, float]]) -> str:
    told = "CPU times and blocks are fitted to it" if mix == FITTED else "nothing is fitted to it"
    lines = [
        f"### real against simulated shop, {mix} mix: {told}",
        "",
        "| | real | simulated | error |",
        "|---|---:|---:|---:|",
    ]
    for name, (real, simulated) in found.items():
        words, factor = _ROWS[name]
        shown = "not measured" if real is None else f"{real * factor:.3g}"
        error = "" if real is None else f"{simulated / real - 1.0:+.1%}"
        lines.append(f"| {words} | {shown} | {simulated * factor:.3g} | {error} |")
    return "\n".join([*lines, ""])
