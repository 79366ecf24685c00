"""What a trust region knows between two trials, and what is left of it when the load or the knobs change.

After a changed load the trials before it are not believed, nor what followed from them: the search begins again at
the incumbent, with small steps and first without each choice that was made under the load before, since what pays
under reading may cost under writing; where its mix is like that of an earlier load, at the incumbent of that. A knob
that is left to the operator takes its coordinate out of everything. Trials in which it had the value that is in force
now count as before (`trimtab.search.evidence`), so where the operator puts back what the incumbent had, nothing is
lost, the noise is known, and the search goes on as it stood. Where he sets another value, it is a changed load, but
for the trials that had that value.

What was rejected stays so only where the knob was as in the incumbent: it was compared with that in the other knobs
alone. What was asked for and not yet measured is asked for anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from trimtab.core import Knob
from trimtab.search.causes import Likely
from trimtab.search.era import Era
from trimtab.search.evidence import Beside, Told, believed
from trimtab.search.local_model import Scales
from trimtab.search.mix import another
from trimtab.search.space import Values, dropped, index_of, of_many

FIRST_RADIUS = 0.1
Past = tuple[int, int, Values]


@dataclass(frozen=True)
class TrustRegionState:
    """State of the search.

    Args:
        knobs: those it moves.
        seed: source of its randomness.
        told: all trials.
        era: index in `told` of the first one that is believed.
        past: earlier loads: the first of their trials, the one after their last, and the incumbent in the end.
        incumbent: best configuration by the evidence; None before the first trial.
        recommended: best tried configuration by the model; None for the incumbent.
        radius: half the side of the region.
        scales: the model's parameters.
        failures: trials of something new since the last promotion or change of the region.
        pursued: that of these which was asked for last, while steps that guards bound lead to it.
        rejected: configurations that were repeated and found no better, or refused.
        earlier: incumbents of earlier loads that are still to be tried.
        likely: what the readings at an incumbent spoke for, still to be tried.
        asked: the last configuration proposed.
        expected: how much more than the incumbent it was expected to cost, and to within what, where it is new.
        surprised: whether the last trial was far from what was expected of it.
        strange: whether the mix of the last trial was another one.
        sums: how far the incumbent's latest repeats are above those before, and below, to what another load takes.
        finished: why the search has ended; empty while it goes on.
        silent: windows in a row in which nothing was measured.
        left: names of the knobs that are left to the operator.
        beside: their values in the trials that are believed.
        starts: `era` at each earlier load.
    """

    knobs: tuple[Knob, ...]
    seed: int
    scales: Scales
    told: tuple[Told, ...] = ()
    era: int = 0
    past: tuple[Past, ...] = ()
    incumbent: Values | None = None
    recommended: Values | None = None
    radius: float = FIRST_RADIUS
    failures: int = 0
    pursued: Likely | None = None
    rejected: tuple[Values, ...] = ()
    earlier: tuple[Values, ...] = ()
    likely: tuple[Likely, ...] = ()
    asked: Values | None = None
    expected: tuple[float, float] | None = None
    surprised: bool = False
    strange: bool = False
    sums: tuple[float, float] = (0.0, 0.0)
    finished: str = ""
    silent: int = 0
    left: tuple[str, ...] = ()
    beside: Beside = ()
    starts: tuple[int, ...] = ()

    @property
    def believed(self) -> Era:
        """The trials that are believed."""
        ends = {begin: end for begin, end, _ in self.past}  # a trial by which another mix was told is of neither load
        loads = pairwise((*self.starts, self.era))
        earlier = [believed(self.told[begin : ends.get(begin, end)], self.beside) for begin, end in loads]
        return Era(believed(self.told[self.era :], self.beside), earlier)

    @property
    def set_beside(self) -> str:
        """The knobs that are left to the operator and their values, as text."""
        return ", ".join(f"{name} is {value}" for name, value in zip(self.left, self.beside, strict=True))

    def unblamed(self) -> TrustRegionState:
        """The state without a last trial in which nothing was measured, as nothing is at the incumbent either."""
        last = len(self.told) - 1
        if last <= self.era or self.told[last].values == self.incumbent:
            return self
        if self.told[last].y is not None or self.told[last].excess is not None:
            return self
        return replace(self, told=self.told[:-1])

    def anew(self, era: int, beside: Beside) -> TrustRegionState:
        """The state from which the search begins again at its incumbent, in another load or beside other values."""
        fresh = TrustRegionState(self.knobs, self.seed, self.scales, self.told, era, self.past, self.incumbent)
        starts = self.starts if era == self.era else (*self.starts, self.era)
        return replace(fresh, earlier=self.earlier, left=self.left, beside=beside, starts=starts)

    @property
    def chosen(self) -> tuple[Likely, ...]:
        """The incumbent without each choice that it does not share with the start: its worth may be the load's."""
        incumbent, start = self.incumbent, self.told[0].values
        assert incumbent is not None
        return tuple(
            Likely((*incumbent[:k], start[k], *incumbent[k + 1 :]), f"{knob.name} was chosen under another load")
            for k, knob in enumerate(self.knobs)
            if knob.domain.choices and incumbent[k] != start[k]
        )

    @property
    def elsewhere(self) -> bool:
        """Whether the last trial was made under another mix than those before it at this load.

        After a trial that was, only those of the same configuration count, so that no setting looks like a mix.
        """
        *before, last = self.told[self.era :]
        if self.strange:
            before = [one for one in before[:-1] if one.values == last.values]
        return bool(another([one.mix for one in before], last.mix))

    def moved(self) -> TrustRegionState:
        """The state where the mix of the last two trials is another one than before."""
        assert self.incumbent is not None
        last = len(self.told) - 1
        state = replace(
            self.anew(last, self.beside), past=(*self.past, (self.era, last - 1, self.incumbent)), earlier=()
        )
        for begin, end, incumbent in reversed(self.past):
            if another([one.mix for one in self.told[begin:end]], self.told[last].mix) is False:
                return replace(state, incumbent=incumbent)
        return replace(state, likely=state.chosen)

    def without(self, knob: str) -> TrustRegionState:
        """The state once a knob is left to the operator.

        Raises:
            UsageError: there is no other knob.
        """
        index = index_of(self.knobs, knob)
        knobs = of_many([one for one in self.knobs if one.name != knob], "trust_region")
        lengths = self.scales.lengths
        scales = replace(self.scales, lengths=(*lengths[:index], *lengths[index + 1 :]))
        state = replace(self, knobs=knobs, scales=scales, left=(*self.left, knob))
        state = replace(state, asked=None, expected=None, recommended=None, pursued=None)
        if self.incumbent is None:
            return state
        stood, incumbent = self.incumbent[index], dropped(self.incumbent, index)
        earlier = dict.fromkeys(dropped(values, index) for values in self.earlier)
        likely = [one.without(index) for one in self.likely]
        return replace(
            state,
            told=tuple(one.without(index) for one in self.told),
            incumbent=incumbent,
            rejected=tuple(dropped(values, index) for values in self.rejected if values[index] == stood),
            earlier=tuple(values for values in earlier if values != incumbent),
            likely=tuple(one for one in likely if one.values != incumbent),
            past=tuple((begin, end, dropped(values, index)) for begin, end, values in self.past),
            beside=(*self.beside, stood),
        )
