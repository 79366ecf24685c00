"""The whole experiment on plants whose difference equation is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._classes import budget_knobs
from tests._difference_plant import DifferencePlant
from trimtab.core import Role, Window, by_label
from trimtab.errors import UsageError
from trimtab.events import Event, WindowDone
from trimtab.identification.experiment import Experiment, classes_of
from trimtab.identification.model import PAPER, Model
from trimtab.identification.model_file import read_model
from trimtab.identification.result import Identified, analysed
from trimtab.identification.signals import Kind, Pair
from trimtab.identify import identify
from trimtab.observer import Stop
from trimtab.report.identification import comparison, errors, parameters, render
from trimtab.store import Store

PAIR = Pair(Kind.RELATIVE, "premium", "basic")


def found(plant: DifferencePlant, experiment: Experiment, store: Store | None = None) -> Identified:
    result = identify(plant, experiment, store or Store(None), Stop())
    assert result is not None
    return result


def second_order(noise: float = 0.1) -> DifferencePlant:
    return DifferencePlant(PAPER[Kind.RELATIVE], noise=noise)


def test_a_second_order_system_is_found_to_be_one() -> None:
    result = found(second_order(), Experiment(PAIR))
    first, second, third = result.candidates
    assert result.chosen is second
    assert first.rms > 2 * second.rms, "the first order predicts worse"
    assert third.rms > 0.95 * second.rms, "the third is not tangibly better"
    assert second.fit_ratio > 0.85
    assert result.model.gain == pytest.approx(PAPER[Kind.RELATIVE].gain, rel=0.05)


def test_the_parameters_are_within_a_few_of_their_standard_errors_of_the_truth() -> None:
    result = found(second_order(), Experiment(PAIR, duration_s=6000.0))
    truth = PAPER[Kind.RELATIVE].theta
    for value, error, true in zip(result.model.theta, result.chosen.errors, truth, strict=True):
        assert abs(value - true) < 4 * error < 0.3


def test_a_first_order_system_is_found_to_be_one() -> None:
    result = found(DifferencePlant(Model((0.6,), (0.8,)), noise=0.1), Experiment(PAIR))
    assert result.model.order == 1


def test_an_absolute_delay_is_identified_from_differences() -> None:
    plant = DifferencePlant(PAPER[Kind.ABSOLUTE], relative=False, noise=0.0)
    result = found(plant, Experiment(Pair(Kind.ABSOLUTE, "premium", "basic")))
    assert result.predicted[2][0].measured != 0
    best = result.candidates[1]
    assert best.model.theta == pytest.approx(PAPER[Kind.ABSOLUTE].theta, abs=0.01)


def test_delays_of_milliseconds_are_identified_as_those_of_seconds_are() -> None:
    """The same server a thousand times as fast: what is not an output per input is the same, errors included."""
    pair, (a, b) = Pair(Kind.ABSOLUTE, "premium", "basic"), (PAPER[Kind.ABSOLUTE].a, PAPER[Kind.ABSOLUTE].b)
    slow, fast = (
        found(DifferencePlant(Model(a, tuple(one * unit for one in b)), False, unit / 2), Experiment(pair))
        for unit in (1.0, 0.001)
    )
    assert fast.chosen.model.order == slow.chosen.model.order
    for one, other in zip(fast.candidates, slow.candidates, strict=True):
        assert one.model.a == pytest.approx(other.model.a, rel=1e-6)
        assert one.model.gain == pytest.approx(other.model.gain / 1000, rel=1e-6)
        assert (one.t, one.fit_ratio) == pytest.approx((other.t, other.fit_ratio), rel=1e-6)
        order = one.model.order
        assert one.errors[:order] == pytest.approx(other.errors[:order], rel=1e-6)
    assert fast.model.gain == pytest.approx(PAPER[Kind.ABSOLUTE].gain / 1000, rel=0.2)


def test_gaps_are_skipped_and_counted() -> None:
    plant = DifferencePlant(PAPER[Kind.RELATIVE], noise=0.05, missing=frozenset({20, 21, 40}))
    result = found(plant, Experiment(PAIR))
    whole = found(second_order(0.05), Experiment(PAIR))
    # Order 3 needs four windows in a row: two gaps beside one another cost 5 equations, one alone costs 4.
    assert (result.gaps[0] - whole.gaps[0], result.gaps[1] - whole.gaps[1]) == (9, 0)
    assert result.model.order == 2


def test_the_experiment_switches_between_two_configurations_and_puts_the_budgets_back() -> None:
    plant, store = second_order(), Store(None)
    result = found(plant, Experiment(PAIR, low=40, high=100), store)
    runs = store.runs()
    assert [run.plan.settings.seed for run in runs] == [1, 2]
    assert [run.plan.controller for run in runs] == ["excitation", "excitation"]
    assert result.facts["runs"] == [run.id for run in runs]
    windows = store.windows(runs[0].id)
    assert {tuple(w.configuration.values()) for w in windows[1:]} == {(40, 88), (100, 28)}
    assert all(run.restored for run in runs)
    assert tuple(plant.values.values()) == (64, 64)
    assert (plant.leased_s, plant.leases_ended) == (90.0, 1)


def test_the_two_runs_have_different_noise_and_the_warm_up_is_left_out() -> None:
    store = Store(None)
    result = found(second_order(), Experiment(PAIR, warm_s=300.0), store)
    inputs = [[w.configuration["process_budget@premium"] for w in store.windows(r.id)] for r in store.runs()]
    assert inputs[0] != inputs[1]
    assert inputs[0][:11] == [64] * 11
    assert result.trace[0][0] == 10 + 3


def test_a_stopped_experiment_gives_nothing_and_puts_the_budgets_back() -> None:
    plant, stop, store = second_order(), Stop(), Store(None)

    def tell(event: Event) -> None:
        if isinstance(event, WindowDone) and event.window.index == 30:
            stop.reason = "SIGINT"

    assert identify(plant, Experiment(PAIR), store, stop, tell) is None
    assert tuple(plant.values.values()) == (64, 64)
    assert len(store.runs()) == 1


def edited(change: Callable[[Window], Window]) -> list[Window]:
    """The windows of a good run, each changed."""
    store = Store(None)
    found(second_order(), Experiment(PAIR), store)
    return [change(window) for window in store.windows(1)]


def analyse(windows: list[Window], pair: Pair = PAIR) -> Identified:
    return analysed(pair, by_label(budget_knobs(), Role.PROCESS_BUDGET), 30.0, windows, windows, (1, 2, 3), {})


def test_too_few_windows_with_a_delay_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot be identified: only 0 of 60 windows"):
        analyse(edited(lambda window: dataclasses.replace(window, readings={})))


def test_an_input_that_never_changed_is_refused() -> None:
    still = {"process_budget@premium": 64, "process_budget@basic": 64}
    with pytest.raises(UsageError, match="the input never changed"):
        analyse(edited(lambda window: dataclasses.replace(window, configuration=still)))


def test_an_input_without_an_effect_is_refused() -> None:
    pair = Pair(Kind.ABSOLUTE, "premium", "basic")
    store = Store(None)
    plant = DifferencePlant(Model((0.3,), (-1e-6,)), relative=False, noise=1.0)
    with pytest.raises(UsageError, match="cannot be identified: the effect of the input"):
        identify(plant, Experiment(pair), store, Stop())


def test_a_delay_that_grows_with_the_processes_is_refused() -> None:
    plant = DifferencePlant(Model((0.3,), (0.5,)), relative=False, noise=0.1)
    with pytest.raises(UsageError, match="more processes raise the delay"):
        identify(plant, Experiment(Pair(Kind.ABSOLUTE, "premium", "basic")), Store(None), Stop())


def test_an_unstable_system_is_refused() -> None:
    plant = DifferencePlant(Model((1.05,), (1.0,)), noise=0.0)
    with pytest.raises(UsageError, match="unstable"):
        identify(plant, Experiment(PAIR, orders=(1,)), Store(None), Stop())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"validate_seed": 1}, "validate-seed"),
        ({"period_s": 0.0}, "period"),
        ({"duration_s": 100.0}, "warm-up"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(change: dict[str, float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Experiment(PAIR, **change)  # type: ignore[arg-type]


def test_what_the_plant_has_not_is_refused_before_anything_is_changed() -> None:
    plant, store = second_order(), Store(None)
    with pytest.raises(UsageError, match="unknown class 'gold': difference has premium, basic"):
        identify(plant, Experiment(Pair(Kind.RELATIVE, "gold", "basic")), store, Stop())
    with pytest.raises(UsageError, match=r"outside 1\.\.128"):
        identify(plant, Experiment(PAIR, high=500), store, Stop())
    assert store.runs() == []
    assert classes_of(plant) == ("premium", "basic")


def test_orders_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="orders"):
        found(second_order(), Experiment(PAIR, orders=(0, 1)))


def test_the_model_file_holds_what_was_found(tmp_path: Path) -> None:
    result = found(second_order(), Experiment(PAIR))
    result.file().write(tmp_path / "model.json")
    assert read_model(tmp_path / "model.json").model == result.model
    body = result.file().body()
    assert [row["order"] for row in body["facts"]["candidates"]] == [1, 2, 3]
    assert [*body["a"], *body["b"]] == list(result.model.theta)
    assert (body["kind"], [*body["classes"]], body["period_s"]) == ("relative", ["premium", "basic"], 30.0)


@pytest.mark.parametrize("kind", list(PAPER))
def test_the_figures_can_stand_in_a_page(kind: Kind) -> None:
    plant = DifferencePlant(PAPER[kind], relative=kind is Kind.RELATIVE, noise=0.05)
    result = found(plant, Experiment(Pair(kind, "premium", "basic")))
    for picture in (parameters(result), comparison(result), errors(result)):
        assert picture.startswith("<svg") and picture.rstrip().endswith("</svg>")


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_what_was_found_and_whether_it_was_simulated() -> None:
    result = found(second_order(), Experiment(PAIR))
    page = render(result, simulated=True)
    assert str(result.model) in page
    assert "Simulated" in page
    assert "Simulated" not in render(result, simulated=False)
