"""An experiment on a live server: a change in force, with its cost and effect so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median

from trimtab.referee.estimate import VARIATION, Effect, effect
from trimtab.referee.measure import MOVED, NEXT_TO_NOTHING, Measured, Workload, mixed

MOST_WINDOWS = 36
"""Windows of a change that are compared, the last ones."""
Direction = tuple[str, int]
"""A knob's name, and 1 for up or -1 for down."""
LATELY = 6
"""Windows on each side of which the requests are counted."""
LEAST_CAPACITY = 0.1
"""A change by less than a tenth is none."""
FAILS_BY_CHANCE, FAILS_MORE = 3.0, 1.5
"""Standard errors and the factor beyond which more requests fail than did."""
EVEN = 3
"""Windows without more being completed, after which a change has done nothing: two of three mark a gain."""
FURTHER = 3
"""Windows in which nothing is seen of fewer workers, after which still fewer may be tried."""


@dataclass(frozen=True)
class Experiment:
    """A change in force.

    Args:
        configuration: the knobs with it.
        reference: windows before it.
        workload: the workload in them.
        windows: windows after it, but for the first, which pays for the change.
        late: the last ones of them in which work waited that had waited since before the change.
        first: that first window; None before it has passed. Of those that pay for its standstill the last.
        first_s: their excess, in seconds of normal operation.
        stop_s: cost of the standstill before it, in the same unit.
        back_s: what such a one would cost by Eq. (R8), with the backlog that it leaves: that of going back.
        lost_s: sum of the others' excesses.
        gained: windows in which an overloaded server completed more than before.
        even: windows in which it completed as much.
        completes: whether it has completed more (1) or less (-1) than before as of the last of `late`.
        untold: windows after it in which workers beyond a smaller limit had yet to end.
        unmeasured: windows after it in which nothing bounded the cost.
        silent: windows after it in which nobody came, or no connection did, or the cost was only bounded, by no more
            than expected.
        overloaded: whether the server was overloaded when it was made.
        returned: windows after it was taken back, but for the first; None while it is in force.
        on_limits: whether most windows before it broke a limit: then not the objective is compared, but how far
            each is beyond the limits.
        taken: directions of this change and of those before it under the same backlog.
        turned: directions of these that a later change has reversed.
        lately: the last two windows after it, whatever they say of its cost.
        reconnects: whether a keep-alive time is among them: the same requests come in another number of connections.
        lulls: whether nobody came in some windows before it either, or the objective was 0 in some: then such windows
            say nothing of the change.
        in_seconds: whether the cost is a time, so that arrivals times it are inside, by Little's law.
    """

    configuration: Mapping[str, int]
    reference: tuple[Measured, ...]
    workload: Workload
    windows: tuple[Measured, ...] = ()
    late: tuple[Measured, ...] = ()
    first: Measured | None = None
    first_s: float = 0.0
    stop_s: float = 0.0
    back_s: float = 0.0
    lost_s: float = 0.0
    gained: int = 0
    even: int = 0
    completes: int = 0
    untold: int = 0
    unmeasured: int = 0
    silent: int = 0
    overloaded: bool = False
    returned: tuple[Measured, ...] | None = None
    on_limits: bool = False
    in_seconds: bool = True
    lulls: bool = False
    taken: frozenset[Direction] = frozenset()
    turned: frozenset[Direction] = frozenset()
    lately: tuple[Measured, ...] = ()
    reconnects: bool = False

    @property
    def saturated(self) -> bool:
        """Whether work was always waiting before the change."""
        return all(w.saturated for w in self.reference[-3:])

    @property
    def idle(self) -> bool:
        """Whether an overloaded server has completed no more with the change, for as long as it takes to tell."""
        return self.overloaded and not self.gained and self.even >= EVEN

    @property
    def without_effect(self) -> bool:
        """Whether nothing is seen of the change: its effect is less than its standard error, either way."""
        found = None if self.overloaded or len(self.windows) < FURTHER else self.effect()
        return found is not None and abs(found.size) < found.error

    @property
    def crowded(self) -> bool:
        """Whether the time of a connection seems shorter only because a request's connections have become more.

        The time of a connection is what is inside over the connections that come. A shorter keep-alive time makes
        more of these, of fewer requests each, so no less is waited while no fewer are inside.
        """
        if not self.reconnects or not any(w.inferred for w in (*self.reference, *self.windows)):
            return False
        before, after = ([w.inside for w in some if w.inside] for some in (self.reference, self.windows))
        return bool(before and after) and fmean(after) >= fmean(before)

    @property
    def other_work(self) -> str:
        """What a request has by far less of since more were let in at once, and what it had; empty for nothing.

        Requests that fail take less time than any, and none of this is gained: a database that refuses what more
        workers ask of it, say. Whether a request failed is not known; CPU and bytes of one are, and they are less
        than in any window before. Bytes are by a tenth of the usual, and by twice as much as they differed before:
        some of those that fail are among others that do not. CPU is 1/`MOVED` of the usual, and says so only where
        the server kept up before: of an overloaded one clients give up requests that it works on, and fewer once it
        gains. A shorter keep-alive time lets in more, too, but may go with fewer workers, which take less CPU.
        """
        lately = (*self.late, *self.windows)[-2:]
        more = any(way > 0 for _, way in self.taken)
        if not lately or not (more or self.reconnects):
            return ""
        for what in ("CPU", "bytes") if more and not self.overloaded else ("bytes",):
            before = [w.of_a_request[what] for w in self.reference if what in w.of_a_request]
            since = [w.of_a_request[what] for w in lately if what in w.of_a_request]
            if len(before) < 2 or len(since) < len(lately):
                continue
            usual = median(before)
            sure = usual / MOVED
            if what == "bytes":
                sure = usual - max(LEAST_CAPACITY * usual, 2 * (max(before) - min(before)))
            if max(since) < min(sure, *before):
                return f"a request has {fmean(since) / usual:.2g} times the {what} that it had"
        return ""

    @property
    def failing(self) -> tuple[float, float] | None:
        """Share of the requests that fail in the last two windows, and that before, where it is more; else None.

        As the server itself counts those that it answers with an error. It is more by `FAILS_MORE`, in each of the
        two, and in both together by `FAILS_BY_CHANCE` standard errors of the difference of the counts. What fails in
        a reload alone is in the first one alone.
        """
        before = [w for w in self.reference if w.error_rate_hz is not None and w.counted]
        requests, failed = math.fsum(w.requests for w in before), math.fsum(w.failed for w in before)
        told = all(w.error_rate_hz is not None and w.requests for w in self.lately)
        if len(self.lately) < 2 or not told or not requests:
            return None
        since, now = math.fsum(w.requests for w in self.lately), math.fsum(w.failed for w in self.lately)
        usual, times = failed / requests, since / requests
        error = math.sqrt(VARIATION * (now + failed * times**2))
        more = all(w.failed > FAILS_MORE * usual * w.requests for w in self.lately)
        return (now / since, usual) if more and now - usual * since > FAILS_BY_CHANCE * error else None

    @property
    def fails(self) -> bool:
        """Whether requests fail with the change that did not before, as far as is known."""
        return self.failing is not None or bool(self.other_work)

    def followed_by(self, now: Measured) -> Experiment:
        """This experiment with a window among its last two."""
        return replace(self, lately=(*self.lately, now)[-2:])

    def compared(self, windows: tuple[Measured, ...]) -> tuple[Measured, ...]:
        """Windows with the cost that this experiment compares: with another keep-alive time, what clients wait."""
        if self.on_limits:
            return tuple(one.on_limits() for one in windows)
        windows = tuple(one.by_inside() for one in windows) if mixed(self.reference) else windows
        return tuple(one.opened() for one in windows) if self.reconnects else windows

    def with_window(self, now: Measured, lost_s: float, backlog: bool, pays: bool = False) -> Experiment:
        """This experiment with one more window; the first pays for the change.

        Args:
            now: the window.
            lost_s: its excess, in seconds of normal operation.
            backlog: whether work has waited since before the change, so that only what is completed tells anything.
            pays: whether it pays for the change too, as its backlog is there still, or the pool grows again.
        """
        if self.first is None or pays:
            return replace(self, first=now, first_s=self.first_s + lost_s)
        now, completes = self._told(now), self.capacity(now)
        more = completes > 0
        if backlog:
            late = (*self.late, now)[-LATELY:]
            return replace(
                self, late=late, completes=completes, gained=self.gained + more, even=self.even + (not more)
            )
        says_nothing = now.faint or now.nothing or now.unseen or (self.lulls and now.deserted)
        if now.log_cost is None and not says_nothing:
            return replace(self, unmeasured=self.unmeasured + 1)
        if now.log_cost is None or (now.bound and lost_s <= 0):
            return replace(self, silent=self.silent + 1)
        gained = self.gained + (more and now.saturated and self.saturated)
        windows = (*self.windows, now)[-MOST_WINDOWS:]
        return replace(self, windows=windows, lost_s=self.lost_s + lost_s, gained=gained)

    def own_backlog(self, now: Measured, lost_s: float) -> bool:
        """Whether those inside are, as far as can be told, who came while the change let no request begin.

        To go back would cost as much as that did. So they are waited for while they become fewer; and while they are
        as many but for chance, until waiting has cost as much. No more are inside beyond the usual than came.

        Args:
            now: a window right after the change, or after others that paid for it.
            lost_s: its excess, in seconds of normal operation.
        """
        usual, last = [w.inside for w in self.reference if w.inside is not None], self.first
        if self.windows or now.inside is None or not usual or not self.back_s:
            return False
        fewer = last is None or last.inside is None or now.inside < last.inside
        if not fewer and (self.first_s + lost_s > self.back_s or now.more_inside(last) > 0):
            return False
        came = self.workload.arrivals_hz * now.standstill_s
        return 0 < now.inside - max(usual) <= came + 2 * math.sqrt(came)

    def _told(self, now: Measured) -> Measured:
        """A window in which the objective is 0, with next to nothing as its cost, where it never was before."""
        known = [w.log_cost for w in self.reference if w.log_cost is not None]
        if not now.nothing or self.lulls or not known:
            return now
        return replace(now, log_cost=max(known) + math.log(NEXT_TO_NOTHING))

    @property
    def kept(self) -> tuple[Measured, ...]:
        """Its windows as a reference for what comes next, without those whose objective is 0: no cost is less."""
        return tuple(w for w in self.windows if not w.nothing)

    def excess_s(self, now: Measured) -> float:
        """Cost of a window beyond the expected one, in seconds of normal operation, Eq. (R7).

        What was lost in the last window before the change already is not the change's. A cost that is only told by
        Little's law is as uneven as the arrivals, and what is inside is what clients wait: then that counts alone.
        """
        if not self.reference:
            return 0.0
        work, ratio = self.workload, 0.0
        usual, rho = (min(0.95, value) for value in (work.arrivals_hz * work.demand_s, work.utilisation(now)))
        if now.bound or now.saturated:
            rho = max(rho, usual)  # fewer come while they wait: that is no lower load
        reference, (seen,) = self.compared(self.reference), self.compared((now,))
        usual_cost, last = expected(reference), reference[-1].log_cost
        usual_cost = usual_cost if last is None else max(usual_cost, last)
        inside = [w.inside for w in self.reference if w.inside is not None]
        if inside and now.inside is not None:
            by_cost = work.arrivals_hz * math.exp(expected(self.reference)) if self.in_seconds else 0.0
            usual_inside = by_cost or math.fsum(inside) / len(inside)
            ratio = (now.inside - max(inside)) / max(1.0, usual_inside)
            if (now.inferred or now.bound) and not self.on_limits:
                return max(0.0, ratio) * now.duration_s
        if seen.log_cost is not None:
            at_this_load = usual_cost + math.log1p(-usual) - math.log1p(-rho)
            ratio = max(ratio, math.exp(min(50.0, seen.log_cost - at_this_load)) - 1)
        return max(0.0, ratio) * now.duration_s

    def alone_s(self, before_s: float | None) -> float | None:
        """Cost of a change by itself of late: its standstill, and the excess of what pays for it beyond the others'.

        Args:
            before_s: the same as of the changes before it; None where there were none.
        """
        if not self.windows:
            return before_s
        alone_s = self.stop_s + max(0.0, self.first_s - self.lost_s / len(self.windows))
        return alone_s if before_s is None else (before_s + alone_s) / 2

    def effect(self) -> Effect | None:
        """Effect of the change against the windows before it; None before that can be told."""
        return self._effect(self.workload)

    def effect_by_requests(self) -> Effect | None:
        """Effect after another keep-alive time, if its connections are no more load; None where that is not known.

        The same requests come in another number of them. How many requests one has with the change is told by the
        windows in which nothing piled up.
        """
        each = Workload.of([w for w in self.windows if w.kept_up]).per_connection if self.reconnects else 0.0
        return self._effect(replace(self.workload, per_connection=each)) if each else None

    def effect_by_return(self, after: tuple[Measured, ...]) -> Effect | None:
        """Effect of the change against the windows after its return: those before may be of another load."""
        first = () if self.first is None or self.first.log_cost is None else (self.first,)
        return self._compared((), self.windows or first, after) if after else None

    def _effect(self, work: Workload) -> Effect | None:
        """Effect where the load with the change is told by a workload."""
        before = tuple(w for w in self.compared(self.reference) if w.log_cost is not None)
        return self._compared(before, self.windows, (), work) if len(before) >= 2 else None

    def _compared(
        self,
        before: tuple[Measured, ...],
        under: tuple[Measured, ...],
        after: tuple[Measured, ...],
        work: Workload | None = None,
    ) -> Effect | None:
        under, after = (tuple(w for w in self.compared(some) if w.log_cost is not None) for some in (under, after))
        if not under or not (before or after):
            return None
        with_it = (work or self.workload).seen
        seen = [*map(self.workload.seen, before), *map(with_it, under), *map(self.workload.seen, after)]
        changed = [False] * len(before) + [True] * len(under) + [False] * len(after)
        return effect(seen, changed, self.workload.noise(under[0].duration_s))

    def capacity(self, now: Measured) -> int:
        """Whether a server with work always waiting completes more (1) or less (-1) with the change, or as much (0).

        What it completes is then what it can. Two counts differ by chance by two standard errors; requests come in
        connections, so that it is the chance of connections that counts.

        Args:
            now: the last window with the change; it counts with those before it.
        """
        if not self.reference:
            return 0
        if not now.counted or not self.reference[-1].counted:
            return -1 if self._lets_in_less(now) or self._piles_up(now) else 0
        before, after = self.reference[-LATELY:], (*self.windows[-LATELY:], now)
        return _told_apart(_completed(before), _completed(after), max(1.0, self.workload.per_connection))

    def _lets_in_less(self, now: Measured) -> bool:
        """Whether fewer connections come in than before: as many end, which tells where requests are not counted."""
        before, after = _let_in(self.reference[-LATELY:]), _let_in((*self.late[1 - LATELY :], now))
        return not self.reconnects and _told_apart(before, after, 1.0) < 0

    def _piles_up(self, now: Measured) -> bool:
        """Whether more come inside in a second than before, by more than the chance of connections.

        Those whom an idle connection holds are not inside, so that a shorter keep-alive time is none of it.
        """
        known = [w for w in self.reference if w.inside is not None and w.connection_rate_hz is not None]
        if len(known) < 2 or self.first is None or now is self.first:
            return False
        (one_hz, one_s), (other_hz, other_s) = _growth(known[0], known[-1]), _growth(self.first, now)
        if one_s <= 0 or other_s <= 0:
            return False
        came_hz = max(w.connection_rate_hz or 0.0 for w in known)
        error_hz = math.sqrt(VARIATION * came_hz * (1 / one_s + 1 / other_s))
        return other_hz - one_hz > max(2 * error_hz, LEAST_CAPACITY * came_hz)

    @property
    def blind(self) -> bool:
        """Whether the objective was not measured before the change either."""
        return sum(not w.measured for w in self.reference[-3:]) >= 2


