"""Relative delay guarantees on logarithms of the ratios, for servers whose delays follow a power law (lu2001, ours).

Promises what `relative_delay.py` promises, also where the delay of the upper class is short. The paper's loop works
on ratios as they are, and its model is a straight line through the operating point of the identification. On a real
server the line is a power law: halving the ratio of the budgets divides that of the delays by about the same factor
everywhere, so its slope, the gain that the loop sees, grows with the ratio itself, many times over between one load
and another. A loop that is calm at one load then swings from end to end at another (docs/lab-lu2001.md shows it). In
logarithms the slope is nearly the same everywhere, no error is larger on one side than on the other, no ratio can
become negative, and the model predicts better.

    u_k(m) = ln U_k(m),  e_k(m) = ln VS_k - ln V_k(m)
    u_k(m) = u_k(m-1) + g (e_k(m) - r e_k(m-1))                                            Eq. (1)

All else, symbols included, is that of `relative_delay.py`; g and r are designed for a model of kind `logarithmic`.

    paper  here   unit               shape
    U_k    value  ln of a ratio      one per two neighbours
    E_k    error  ln of a ratio      one per two neighbours
    g      gain   1                  scalar
    r      zero   1                  scalar

The defaults of g and r are those designed for the server of docs/lab-lu2001.md.

Departures from the paper
- The logarithms. Those of `relative_delay.py` hold here too.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from trimtab.controllers.relative_delay import RelativeDelay

_LARGEST = math.log(sys.float_info.max)


@dataclass(frozen=True)
class LogRelativeDelay(RelativeDelay):
    """PI control of the logarithm of neighbouring classes' delay ratio by that of their process budgets' ratio.

    Args:
        gain: g of Eq. (1), on logarithms.
        zero: r of Eq. (1).
    """

    gain: float = 0.2
    zero: float = 0.05

    def error(self, reference: float, output: float) -> float:
        """e_k(m) from VS_k and V_k(m)."""
        return math.log(reference / output)

    def value(self, ratio: float) -> float:
        """u_k from a ratio of processes."""
        return math.log(ratio)

    def ratio(self, value: float) -> float:
        """The ratio of processes of which u_k is the logarithm; infinite where it is too large to compute with."""
        return math.exp(value) if value < _LARGEST else math.inf


CONTROLLER = LogRelativeDelay
