"""A move: the changes to make and the reason, in words an operator can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Move:
    """Decision of a controller after a window. No change is a move too.

    Args:
        changes: knob name to new value, in the knob's unit; empty to hold.
        reason: the observation and why this follows, in one sentence.
        evidence: the figures behind the reason, by name.
        phase: the controller's own name for what it is doing, such as "probe" or "hold".
        gain: the largest share of the cost that the changes can save, as the controller bounds it from what it saw;
            0 where it cannot say.
        capacity: how many times more work the server would complete with them, where it is short of capacity; 1
            where they change nothing about that, or the controller cannot say.
        finished: True when the search has finished: the incumbent is brought into force, and the run ends.
        incumbent: the configuration of its knobs that the controller stands behind so far; None where it names none.
        recommended: the configuration that it would have measured again, were the search to end now, whatever was
            measured under another load; None for the incumbent, where that did better than the start.
        known: True where the changes lead to a configuration that was in force in this run, so that no guard has a
            say: a bounded step would end at one that nobody has measured.
        nearest: True where they may go as far as rules among the knobs let them all the same, since what was in force
            may break one by now.
        spare: True where the changes take only what nobody uses now: then a step may be of any length, and is worth
            its own cost alone, whether its gain can be told from noise or not.
    """

    changes: Mapping[str, int]
    reason: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    phase: str = ""
    gain: float = 0.0
    capacity: float = 1.0
    finished: bool = False
    incumbent: Mapping[str, int] | None = None
    recommended: Mapping[str, int] | None = None
    known: bool = False
    nearest: bool = False
    spare: bool = False

    @staticmethod
    def hold(reason: str, phase: str = "hold", **evidence: float) -> Move:
        """A move that changes nothing."""
        return Move({}, reason, evidence, phase)

    @staticmethod
    def end(incumbent: Mapping[str, int], reason: str, **evidence: float) -> Move:
        """The end of a search; said again in every window until the incumbent is in force."""
        return Move({}, reason, evidence, "finished", finished=True, incumbent=incumbent)

    def amended(self, changes: Mapping[str, int], because: str) -> Move:
        """This move with other changes, and why a guard made them, after the controller's own reason."""
        return replace(self, changes=changes, reason=f"{self.reason}; guard: {because}")
