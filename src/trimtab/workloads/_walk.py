"""An endless walk over a graph, calculated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def stationary(thresholds: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """The share of each page in an endless walk.

    Args:
        thresholds: a row for each page, as in `Page`.
    """
    steps = np.array([_chances(row) for row in thresholds])
    # pi P = pi and sum(pi) = 1, as one overdetermined system.
    system = np.vstack([steps.T - np.eye(len(steps)), np.ones(len(steps))])
    shares: NDArray[np.float64] = np.linalg.lstsq(system, np.eye(len(steps) + 1)[-1], rcond=None)[0]
    return shares


def _chances(row: Sequence[int]) -> NDArray[np.float64]:
    reached = np.maximum.accumulate(np.array(row, dtype=float))
    chances: NDArray[np.float64] = np.diff(reached, prepend=0.0) / reached[-1]
    return chances