def compared(before: tuple[Measured, ...], after: tuple[Measured, ...]) -> Effect | None:
    """Effect between windows before and after a change, at equal load; None where one is unmeasured."""
    known = tuple(w for w in before if w.log_cost is not None), tuple(w for w in after if w.log_cost is not None)
    if not all(known):
        return None
    return Experiment({}, before, Workload.of(before))._compared(*known, ())


def expected(reference: tuple[Measured, ...]) -> float:
    """Mean log cost of a reference; 0 where there is none."""
    known = [w.log_cost for w in reference if w.log_cost is not None]
    return math.fsum(known) / len(known) if known else 0.0


def _told_apart(before: tuple[float, float], after: tuple[float, float], each: float) -> int:
    """Whether events come more (1) or less (-1) often than before; 0 for as often, by a tenth and two errors.

    Args:
        before: how many there were, and in how many seconds.
        after: the same since.
        each: how many of them come together.
    """
    (one, one_s), (other, other_s) = before, after
    if one_s <= 0 or other_s <= 0:
        return 0
    change_hz = other / other_s - one / one_s
    error_hz = math.sqrt(VARIATION * each * (one / one_s**2 + other / other_s**2))
    if abs(change_hz) <= max(2 * error_hz, LEAST_CAPACITY * one / one_s):
        return 0
    return 1 if change_hz > 0 else -1


def _growth(one: Measured, other: Measured) -> tuple[float, float]:
    """By how many a second those inside became more from one window to another; and the time between them."""
    between_s = (other.index - one.index) * other.duration_s
    if one.inside is None or other.inside is None or between_s <= 0:
        return 0.0, 0.0
    return (other.inside - one.inside) / between_s, between_s


def _let_in(windows: tuple[Measured, ...]) -> tuple[float, float]:
    """Connections that came in, in the windows in which that is known, and the length of these, in seconds."""
    known = [(w.connection_rate_hz, w.duration_s) for w in windows if w.connection_rate_hz is not None]
    return math.fsum(rate_hz * length_s for rate_hz, length_s in known), math.fsum(length_s for _, length_s in known)


def _completed(windows: tuple[Measured, ...]) -> tuple[float, float]:
    """Requests completed in the windows in which they were counted, and the length of these together, in seconds."""
    counted = [w for w in windows if w.counted]
    return math.fsum(w.requests for w in counted), math.fsum(w.duration_s for w in counted)
