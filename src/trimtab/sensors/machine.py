"""Sensor: how fast the machine computes just now.

| reading        | from                                                                            |
|----------------|---------------------------------------------------------------------------------|
| compute_time_s | mean CPU time that a fixed computation of ours took, some times a second        |

Other guests on the same hardware, the clock's frequency and the other half of a core make a virtual machine faster or
slower by a third from one minute to the next, and every server on it with it. Nothing that a server or the kernel
counts tells this from a server that got worse; a computation that is always the same does. It is a compression of
some text: much branching and memory within the caches, as in servers. CPU time is that of our own thread, so waiting
for a CPU is not in it. It takes less than a tenth of a millisecond, 25 times a second, with its wake-ups 0.35 % of a
core; four times as often where the clients are ours, as on a bench. The mean counts, not the median: a core whose
other half is at work now and then has two paces, and servers the share of both; so it takes many samples too. Beside
the private shop, whose settings did not change, 23 windows of 10 s had a throughput that differed by 10 %; what does
not follow this time is 4 %, with four samples a second of half a millisecond 7 %. Other computations at the same
moments (system calls, messages to ourselves, memory beyond the caches, page faults) tell no more, nor do eight
together: what is left is what happens between the moments.
"""

from __future__ import annotations

import random
import statistics
import time
import zlib

from trimtab.core.metric import Metric
from trimtab.core.sensor import Precedence, Sensor
from trimtab.core.window import Readings
from trimtab.errors import NotMeasured

_WORDS, _LENGTH = 400, 3 << 10


class Machine(Sensor):
    """The pace of the machine that trimtab runs on.

    Args:
        often: whether one per cent of a core may be spent on it.
    """

    name = "machine"
    precedence = Precedence.COUNTED
    metrics = (Metric("compute_time_s", "s", "CPU time of a fixed computation of ours: how slow a machine is"),)

    def __init__(self, often: bool = False) -> None:
        self.sampling_period_s, self.most_samples = (0.01, 1000) if often else (0.04, 250)
        self._text = _text()
        self._times_ns: list[int] = []

    def begin(self) -> None:
        """Marks the start of a window."""
        self._times_ns = []

    def sample(self) -> None:
        """Times the computation once."""
        began_ns = time.thread_time_ns()
        zlib.compress(self._text, 6)
        self._times_ns.append(time.thread_time_ns() - began_ns)

    def read(self) -> Readings:
        """The mean since `begin`.

        Raises:
            NotMeasured: it was not timed in this window.
        """
        if not self._times_ns:
            raise NotMeasured("the window was too short to time a computation")
        return {"compute_time_s": statistics.fmean(self._times_ns) / 1e9}


def _text() -> bytes:
    """Words of random letters in random order, the same each time."""
    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=drawn.randint(2, 9))) for _ in range(_WORDS)]
    return " ".join(drawn.choices(words, k=_LENGTH // 4)).encode()[:_LENGTH]


SENSOR = Machine
