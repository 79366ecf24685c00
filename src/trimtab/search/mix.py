"""The mix of a load: in which proportion clients ask for what.

A search compares trials, so it has to know when clients do something else. Their mix tells it in one window, where
the cost needs several repeats of one configuration.

    s_j = log(n_j / n_0)                                                                                (M1)
    another mix, where for one j   |s_j - mean s_j| > max(log 1.1, 5 e_j sqrt(1 + 1/k))              (M2)
    e_j = max(standard deviation of s_j, 1.5 sqrt(1/m_j + 1/m_0))

with n_j what was asked for of the j-th kind in a window, one half added, n_0 the kind that is asked for most, means
over the k trials at one load, two at least. m_j is half way from n_j to what it would be if those of both kinds were
divided as before: by n_j alone a kind would hardly be missed that is asked for no more. Kinds are the metrics that
say so (`trimtab.core.Metric`): pages, requests, transactions. Less than a tenth is no other mix. Five deviations,
because a false alarm costs all that is known; that events come in bursts the standard deviation shows, where trials
are few the 1.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from trimtab.core import Trial

Mix = tuple[tuple[str, float], ...]
"""What was asked for in a trial, by metric; fewer than two tell nothing."""
_LEAST, _DEVIATIONS, _BURSTS = math.log(1.1), 5.0, 1.5


def mix_of(trial: Trial) -> Mix:
    """The mix of a trial."""
    return tuple((name, rate_hz * trial.window.duration_s) for name, rate_hz in sorted(trial.asked.items()))


def another(mixes: Sequence[Mix], mix: Mix) -> bool | None:
    """Whether a trial's mix is another one than that of these trials, by Eq. (M2); None where it cannot be told."""
    now = dict(mix)
    known = [dict(one) for one in mixes if one]
    kinds = [name for name in now if all(name in one for one in known)]
    if len(known) < 2 or len(kinds) < 2:
        return None
    most = max(kinds, key=lambda name: fmean(one[name] for one in known))
    for kind in kinds:
        before = [_share(one, kind, most) for one in known]
        error = max(stdev(before), _counted(now, kind, most, fmean(before))) * math.sqrt(1 + 1 / len(before))
        if abs(_share(now, kind, most) - fmean(before)) > max(_LEAST, _DEVIATIONS * error):
            return True
    return False


def _counted(counts: dict[str, float], kind: str, most: str, share: float) -> float:
    """The error of a share by what was counted, as Eq. (M2) has it, where it is expected to be the one before."""
    both, odds = counts[kind] + counts[most], math.exp(share)
    expected = (both * odds / (1 + odds), both / (1 + odds))
    there = ((counts[name] + one) / 2 + 0.5 for name, one in zip((kind, most), expected, strict=True))
    return _BURSTS * math.sqrt(math.fsum(1 / one for one in there))


def _share(counts: dict[str, float], kind: str, most: str) -> float:
    """Eq. (M1)."""
    return math.log((counts[kind] + 0.5) / (counts[most] + 0.5))
