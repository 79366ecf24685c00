"""trim: proposes what the evidence points at, one experiment at a time; the referee decides (beyond liu2003).

What it promises. It proposes a change of the worker limit, or of the keep-alive time, only where a reading shows what
is lost now and how much a change can gain at most, and it says both. Where nothing is lost it proposes nothing. It
never overrules the objective: whether a change was for the better is the referee's to say (`trimtab.referee`), which
also puts back what was not. What did not help is not proposed again in that direction until the workload changes.

Why it can. liu2003 offers hill climbing (slow: it must learn from a noisy curve where it is) and a heuristic (fast:
it computes the place from utilisations, but stops there). The two sides of the curve have different causes, and each
cause costs something that can be read:

    too many workers    they wait for memory a share s of the time, and of a request's min(s, 1 - u) / min(1, N) = h
                        is lost by it                                            gain <= h / (1 - rho (1 - h))  (T1)
    too few workers     all are busy and connections wait: AQT, in the mean of three windows
                                                                                 gain <= AQT / RT       (T2)
                         of which more workers complete X ~ n ** e, n at work            gain <= e AQT / RT     (T3)
    too long kept       most busy workers wait for an idle connection, and T1 or T2 is lost with them
    RT = AQT + BL x ST                                                           Eq. (1) of liu2003
    fit = (margin x L - (M - w n)) / w           memory line of the heuristic's step 2, with a base
    grow = n + 2 sqrt(n), n = m / CPU            CPU line of the heuristic's step 2 and staffing, at most 4 m

Where workers wait for memory and most are idle, the idle ones go first, down to what fits or twice what was ever
needed: nobody misses them. Where they are missed after all, because more come, the limit of before comes back, if no
other limit was proposed since (kept in mind for longer it did more harm: docs/battery.md).
Workers that idle connections hold are freed by a shorter keep-alive time, before the number of workers is touched
further, also where more would fit: how many are at work at once the operator has allowed, and what is behind them may
allow no more. Where memory is what they cost, fewer belong to it, because one who is let go and stays saves none, and
the same requests in more connections have more workers bring their pages back: where no fewer can be, the time stays.
It becomes no shorter than three round trips to the clients (six with TLS), one of which lies between two requests of
a page: with less no connection is used twice. Never fewer workers than are held, because how long clients think
cannot be read; and where nobody waits, so many that nobody will: n + 2 sqrt(n), with n busy without the stalls. Where
fewer workers come first, and those who are held now would be most of what remains, the time goes with them.

ST does not fall when m grows, so more workers can save at most AQT. Where it grows with them, since what they wait
for is behind them, they save as little of it as windows of this run tell (`_behind`). Fewer can save at most the
stalls and what others wait for them: where swap is compressed memory a stall is work of the CPU, and a queue's time
is S / (1 - rho). But what the CPU does for requests meanwhile, in user mode, a share u of its time, is not lost: of
ten workers on a full CPU one nearly always waits for memory, for which the kernel makes room between two of its turns
there, and without that no more than 1 / u times as much could be done. What would be resident if all were is no
evidence, because memory that nobody touches costs nothing: it says how far to go down, as the waits themselves do,
and where stalls take less than half of what the queue does and there is swap, a step beyond it is tried. Steps down
are from the limit or, where workers wait for memory most of the time, from those that are there. While an earlier
change has yet to take effect, because old workers finish what they have begun, nothing is said of the number of
workers.

| paper | here | unit | shape |
|---|---|---|---|
| MaxClients | m, `knob` | workers | scalar |
| RT, AQT, BL, ST | response_time_s, accept_queue_delay_s, burst_length, service_time_s | s, s, 1, s | scalar |
| CPU, rho | cpu_ratio, rho at most 0.95 | ratio | scalar |
| - | N = requests under way: request_rate_hz x request_time_s, at least busy_workers | 1 | scalar |
| - | w = served_worker_memory_bytes; in M - w n the mean of all, worker_memory_bytes | bytes | scalar |
| - | s = memory_pressure_ratio, at most swap_in_rate_hz x a seek: waits for memory | ratio | scalar |
| - | u = cpu_user_ratio | ratio | scalar |
| - | X = request_rate_hz; n = busy_workers - idle_held_workers - those on the CPU | 1/s, workers | scalar |

Departures from the paper: it is our own method; the heuristic's step 2 takes the workers that exist, with a base,
instead of a line through zero, and is where to go, not whether.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import ClassVar

from trimtab.controllers import _behind as behind
from trimtab.controllers import _trim_causes as causes
from trimtab.controllers._knob import integer_knob, require
from trimtab.core import Knob, Move, Objective, Role, Trial, Verdict, Window, of_role
from trimtab.core.memory import MemoryLine, not_above
from trimtab.errors import UsageError

QUEUES = 3
"""Windows in which a queue counts, as many as a reference has at least: in one of a few requests it may be chance."""

REMEMBERED = 36
"""Windows of which is known what workers did, as many as the referee compares with."""


@dataclass(frozen=True)
class State:
    """State of trim between windows.

    Args:
        knob: the worker limit.
        keep_alive: the keep-alive time; None where it is not moved.
        memory: the fitted line of the server's memory.
        withdrawn: knobs that are left to the operator; the values that he gives them are seen all the same.
        spared: the worker limit before idle workers were taken away; 0 where none were, or another limit was proposed
            since.
        needed: the most workers that did something in a window so far.
        queued: of the last windows, the worker limit in force and the queue's share of the response time.
        worked: what workers did in the last windows.
        away_s: what a client waits for a connection, as it was last known, in seconds; 0 where it was not.
    """

    knob: Knob
    keep_alive: Knob | None = None
    memory: MemoryLine = field(default_factory=MemoryLine)
    withdrawn: frozenset[str] = frozenset()
    spared: int = 0
    needed: float = 0.0
    queued: tuple[tuple[int, float], ...] = ()
    worked: tuple[behind.Work, ...] = ()
    away_s: float = 0.0

    @property
    def power(self) -> float:
        """By which power of the workers at work more is completed, Eq. (T3)."""
        return behind.elasticity(self.worked, QUEUES, self.queued[-1][0] if self.queued else 0)


@dataclass(frozen=True)
class Trim:
    """Propose by cause, one experiment at a time.

    Args:
        objective: the objective.
        margin: share of the memory limit that workers may fill; the rest is for file pages, the program's own too.
        worthwhile: smallest share of the time that a cause must take; the referee calls so small an effect none.
        ratio: factor between a setting and the next where the readings say which way, but not how far.
    """

    objective: Objective
    margin: float = 0.85
    worthwhile: float = 0.1
    ratio: float = 1.35
    experiments: ClassVar[bool] = True

    def start(self, knobs: tuple[Knob, ...], seed: int) -> State:
        """The state before the first window; nothing in it is random.

        Raises:
            UsageError: none of these knobs is a limit of workers, or an option has a value that cannot be used.
        """
        require(0 < self.margin <= 1, "margin", self.margin, "a share above 0, to 1")
        require(0 <= self.worthwhile < 1, "worthwhile", self.worthwhile, "a share below 1")
        require(self.ratio > 1, "ratio", self.ratio, "more than 1")
        knob = integer_knob(knobs, "trim")
        if knob.role is not Role.WORKER_LIMIT:
            raise UsageError("trim moves a limit of workers, and none of these knobs is one: choose a --controller")
        keep_alive = of_role(knobs, Role.KEEP_ALIVE)
        return State(knob, None if keep_alive == knob else keep_alive)

    def withdraw(self, state: State, knob: str) -> State:
        """The state without a knob.

        Raises:
            UsageError: there is no other one.
        """
        withdrawn = state.withdrawn | {knob}
        if all(one is None or one.name in withdrawn for one in (state.knob, state.keep_alive)):
            integer_knob((), "trim")
        return replace(state, withdrawn=withdrawn)

    def step(self, state: State, trial: Trial) -> tuple[State, Move]:
        """The experiment that the window calls for, if any."""
        window, knob = trial.window, state.knob
        m = window.configuration.get(knob.name)
        if m is None:
            return state, Move.hold(f"the value of {knob.name} in force is not known")
        most = max(state.needed, causes.needed(window.readings, m))
        queued = (*state.queued, (m, causes.queued(window.readings, m)))[-QUEUES:]
        did = behind.work(window, state.keep_alive is not None, self.worthwhile, m)
        worked = state.worked if did is None else (*state.worked, did)[-REMEMBERED:]
        learned = state.memory.learned(window.readings, m)
        away_s = window.readings.get("handshake_s", state.away_s)
        state = replace(state, memory=learned, needed=most, queued=queued, worked=worked, away_s=away_s)
        judgement = trial.judgement
        if judgement is not None and not judgement.final and judgement.verdict is not Verdict.SAME:
            return state, Move.hold(f"{m} on trial: {judgement.why}", "trial")
        if judgement is not None and judgement.final and judgement.verdict is not Verdict.BETTER:
            return state, Move.hold(f"{judgement.verdict}: {judgement.why}", "return")
        passed = ""
        for cause, tried in self._ordered(state, window, m, trial.refuted):
            now = window.configuration[cause.knob.name]
            if tried:
                passed = f"; {cause.why}, but a step that way was already tried"
            elif cause.target != now and cause.lost >= self.worthwhile:
                changes = {cause.knob.name: cause.target, **cause.also}
                what = " and ".join(
                    f"{n} {value} instead of {window.configuration[n]}" for n, value in changes.items()
                )
                move = Move(changes, f"{cause.why}: trying {what}")
                facts = causes.evidence(window)
                if knob.name in changes:
                    state = replace(state, spared=max(m, state.spared) if cause.spare else 0)
                move = replace(move, evidence=facts, phase="trial", gain=cause.gain, capacity=cause.capacity)
                return state, replace(move, spare=cause.spare)
        better = judgement is not None and judgement.verdict is Verdict.BETTER and judgement
        said = f"kept: {better.why}" if better else causes.nothing(window.readings, m, state.power)
        return state, Move.hold(f"{said}{passed}")

    def _ordered(
        self, state: State, window: Window, m: int, refuted: frozenset[tuple[str, int]]
    ) -> list[tuple[causes.Cause, bool]]:
        """The causes, each with whether its way was tried on this workload; those that were not come first."""
        found = self._causes(state, window, m, refuted)
        tried = [
            (one, (one.knob.name, one.direction(window.configuration[one.knob.name])) in refuted) for one in found
        ]
        return sorted(tried, key=lambda one: one[1])

    def _causes(
        self, state: State, window: Window, m: int, refuted: frozenset[tuple[str, int]]
    ) -> tuple[causes.Cause, ...]:
        """Causes of lost time in this window, each with the setting that would save some, in the order to try."""
        r, knob = window.readings, state.knob
        fit = self._fit(state, window)
        queued = fmean(share for limit, share in state.queued if limit == m)
        fewer, more = (
            causes.too_many(r, m, fit, knob, self.ratio),
            causes.too_few(r, m, fit, knob, self.ratio, queued, state.power),
        )
        shorter, held = None, state.keep_alive and window.configuration.get(state.keep_alive.name)
        if state.keep_alive and held:
            names = knob.name, state.keep_alive.name
            free, shortens = (name not in state.withdrawn and (name, -1) not in refuted for name in names)
            to = causes.shorter(held, state.keep_alive, state.away_s)
            shorter = causes.held_idle(r, m, held, state.keep_alive, to, fewer if free else None, state.power)
            if shortens and fewer is not None:
                fewer = causes.with_time(fewer, r, state.keep_alive, to)
        found = (
            causes.missed(r, m, state.spared, knob),
            causes.unused(r, m, fit, knob, state.needed),
            shorter,
            fewer,
            more,
        )
        return tuple(cause for cause in found if cause is not None and cause.knob.name not in state.withdrawn)

    def _fit(self, state: State, window: Window) -> int | None:
        """How many workers fit into memory; None when that cannot be told."""
        r = window.readings
        each_bytes = r.get("served_worker_memory_bytes", r.get("worker_memory_bytes"))
        if not each_bytes or "memory_limit_bytes" not in r:
            return None
        fitting = state.memory.fitting(each_bytes, r["memory_limit_bytes"], self.margin)
        return not_above(state.knob.domain, fitting)


CONTROLLER = Trim
