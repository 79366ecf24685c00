"""The machine's pace, taken out of costs: a virtual machine computes faster or slower from one minute to the next.

Beside each trial the sensor `machine` times a fixed computation. Let z be the logarithm of that time, y the cost of a
trial by Eq. (E1) of `trimtab.search.evidence`. Repeats of one configuration g tell how y follows z:

    b = max(0, S_zy / (S_zz + s^2)),   S_zy = sum_g sum_i (z_i - z_g) (y_i - y_g), S_zz likewise          (P1)
    y' = y - b (z - mean z)                                                                           (P2)
    s^2 = max(0.03^2, sum_g sum_i (y_i - y_g - b (z_i - z_g))^2 / (n - groups - 1))                      (P3)
    error of b = s / sqrt(S_zz + s^2)                                                                 (P4)

| symbol | here | unit | shape |
|---|---|---|---|
| z_g, y_g | means of the repeats of a configuration | 1 | scalar |
| b | how the cost follows the pace: 0 where nothing is computed, 1.8 beside the private shop | 1 | scalar |
| s | the noise that y has besides, as a share | 1 | scalar |

(P1) and (P3) in turn, from the noise with b = 0 on. So b is 0 until repeats show otherwise (a normal prior about 0,
with a standard deviation of 1), and where the pace stays the same nothing is taken out. A setting changes nothing in
b, since only repeats of one configuration count. What it may change is the pace itself, when the server leaves more
or less of the machine's caches and of a core's other half to the computation: then y' charges a part of the setting's
effect to the machine. So where the pace differs between winner and start, what is claimed has to hold by y' and by y
(`trimtab.referee.turns`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

PACE = "compute_time_s"
"""The reading that tells the pace."""
_LEAST_NOISE, _ROUNDS = 0.03, 5


def pace_of(readings: Mapping[str, float]) -> float | None:
    """z: the logarithm of the computation's time in a window; None where it was not measured."""
    time_s = readings.get(PACE, 0.0)
    return math.log(time_s) if time_s > 0 else None


class Slope(NamedTuple):
    """How costs follow the pace; by itself what is believed before any repeat.

    Args:
        value: b of Eq. (P1).
        error: its standard error, Eq. (P4).
    """

    value: float = 0.0
    error: float = 1.0


def slope_of(seen: Iterable[tuple[Hashable, float | None, float | None]]) -> Slope:
    """How the costs of trials follow the pace; nothing is known without three repeats, or two of two.

    Args:
        seen: configuration, z and y of each trial; one that lacks either tells nothing.
    """
    groups: dict[Hashable, list[tuple[float, float]]] = {}
    for key, z, y in seen:
        if z is not None and y is not None:
            groups.setdefault(key, []).append((z, y))
    apart = []
    for group in groups.values():
        z_g, y_g = (math.fsum(column) / len(group) for column in zip(*group, strict=True))
        apart += [(z - z_g, y - y_g) for z, y in group]
    freedom = len(apart) - len(groups) - 1
    if freedom < 1:
        return Slope()
    square, both = math.fsum(z * z for z, _ in apart), math.fsum(z * y for z, y in apart)
    value = variance = 0.0
    for _ in range(_ROUNDS):
        variance = max(_LEAST_NOISE**2, math.fsum((y - value * z) ** 2 for z, y in apart) / freedom)  # Eq. (P3)
        value = max(0.0, both / (square + variance))  # Eq. (P1)
    return Slope(value, math.sqrt(variance / (square + variance)))  # Eq. (P4)


def mean_of(paces: Sequence[float | None]) -> float:
    """Mean z of those that were measured; 0 where none was."""
    known = [z for z in paces if z is not None]
    return math.fsum(known) / len(known) if known else 0.0


def levelled(y: float, z: float | None, slope: float, mean: float) -> float:
    """y' of Eq. (P2); y itself where z was not measured."""
    return y if z is None else y - slope * (z - mean)
