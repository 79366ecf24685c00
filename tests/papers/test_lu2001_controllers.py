"""lu2001, sections 4.4, 5 and 7: the controllers closed over the paper's own models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests._classes import TWO, budget_knobs, class_window, delays
from trimtab.controllers._pi import Pi
from trimtab.controllers.absolute_delay import AbsoluteDelay
from trimtab.controllers.hybrid_delay import HybridDelay
from trimtab.controllers.relative_delay import RelativeDelay, proportions
from trimtab.core import Controller, Objective, Trial

OBJECTIVE = Objective("connection_delay_s@premium")
RELATIVE = (0.74, -0.37, 0.95, -0.12)
"""Eq. (6b)."""
ABSOLUTE = (-0.08, -0.2, -0.2, -0.05)
"""Eq. (6c)."""
Model = tuple[float, float, float, float]


class Plant:
    """Eq. (6a) around an operating point where it is at rest."""

    def __init__(self, model: Model, v: float, u: float) -> None:
        self.model, self.at = model, (v, u)
        self.v, self.u = [0.0, 0.0], [0.0, 0.0]

    def next(self, u: float) -> float:
        """V(m) after U(m-1) = u."""
        a1, a2, b1, b2 = self.model
        self.u = [u - self.at[1], self.u[0]]
        self.v = [a1 * self.v[0] + a2 * self.v[1] + b1 * self.u[0] + b2 * self.u[1], self.v[0]]
        return self.at[0] + self.v[0]


def played(
    controller: Controller,
    names: tuple[str, ...],
    budgets: dict[str, int],
    respond: Callable[[dict[str, int], int], dict[str, float | None]],
    windows: int,
    workers: int = 128,
) -> list[tuple[dict[str, int], dict[str, float | None], str]]:
    """Budgets, delays and phase of each window of a closed loop."""
    state = controller.start(budget_knobs(names, workers), 0)
    rows = []
    for index in range(windows):
        seen = respond(budgets, index)
        window = class_window(budgets, delays(seen), index, workers)
        state, move = controller.step(state, Trial(window))
        rows.append((dict(budgets), seen, move.phase))
        budgets = {name: move.changes.get(f"process_budget@{name}", budget) for name, budget in budgets.items()}
    return rows


def poles(model: Model, gain: float, zero: float) -> list[complex]:
    """Poles of Eq. (9), found from the response of `Pi` and Eq. (6a) to one disturbance, by Prony's method.

    Nothing of Eq. (7) to (9) is used: the loop is run, and the recurrence that its output obeys is solved for.
    """
    a1, a2, b1, b2 = model
    loop, v, u = Pi(0.0, 0.0), [1.0, 0.0], [0.0, 0.0]
    outputs = []
    for _ in range(12):
        outputs.append(v[0])
        loop = loop.next(-v[0], gain, zero)
        u = [loop.value, u[0]]
        v = [a1 * v[0] + a2 * v[1] + b1 * u[0] + b2 * u[1], v[0]]
    rows = np.array([outputs[i : i + 3] for i in range(1, 8)])
    recurrence, *_ = np.linalg.lstsq(rows, np.array(outputs[4:11]), rcond=None)
    return sorted(np.roots([1.0, *(-recurrence[::-1])]), key=lambda pole: pole.imag)


@pytest.mark.parametrize(
    ("model", "gain", "zero", "real", "pair"),
    [
        (RELATIVE, RelativeDelay(OBJECTIVE).gain, RelativeDelay(OBJECTIVE).zero, 0.70, 0.38 + 0.62j),
        (ABSOLUTE, AbsoluteDelay(OBJECTIVE).gain, AbsoluteDelay(OBJECTIVE).zero, 0.607, -0.30 + 0.59j),
    ],
)
def test_the_default_gains_put_the_poles_where_the_paper_does(
    model: Model, gain: float, zero: float, real: float, pair: complex
) -> None:
    """Eq. (10a), (11a)."""
    below, middle, above = poles(model, gain, zero)
    assert abs(middle - real) < 0.01
    assert abs(above - pair) < 0.01
    assert abs(below - pair.conjugate()) < 0.01


@pytest.mark.parametrize(("workers", "within"), [(128, 0.03), (100_000, 0.001)])
def test_relative_delays_settle_at_3_to_1_from_any_ratio_within_270_s(workers: int, within: float) -> None:
    """Section 7.3.1: W1/W0 = 3, the process ratio starts at 1; 270 s are nine samples (section 5.3)."""
    controller = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0))
    plant = Plant(RELATIVE, 0.0, 0.0)
    start = {"premium": workers // 2, "basic": workers // 2}
    plant.next(1.0), plant.next(1.0)

    def respond(budgets: dict[str, int], index: int) -> dict[str, float | None]:
        return {"premium": 8.0, "basic": 8.0 * plant.next(budgets["premium"] / budgets["basic"])}

    rows = played(controller, TWO, start, respond, 60, workers)
    ratios = [seen["basic"] / seen["premium"] for _, seen, _ in rows if seen["basic"] and seen["premium"]]
    assert all(abs(ratio - 3) < 0.3 for ratio in ratios[10:])
    assert all(abs(ratio - 3) < 3 * within for ratio in ratios[-20:])
    assert all(sum(budgets.values()) == workers for budgets, _, _ in rows)
    assert {phase for *_, phase in rows} == {"relative"}
    # the steady state of Eq. (6a): U = V (1 - a1 - a2) / (b1 + b2)
    last = rows[-1][0]
    assert last["premium"] / last["basic"] == pytest.approx(3 * 0.63 / 0.83, rel=0.05)


def test_a_step_of_the_load_is_taken_back_by_relative_control() -> None:
    """Section 7.3.1: the delay ratio falls from 3.2 to 1.2 at 870 s, and has converged again by 1140 s."""
    controller = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0))
    plant = Plant(RELATIVE, 3.0, 3 * 0.63 / 0.83)

    def respond(budgets: dict[str, int], index: int) -> dict[str, float | None]:
        load = 0.0 if index < 29 else -1.8
        ratio = plant.next(budgets["premium"] / budgets["basic"]) + load
        return {"premium": 8.0, "basic": 8.0 * ratio}

    rows = played(controller, TWO, {"premium": 89, "basic": 39}, respond, 45)
    ratios = [seen["basic"] / seen["premium"] for _, seen, _ in rows if seen["basic"] and seen["premium"]]
    assert ratios[29] == pytest.approx(1.2, abs=0.2)
    assert all(abs(ratio - 3) < 0.3 for ratio in [*ratios[:29], *ratios[38:]])
    assert rows[-1][0]["premium"] > rows[28][0]["premium"]


def test_absolute_delays_settle_at_their_references_within_210_s() -> None:
    """Section 7.3.3: (W0, W1) = (10, 30) s; 210 s are seven samples (section 5.3)."""
    controller = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0))
    plants = {"premium": Plant(ABSOLUTE, 15.0, 50), "basic": Plant(ABSOLUTE, 27.0, 50)}

    def respond(budgets: dict[str, int], index: int) -> dict[str, float | None]:
        return {name: plants[name].next(budget) for name, budget in budgets.items()}

    rows = played(controller, TWO, {"premium": 50, "basic": 50}, respond, 40)
    for name, desired in (("premium", 10.0), ("basic", 30.0)):
        values = [seen[name] or 0.0 for _, seen, _ in rows]
        assert all(abs(value - desired) < 0.1 * desired for value in values[8:])
        # a whole process is worth 0.2 s on this plant
        assert all(abs(value - desired) < 0.2 for value in values[-10:])
    assert rows[-1][0]["premium"] > 50 > rows[-1][0]["basic"]


def test_in_overload_the_first_class_keeps_its_delay_and_the_second_is_violated() -> None:
    """Section 7.3.3: the delay of class 0 rises by 12 s at 870 s and has converged by 1020 s; class 1 pays."""
    controller = AbsoluteDelay(OBJECTIVE, TWO, (10.0, 30.0))
    plants = {"premium": Plant(ABSOLUTE, 10.0, 60), "basic": Plant(ABSOLUTE, 30.0, 60)}

    def respond(budgets: dict[str, int], index: int) -> dict[str, float | None]:
        load = 12.0 if index >= 29 else 0.0
        seen: dict[str, float | None] = {name: plants[name].next(b) for name, b in budgets.items()}
        seen["premium"] = (seen["premium"] or 0.0) + load
        return seen

    rows = played(controller, TWO, {"premium": 60, "basic": 60}, respond, 60)
    first = [seen["premium"] or 0.0 for _, seen, _ in rows]
    second = [seen["basic"] or 0.0 for _, seen, _ in rows]
    assert first[29] == pytest.approx(22.0, abs=0.5)
    assert all(abs(value - 10) < 1 for value in first[36:])
    assert all(value > 33 for value in second[40:])
    assert rows[-1][2] == "saturated"
    assert sum(rows[-1][0].values()) == 128


def test_eq_1_by_hand() -> None:
    """g = 0.3, r = 0.05: 1 + 0.3 (-1.4 - 0.05 * 0.5) = 0.5725."""
    assert Pi(1.0, 0.5).next(-1.4, 0.3, 0.05) == Pi(pytest.approx(0.5725), -1.4)  # type: ignore[arg-type]


def test_control_relative_delay_by_hand() -> None:
    """P = (6, 2, 1) for U1 = 3 and U2 = 2; S = 9."""
    assert proportions((3.0, 2.0), 90) == pytest.approx((60, 20, 10))
    assert proportions((1.0, 1.0), 128) == pytest.approx((128 / 3,) * 3)


@pytest.mark.parametrize(
    ("measured", "more"), [(4.4, "basic"), (1.2, "premium")], ids=["section 7.3.1 at 150 s", "at 900 s"]
)
def test_a_ratio_on_either_side_of_3_moves_processes_to_the_class_that_waits_too_long(
    measured: float, more: str
) -> None:
    """Table 2: when E < 0 the process ratio B_(k-1) / B_k falls."""
    controller = RelativeDelay(OBJECTIVE, TWO, (1.0, 3.0))
    state = controller.start(budget_knobs(), 0)
    seen = delays({"premium": 6.5, "basic": 6.5 * measured})
    _, move = controller.step(state, Trial(class_window({"premium": 64, "basic": 64}, seen, 0, 128)))
    assert move.changes[f"process_budget@{more}"] > 64
    assert sum(move.changes.values()) == 128


def test_three_classes_start_with_equal_shares_and_move_towards_1_2_4() -> None:
    """Section 7.3.2: delays (14.6, 17.3, 17.5) s at shares (1, 1, 1), desired (1, 2, 4)."""
    names = ("a", "b", "c")
    controller = RelativeDelay(OBJECTIVE, names, (1.0, 2.0, 4.0))
    state = controller.start(budget_knobs(names), 0)
    seen = delays({"a": 14.6, "b": 17.3, "c": 17.5})
    _, move = controller.step(state, Trial(class_window({"a": 43, "b": 43, "c": 42}, seen, 0, 128)))
    budgets = [move.changes.get(f"process_budget@{n}", b) for n, b in (("a", 43), ("b", 43), ("c", 42))]
    assert budgets[0] > budgets[1] > budgets[2]
    assert sum(budgets) == 128


def test_the_hybrid_guarantee_switches_at_the_edges_of_its_window_and_not_inside() -> None:
    """Section 4.4.3: C0 > W0 + H to absolute, C0 < W0 - H back."""
    controller = HybridDelay(OBJECTIVE, TWO, (10.0, 30.0), hysteresis_s=2.0)
    state = controller.start(budget_knobs(), 0)
    budgets, phases = {"premium": 64, "basic": 64}, []
    for index, delay_s in enumerate([5.0, 11.9, 12.1, 8.1, 11.9, 7.9, 11.0]):
        seen = delays({"premium": delay_s, "basic": 25.0})
        state, move = controller.step(state, Trial(class_window(budgets, seen, index, 128)))
        phases.append("absolute" if "absolute:" in move.reason else "relative")
        budgets = {n: move.changes.get(f"process_budget@{n}", b) for n, b in budgets.items()}
    assert phases == ["relative", "relative", "absolute", "absolute", "absolute", "relative", "relative"]
