"""The files that SURGE's users ask for: their sizes, their popularity, and which size is how popular.

Sizes and popularity are those of Barford and Crovella, "Generating Representative Web Workloads for Network and
Server Performance Evaluation", SIGMETRICS 1998:

    file sizes      body ~ LogNormal(mu 9.357, sigma 1.318) below 133 KB, 93 % of the files
                    tail ~ Pareto(k 133 KB, alpha 1.1)
    popularity      Zipf: the file of rank r is asked for in proportion to 1 / r
    request sizes   ~ Pareto(k 1000 B, alpha 1.0)

Departures from the paper
- The body is drawn below the cutoff and the tail below `largest_bytes`, so that a file set fits on a disk and one
  reply does not fill a short run.
- Sizes are drawn at one random point in each of as many equal parts of the distribution as there are files
  (stratified), so that a small set has the paper's shape too.
- Popularity is matched to size from the smallest file up: each gets the rank, of those left, whose share of the
  requests is nearest to what its size still lacks of the paper's request sizes. What remains is about half the
  share of the most popular file, as no file can get less than all of its share.
- Requests are independent: the paper's temporal locality (LogNormal stack distances) is left out.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

from trimtab.workloads._population import Url, required

BODY_RATIO = 0.93
CUTOFF_BYTES = 133_000
BODY = NormalDist(9.357, 1.318)
TAIL_SHAPE = 1.1
REQUEST_LEAST_BYTES = 1000
REQUEST_SHAPE = 1.0


def size_bytes(probability: float, largest_bytes: float = math.inf) -> float:
    """The file size that this share of all files does not exceed.

    Args:
        probability: 0 < probability < 1.
        largest_bytes: where the tail ends.
    """
    if probability < BODY_RATIO:
        below = BODY.cdf(math.log(CUTOFF_BYTES))
        return math.exp(BODY.inv_cdf(probability / BODY_RATIO * below))
    cut_off = (CUTOFF_BYTES / largest_bytes) ** TAIL_SHAPE
    survival = 1 - (probability - BODY_RATIO) / (1 - BODY_RATIO) * (1 - cut_off)
    return float(CUTOFF_BYTES * survival ** (-1 / TAIL_SHAPE))


def request_probability(size: float) -> float:
    """The share of the requests whose reply is at most this long, as the paper has it."""
    return 1 - math.pow(REQUEST_LEAST_BYTES / max(size, REQUEST_LEAST_BYTES), REQUEST_SHAPE)


@dataclass(frozen=True)
class FileSet:
    """A set of static files, named by rank of popularity.

    Args:
        files: how many.
        seed: source of the sizes.
        largest_bytes: the tail of the sizes ends here.

    Raises:
        UsageError: a value is outside what is allowed.
    """

    files: int = 1000
    seed: int = 1
    largest_bytes: int = 5_000_000

    def __post_init__(self) -> None:
        required(1 <= self.files <= 100_000, "files", self.files, "1 to 100000")
        allowed = f"more than {CUTOFF_BYTES}, where the tail begins"
        required(self.largest_bytes > CUTOFF_BYTES, "largest_bytes", self.largest_bytes, allowed)

    @cached_property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Length of each file, the most popular first."""
        rng = random.Random(self.seed)
        draws = ((part + rng.random()) / self.files for part in range(self.files))
        rising = sorted(max(1, round(size_bytes(max(draw, 1e-12), self.largest_bytes))) for draw in draws)
        return _by_popularity(rising)

    @property
    def urls(self) -> tuple[Url, ...]:
        """The files as a mix of URLs with Zipf's popularity."""
        return _urls(self.files)


@lru_cache(maxsize=4)
def _urls(files: int) -> tuple[Url, ...]:
    """So many files as a mix of URLs; the arms of an experiment ask for the same a hundred times."""
    return tuple(Url(path(rank), 1.0 / rank) for rank in range(1, files + 1))


def path(rank: int) -> str:
    """URL path of the file of this rank, from 1."""
    return f"/surge/{rank:05d}.html"


def _by_popularity(rising: list[int]) -> tuple[int, ...]:
    """The sizes in the order of popularity that brings the request sizes near their distribution, most popular first.

    Args:
        rising: the sizes, the smallest first.
    """
    files = len(rising)
    total = sum(1 / rank for rank in range(1, files + 1))
    # Negative, so that they rise: the share of the requests that each rank gets.
    shares = [-1 / rank / total for rank in range(1, files + 1)]
    ranks = list(range(files))
    chosen = [0] * files
    given = 0.0
    for size, next_size in zip(rising, [*rising[1:], math.inf], strict=True):
        # This size stands for the target up to half way to the next one, as sizes are spaced.
        missing = request_probability(math.sqrt(size * next_size)) - given
        at = min(bisect_left(shares, -missing), len(shares) - 1)
        if at > 0 and abs(-shares[at - 1] - missing) < abs(-shares[at] - missing):
            at -= 1
        given -= shares.pop(at)
        chosen[ranks.pop(at)] = size
    return tuple(chosen)
