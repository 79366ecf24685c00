"""U(m) and V(m) of the paper, out of windows, and the equations that they make: lu2001, Tables 1 and 2.

    relative    U = B_(k-1) / B_k    V = C_k / C_(k-1)
    logarithmic U = ln B_(k-1) / B_k V = ln C_k / C_(k-1)    ours
    absolute    U = B_k              V = C_k, both as differences of two consecutive windows (Section 7.2)

| paper | here                      | unit        | shape  |
|-------|---------------------------|-------------|--------|
| B_k   | budget of the class       | processes   | scalar |
| C_k   | connection_delay_s@CLASS  | s           | scalar |
| U(m-1)| Sample.input of window m  | see above   | scalar |
| V(m)  | Sample.output of window m | see above   | scalar |
| q(m)  | Equation.regressor        | see above   | 2n     |

The budgets that are set at the sampling instant m-1 are in force in the window that ends at m, whose delay is V(m).
So a window pairs V(m) with U(m-1): the first input of its equation is its own configuration.

A window without dispatches has no delay, and a window that was cut short none that counts. Such a gap stands for
nothing: every equation that would need the missing output, on either side, is skipped, and the estimate goes on with
the first one that is whole again. A delay of 0 below the line of a ratio is a gap too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trimtab.core import Knob, Window, of_class

DELAY = "connection_delay_s"


class Kind(StrEnum):
    """Which delay is controlled."""

    RELATIVE = "relative"
    LOGARITHMIC = "logarithmic"
    """The relative delay in logarithms: a factor of the ratio of budgets is one of the ratio of delays."""
    ABSOLUTE = "absolute"

    @property
    def rising(self) -> bool:
        """Whether a larger input makes the output larger: more processes make a delay shorter."""
        return self is not Kind.ABSOLUTE


@dataclass(frozen=True)
class Pair:
    """The input and the output of one control loop.

    Args:
        kind: which delay is controlled.
        upper: class k-1 for a relative delay, the class whose delay is controlled for an absolute one.
        lower: class k for a relative delay; for an absolute one the class that takes or gives the processes.
        delay: the reading that counts as the delay, a percentile where that is guaranteed.
    """

    kind: Kind
    upper: str
    lower: str
    delay: str = DELAY

    def sample(self, window: Window, budgets: Mapping[str, Knob]) -> Sample:
        """Input and output of this loop in a window.

        Args:
            window: the window.
            budgets: class to its process budget.
        """
        classes = (self.upper, self.lower)
        upper, lower = (window.configuration.get(budgets[name].name) for name in classes)
        delays = [window.readings.get(of_class(self.delay, name)) for name in classes]
        if window.aborted:
            delays = [None, None]
        if self.kind is Kind.ABSOLUTE:
            return Sample(None if upper is None else float(upper), delays[0])
        ratio = upper / lower if upper is not None and lower else None
        return compared(self.kind, ratio, delays[1] / delays[0] if delays[0] and delays[1] is not None else None)


@dataclass(frozen=True)
class Sample:
    """One window as the estimator sees it.

    Args:
        input: U, what was in force in it; None when not known.
        output: V, what was measured in it; None when not measured.
    """

    input: float | None
    output: float | None


def compared(kind: Kind, processes: float | None, delays: float | None) -> Sample:
    """The sample of two neighbouring classes.

    Args:
        kind: in logarithms or as they are.
        processes: B_(k-1) / B_k; None when not known.
        delays: C_k / C_(k-1); None when not measured.
    """
    if kind is not Kind.LOGARITHMIC:
        return Sample(processes, delays)
    return Sample(math.log(processes) if processes else None, math.log(delays) if delays else None)


@dataclass(frozen=True)
class Equation:
    """One equation for the parameters.

    Args:
        index: index of the sample whose output it predicts.
        regressor: q(m), the n latest outputs and the n latest inputs.
        output: V(m).
    """

    index: int
    regressor: tuple[float, ...]
    output: float


def needed(kind: Kind, order: int) -> int:
    """How many consecutive samples one equation is made from."""
    return order + 1 + (kind is Kind.ABSOLUTE)


def equation(samples: Sequence[Sample], kind: Kind, order: int, index: int | None = None) -> Equation | None:
    """The equation that ends with one sample, or None when something that it needs is missing.

    Args:
        samples: in order, oldest first.
        kind: for an absolute delay, inputs and outputs are taken as differences.
        order: n.
        index: which sample it ends with; the last when None.
    """
    at = len(samples) - 1 if index is None else index
    taken = samples[max(0, at + 1 - needed(kind, order)) : at + 1]
    if len(taken) < needed(kind, order):
        return None
    outputs: list[float | None] = [sample.output for sample in taken]
    inputs: list[float | None] = [sample.input for sample in taken]
    if kind is Kind.ABSOLUTE:
        outputs, inputs = _differences(outputs), _differences(inputs)
    whole = [value for value in (*outputs, *inputs[1:]) if value is not None]
    if len(whole) < len(outputs) + len(inputs) - 1:
        return None
    past, u = whole[: order + 1], whole[order + 1 :]
    return Equation(at, (*reversed(past[:-1]), *reversed(u)), past[-1])


def equations(samples: Sequence[Sample], kind: Kind, order: int, widest: int) -> Iterator[Equation]:
    """All equations of a run.

    Args:
        samples: in order, oldest first.
        kind: which delay.
        order: n.
        widest: the greatest order that is compared: only what all orders have an equation for is used, so that
            their errors are errors on the same samples.
    """
    for index in range(len(samples)):
        one = equation(samples, kind, order, index)
        if one is not None and equation(samples, kind, widest, index) is not None:
            yield one


def _differences(values: Sequence[float | None]) -> list[float | None]:
    """Each value less the one before it."""
    return [None if new is None or old is None else new - old for old, new in itertools.pairwise(values)]
