"""Cuts a window short that is far worse than the last good one, and returns to its configuration.

Promises that a bad change costs a part of one window. A window is bad when over enough requests to be believed the
objective is worse than in the last good one by the factor, or a limit is broken that it kept; or when connections
wait longer to be accepted than the factor allows: where the server stops answering there are no response times, but
there is a queue.

It judges only what trimtab has done: with the configuration of the last good window in force a bad window is a
changed workload, and becomes the new measure. A window in which memory demand was over its limit is never good,
because its response times are those of the few requests that got through, and takes that title from its
configuration; so a server found on the wrong side of the cliff is not returned to it when the backlog, served at
last, shows how long it had waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.core import Knob, Move, Objective, Window, in_words
from trimtab.core.objective import BROKEN

DELAY = "accept_queue_delay_s"


@dataclass(frozen=True)
class Good:
    """The last good window.

    Args:
        configuration: the configuration in force.
        cost: its cost by the objective.
        wait_s: the greater of its accept-queue delay and its response time, where measured.
    """

    configuration: Mapping[str, int]
    cost: float
    wait_s: float | None


@dataclass(frozen=True)
class EarlyAbortState:
    """The knobs that may be moved, and the last good window; None before there was one."""

    knobs: tuple[Knob, ...]
    good: Good | None = None


@dataclass(frozen=True)
class EarlyAbort:
    """The guard of bad windows.

    Args:
        objective: the objective compared.
        factor: how many times worse than the last good window is bad.
        min_samples: requests that a window must have completed for its objective to be believed.
        least_wait_s: delays in the accept queue below this are never bad.
    """

    objective: Objective
    factor: float = 4.0
    min_samples: int = 20
    least_wait_s: float = 0.1

    def start(self, knobs: tuple[Knob, ...]) -> EarlyAbortState:
        """No window has been good yet."""
        return EarlyAbortState(knobs)

    def abort(self, state: EarlyAbortState, partial: Window) -> str:
        """Why the window, under way or at its end, is bad, or an empty string."""
        if state.good is None or not self._ours(state, partial):
            return ""
        return partial.aborted or self._verdict(state.good, partial)

    def review(self, state: EarlyAbortState, window: Window, move: Move) -> tuple[EarlyAbortState, Move]:
        """The move; after a bad window the return to the last good configuration in its place."""
        why = self.abort(state, window)
        if state.good is None or not why:
            return self._learned(state, window), move
        good = state.good.configuration.items()
        back = {name: value for name, value in good if self._differs(window, name, value)}
        return state, move.amended(back, f"{why}; back to {in_words(back, state.knobs)}")

    def _ours(self, state: EarlyAbortState, window: Window) -> bool:
        """Whether the configuration is another than in the last good window."""
        good = state.good
        return good is not None and any(self._differs(window, n, v) for n, v in good.configuration.items())

    def _differs(self, window: Window, name: str, value: int) -> bool:
        """Whether a knob has another value in this window; one of unknown value has not."""
        return window.configuration.get(name, value) != value

    def _verdict(self, good: Good, window: Window) -> str:
        """Why the window is bad compared with a good one, or an empty string."""
        cost = self.objective.cost(window)
        believed = window.samples is None or window.samples >= self.min_samples
        if cost is not None and believed and good.cost < BROKEN <= cost:
            return f"{' and '.join(map(str, self.objective.broken(window)))} is broken, and was kept before"
        if cost is not None and believed and _worse(cost, good.cost, self.factor):
            far = f"more than {self.factor:g} times worse than {self.objective.said(good.cost)}"
            return f"{self.objective.metric} {self.objective.said(cost)} is {far}"
        delay = window.readings.get(DELAY)
        if delay is None or good.wait_s is None:
            return ""
        if delay > max(self.least_wait_s, self.factor * good.wait_s):
            return (
                f"connections wait {delay:.3g} s to be accepted, more than {self.factor:g} times {good.wait_s:.3g} s"
            )
        return ""

    def _learned(self, state: EarlyAbortState, window: Window) -> EarlyAbortState:
        """The state with this window as the last good one, when it can be judged and was good."""
        if window.readings.get("memory_ratio", 0.0) > 1:
            return state if self._ours(state, window) else EarlyAbortState(state.knobs)
        cost = self.objective.cost(window)
        few = window.samples is not None and window.samples < self.min_samples
        if cost is None or few or window.aborted:
            return state
        known = {knob.name for knob in state.knobs}
        configuration = {name: value for name, value in window.configuration.items() if name in known}
        waits = [window.readings[name] for name in (DELAY, "response_time_s") if name in window.readings]
        return EarlyAbortState(state.knobs, Good(configuration, cost, max(waits, default=None)))


def _worse(cost: float, good: float, factor: float) -> bool:
    """Whether a cost is worse than a good one by the factor; costs of a maximised objective are below 0."""
    return cost > factor * good if good > 0 else cost > good / factor and good < 0


GUARD = EarlyAbort
