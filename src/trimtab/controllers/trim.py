"""trim: fuzzy control's optimum at the saturation heuristic's speed, and quiet once there (liu2003, and beyond).

What it promises. From any start it is in the valley of the response-time curve after one or two moves, refines
there only as far as the evidence carries, then holds in spite of noise, and starts anew when the workload changes.
It holds when the limit does not bind.

Why it can. liu2003 offers hill climbing (slow: it must learn from a noisy curve where it is) and a heuristic (fast:
it computes the place from utilisations, but stops there). The two sides of the curve have different causes, and
each cause shows in readings that one window gives, without any climbing:

    too many workers    memory demand M exceeds its limit L      ->  go to the number that fits
    too few workers     all are busy and connections wait        ->  go to where CPU or memory saturates
    RT = AQT + BL x ST                                           Eq. (1)
    fit = (margin x L - (M - w n)) / w                           memory line of the heuristic's step 2, with a base
    grow = m / CPU                                               CPU line of the heuristic's step 2

Eq. (1) also bounds what a move can gain. ST does not fall when m grows, so more workers can save at most AQT:
where AQT / RT is below `worthwhile`, no probe upward is worth a reload. Fewer workers can save at most the share of
BL x ST that is not CPU work, BL x (ST - D), D = CPU seconds per request. A probe that could gain less than
`worthwhile` is not made; those that are made are judged on the logarithm of the cost, whose noise is learned from
successive windows at one setting: accepted only when better by `confidence` standard errors, given up early when
worse. A clean reference of at least `reference_windows` comes before the first probe, and the window right after a
change, which pays for the reload, is not counted.

Memory has a memory: a worker keeps what its largest request took, so after a change from heavy to light pages the
measured line says that nothing more fits. Once after an alarm, where all are busy, CPU is idle and only that line
stands in the way, trim lowers the limit by one step: the reload renews the workers, and the line is measured anew.

While holding, a two-sided CUSUM (Page 1954) on the standardised log cost, and drift of the workload's signature
(CPU and memory per request and worker), tell a changed workload from noise. An alarm forgets what was learned.

| paper | here | unit | shape |
|---|---|---|---|
| MaxClients | m, `knob` | workers | scalar |
| RT, AQT, BL, ST | response_time_s, accept_queue_delay_s, burst_length, service_time_s | s, s, 1, s | scalar |
| CPU, MEM | cpu_ratio, memory_ratio | ratio | scalar |
| - | x = log cost; sigma, its standard deviation per window | 1 | scalar |

Departures from the paper: it is our own method; the heuristic's step 2 takes the workers that exist, with a base,
instead of a line through zero; memory demand counts what is swapped out, so it may exceed the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trimtab.controllers import _trim_causes as causes
from trimtab.controllers._knob import integer_knob, unjudged
from trimtab.core import Knob, Move, Objective, Readings, Trial, Window
from trimtab.core.memory import MemoryLine, not_above


@dataclass(frozen=True)
class Visit:
    """What is known of one setting since the workload last changed: log-cost mean over `count` windows."""

    value: int
    count: int
    mean: float

    def seen(self, x: float) -> Visit:
        """This visit with one more log cost."""
        return Visit(self.value, self.count + 1, self.mean + (x - self.mean) / (self.count + 1))


@dataclass(frozen=True)
class State:
    """What trim remembers between windows; `phase` is settle, search, probe or hold."""

    knob: Knob
    sigma: float
    phase: str = "settle"
    visits: tuple[Visit, ...] = ()
    incumbent: int | None = None
    previous: tuple[int, float] | None = None
    asked: int | None = None
    memory: MemoryLine = field(default_factory=MemoryLine)
    worker_bytes: float = 0.0
    at: int | None = None
    age: int = 0
    waited: int = 0
    pressing: int = 0
    renewed: bool = False
    skip: bool = False
    direction: int = 0
    tried: frozenset[int] = frozenset()
    cusum: tuple[float, float] = (0.0, 0.0)
    signature: tuple[float, ...] = ()
    drifting: int = 0

    def visit(self, value: int) -> Visit:
        """The visit to that setting; an empty one when it was never seen."""
        return next((v for v in self.visits if v.value == value), Visit(value, 0, 0.0))


@dataclass(frozen=True)
class Trim:
    """Jump by cause, refine by bounded evidence, hold until the workload changes.

    Args:
        objective: what to make least or greatest.
        margin: share of the memory limit that workers may fill; the rest is for file pages, the program's own too.
        worthwhile: smallest relative gain that is worth a change.
        confidence: standard errors by which a probe must be better to be kept.
        probe_ratio: factor between a setting and its probe.
        probe_windows: windows after which an undecided probe ends.
        reference_windows: windows at a setting before it is compared.
        settle_windows: windows to wait at most for a backlog to drain after a change.
        alarm: CUSUM threshold, in standard deviations.
        slack: CUSUM allowance per window, in standard deviations.
        min_samples: requests below which a window is not judged.
        forget: what is kept per window of the largest memory per worker while the workers are young.
        young_windows: windows after a change in which fresh workers may look smaller than they will be.
    """

    objective: Objective
    margin: float = 0.85
    worthwhile: float = 0.1
    confidence: float = 1.64
    probe_ratio: float = 1.35
    probe_windows: int = 3
    reference_windows: int = 3
    settle_windows: int = 4
    alarm: float = 6.0
    slack: float = 0.75
    min_samples: int = 20
    forget: float = 0.8
    young_windows: int = 1

    def start(self, knobs: tuple[Knob, ...], seed: int) -> State:
        """The state before the first window; see `Controller.start`. Nothing in it is random."""
        return State(knob=integer_knob(knobs, "trim"), sigma=0.25)

    def step(self, state: State, trial: Trial) -> tuple[State, Move]:
        """One window; see `Controller.step`."""
        window = trial.window
        m = window.configuration.get(state.knob.name)
        if m is None:
            return state, Move.hold(f"the value of {state.knob.name} in force is not known", state.phase)
        age = state.age + 1 if state.at == m else 0
        worker = self._worker_bytes(state, window.readings, age)
        memory = state.memory.learned(window.readings, m)
        state = replace(state, at=m, age=age, worker_bytes=worker, memory=memory)
        state, move = self._decide(state, window, m)
        return replace(state, asked=move.changes.get(state.knob.name, m)), move

    def _decide(self, state: State, window: Window, m: int) -> tuple[State, Move]:
        """Causes first, then the phase's own business, once the window can be judged."""
        r, fit = window.readings, self._fit(state, window)
        cause = causes.too_many(r, m, fit, state.worker_bytes, self.margin) or causes.too_few(
            r, m, fit, state.knob.domain, self.worthwhile
        )
        if cause is not None:
            return self._press(state, window, m, cause)
        stale = None if state.renewed else causes.stale_memory(r, m, fit, state.knob.domain)
        if stale is not None:
            return self._jump(state, stale, causes.evidence(window), "renew")
        state = replace(state, pressing=0)
        if window.aborted and state.phase == "probe" and state.incumbent not in (None, m):
            return self._back(state, f"{m} was cut short: {window.aborted}", causes.evidence(window))
        x = self._log_cost(window)
        why = unjudged(self.objective, window, state.knob, self.min_samples)
        if x is None or why:
            return state, Move.hold(why or f"{self.objective.metric} is not positive", state.phase)
        if state.asked is not None and state.asked != m and state.phase != "settle":
            state = replace(state, phase="settle", previous=None, waited=0, skip=False)  # a guard or operator chose
        state = self._noted(state, m, x)
        match state.phase:
            case "settle":
                return self._settle(state, m, x)
            case "search":
                return self._search(state, window, m)
            case "probe":
                return self._probe(state, window, m)
            case _:
                return self._hold(state, window, m, x)

    def _worker_bytes(self, state: State, readings: Readings, age: int) -> float:
        """Memory per worker: as measured, but of young workers not far below what it was before the reload."""
        now = readings.get("worker_memory_bytes", 0.0)
        return now if now and age >= self.young_windows else max(now, self.forget * state.worker_bytes)

    def _fit(self, state: State, window: Window) -> int | None:
        """How many workers fit into memory; None when that cannot be told."""
        r = window.readings
        if not r.get("worker_memory_bytes") or "memory_limit_bytes" not in r:
            return None
        fitting = state.memory.fitting(state.worker_bytes, r["memory_limit_bytes"], self.margin)
        return not_above(state.knob.domain, fitting)

    def _press(self, state: State, window: Window, m: int, cause: causes.Cause) -> tuple[State, Move]:
        """Acts on a cause: at once on memory or on first sight, after two windows once a setting is held."""
        target, why = cause.target, cause.why
        if state.phase == "probe" and state.direction < 0 < target - m:
            return self._back(state, why, causes.evidence(window))
        settled = state.phase in ("hold", "search", "probe") or (state.waited == 0 and state.incumbent is not None)
        if target > m and settled and state.pressing == 0:
            return replace(state, pressing=1), Move.hold(f"{why}; once more before moving", state.phase)
        return self._jump(state, cause, causes.evidence(window), "jump", state.worker_bytes)

    def _jump(
        self, state: State, cause: causes.Cause, facts: dict[str, float], phase: str, worker_bytes: float = 0.0
    ) -> tuple[State, Move]:
        """Goes where a cause points and forgets what was learned elsewhere; the reload renews all workers."""
        knob, memory = state.knob, state.memory
        fresh = State(
            knob, state.sigma, incumbent=cause.target, memory=memory, worker_bytes=worker_bytes, renewed=True
        )
        return fresh, Move({knob.name: cause.target}, cause.why, facts, phase)

    # The phases.

    def _settle(self, state: State, m: int, x: float) -> tuple[State, Move]:
        """Waits until a backlog has drained: until the cost no longer falls beyond its noise."""
        before = state.previous
        state = replace(state, previous=(m, x), waited=state.waited + 1)
        falling = before is not None and before[0] == m and x < before[1] - 2.0 * math.sqrt(2.0) * state.sigma
        if (before is None or before[0] != m or falling) and state.waited <= self.settle_windows:
            what = "falling" if falling else "new here"
            return state, Move.hold(f"response is {what}: letting the backlog drain", "settle")
        visits = (Visit(m, 1, x),)
        state = replace(state, phase="search", visits=visits, incumbent=m, tried=frozenset(), waited=0)
        return state, Move.hold(f"settled at {m}: measuring a reference", "search")

    def _search(self, state: State, window: Window, m: int) -> tuple[State, Move]:
        """Chooses the next probe whose possible gain is worth it, or comes to rest."""
        here = state.visit(m)
        if here.count < self.reference_windows:
            return state, Move.hold(f"reference window {here.count} of {self.reference_windows} at {m}", "search")
        for direction in (1, -1):
            target = self._probe_target(state, window, m, direction)
            gain, why = causes.possible_gain(window.readings, m, target)
            if direction in state.tried or target == m or gain < self.worthwhile:
                continue
            visits = tuple(v for v in state.visits if v.value != target)
            state = replace(state, phase="probe", direction=direction, incumbent=m, visits=visits, skip=True)
            reason = f"{why}: trying {target} instead of {m}"
            return state, Move({state.knob.name: target}, reason, causes.evidence(window), "probe")
        return self._rest(state, m, "no move left that could gain enough")

    def _probe(self, state: State, window: Window, m: int) -> tuple[State, Move]:
        """Judges a probe against the incumbent by their log costs."""
        base = state.visit(state.incumbent if state.incumbent is not None else m)
        here = state.visit(m)
        if here.count == 0:
            return state, Move.hold(f"{m} is new: letting the change settle", "probe")
        error = state.sigma * math.sqrt(1 / here.count + 1 / max(1, base.count))
        gain = base.mean - here.mean
        facts = {"gain_ratio": 1 - math.exp(-gain), "standard_error": error, **causes.evidence(window)}
        if here.count >= 2 and gain > max(self.confidence * error, math.log1p(self.worthwhile / 2)):
            opposite = frozenset({-state.direction})
            state = replace(state, phase="search", incumbent=m, tried=opposite)
            return state, Move({}, f"{m} is {1 - math.exp(-gain):.0%} better than {base.value}: kept", facts, "probe")
        if gain >= -error and here.count < self.probe_windows:
            return state, Move({}, f"{m} against {base.value} is still undecided", facts, "probe")
        said = "worse" if gain < 0 else "not clearly better"
        return self._back(state, f"{m} is {said} than {base.value}", facts)

    def _back(self, state: State, why: str, facts: dict[str, float]) -> tuple[State, Move]:
        """Ends a probe that was not better: back to the incumbent, and not that way again."""
        best = state.incumbent if state.incumbent is not None else state.visits[0].value
        state = replace(state, phase="search", tried=state.tried | {state.direction}, skip=True, pressing=0)
        return state, Move({state.knob.name: best}, f"{why}: back to {best}", facts, "probe")

    def _hold(self, state: State, window: Window, m: int, x: float) -> tuple[State, Move]:
        """Stays, and watches for a changed workload."""
        base = state.visit(m)
        z = (x - base.mean) / (state.sigma * math.sqrt(1 + 1 / base.count))
        up, down = (max(0.0, state.cusum[0] + z - self.slack), max(0.0, state.cusum[1] - z - self.slack))
        drifting = state.drifting + 1 if causes.drifted(state.signature, causes.signature(window.readings)) else 0
        if max(up, down) > self.alarm or drifting >= 3:
            what = "the cost of work" if drifting >= 3 else f"{self.objective.metric}"
            fresh = State(state.knob, state.sigma, previous=(m, x), incumbent=m, memory=state.memory)
            return fresh, Move.hold(f"the workload changed ({what} left its range): starting anew", "alarm")
        if base.count < 20:  # the reference itself is still noisy: sharpen it while nothing is suspicious
            state = replace(state, visits=(base.seen(x) if max(up, down) < 1.0 else base,))
        state = replace(
            state, cusum=(up, down), drifting=drifting, signature=state.signature or causes.signature(window.readings)
        )
        if causes.unbound(window.readings, m):
            return state, Move.hold("the limit does not bind: fewer than half of the workers are busy")
        return state, Move.hold(f"at the best known setting {m}")

    def _rest(self, state: State, m: int, why: str) -> tuple[State, Move]:
        """Returns to the incumbent, or stays at it, and holds."""
        best = state.incumbent if state.incumbent is not None else m
        visits = (state.visit(best),) if state.visit(best).count else (state.visit(m),)
        state = replace(state, phase="hold", visits=visits, cusum=(0.0, 0.0), signature=(), drifting=0)
        changes = {} if best == m else {state.knob.name: best}
        return state, Move(changes, f"{why}: holding {best}", {}, "hold")

    # What the phases ask of a window.

    def _log_cost(self, window: Window) -> float | None:
        """x: the logarithm of the objective, falling as things get better; None when not measured."""
        value = window.readings.get(self.objective.metric)
        if value is None or value <= 0:
            return None
        return math.log(value) if self.objective.minimize else -math.log(value)

    def _noted(self, state: State, m: int, x: float) -> State:
        """The state with this window in the noise estimate and in the visit to m."""
        before, sigma = state.previous, state.sigma
        if state.skip and state.phase != "settle":
            return replace(state, skip=False, previous=None)  # the reload's cost is neither noise nor the setting's
        if before is not None and before[0] == m and state.phase != "settle":
            # E|x1 - x2| = 2 sigma / sqrt(pi) for normal x; a jump is not noise, so it counts for at most 3 sigma
            distance = min(abs(x - before[1]), 3.0 * sigma) * math.sqrt(math.pi) / 2
            sigma = min(1.0, max(0.03, sigma + 0.15 * (distance - sigma)))
        if state.phase == "settle":
            return state
        state = replace(state, sigma=sigma, previous=(m, x))
        if state.phase == "hold":
            return state
        return replace(state, visits=(*(v for v in state.visits if v.value != m), state.visit(m).seen(x)))

    def _probe_target(self, state: State, window: Window, m: int, direction: int) -> int:
        """The neighbour of m to try: one ratio away, at least one step, and within memory."""
        domain = state.knob.domain
        far = m * self.probe_ratio if direction > 0 else m / self.probe_ratio
        target = domain.clip(max(m + domain.step, far) if direction > 0 else min(m - domain.step, far))
        fit = self._fit(state, window)
        return max(m, min(target, fit)) if direction > 0 and fit is not None else target


CONTROLLER = Trim
