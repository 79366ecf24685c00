"""How often the Phoronix Test Suite repeats a benchmark: the rule by which lamp2016's figures were made.

Version 6.2.0, of 2016: three runs; while their sample standard deviation is 3.5 % of the mean or more, up to twice as
many; then up to nine as long as the spread has become smaller by more than half of what it was at first. The mean of
all runs is reported and none is left out. A test whose last run took more than 20 minutes is not repeated.

This is optional stopping: the runs end when they happen to agree, so the spread that is reported is smaller than the
benchmark's own. Of a true spread of 5 % it reports 4.1 % on average, where six runs always report 4.7 %
(tests/unit/experiments/test_phoronix.py counts). It is here for comparison with the paper; inference uses a number of
repeats that was fixed before.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

RUNS = 3
THRESHOLD = 0.035
LONGEST_S = 20 * 60.0


def another(values: Sequence[float], last_run_s: float = 0.0) -> bool:
    """Whether one more run follows.

    Args:
        values: results so far.
        last_run_s: how long the last run took, in seconds.
    """
    if len(values) < RUNS:
        return True
    if last_run_s > LONGEST_S or spread(values) < THRESHOLD:
        return False
    if len(values) < 2 * RUNS:
        return True
    first = spread(values[:RUNS])
    return len(values) < 3 * RUNS and first - spread(values) > first / 2


def spread(values: Sequence[float]) -> float:
    """Sample standard deviation as a share of the mean."""
    return statistics.stdev(values) / statistics.fmean(values)
