"""The search for a gain and a zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trimtab.design.pi import designed, failing, judged
from trimtab.design.poles import radius
from trimtab.design.specification import Specification
from trimtab.errors import UsageError
from trimtab.identification.model import Model
from trimtab.report.design import picture

RELATIVE = Model((0.74, -0.37), (0.95, -0.12))
ABSOLUTE = Model((-0.08, -0.2), (-0.2, -0.05))


@pytest.mark.parametrize("model", [RELATIVE, ABSOLUTE, Model((0.9,), (0.01,)), Model((0.5, 0.3, 0.1), (1, 0.5, 0.2))])
@pytest.mark.parametrize("overshoot", [None, 0.0, 0.05])
def test_what_is_designed_meets_the_specification(model: Model, overshoot: float | None) -> None:
    specification = Specification(overshoot_ratio=overshoot)
    design = designed(model, specification)
    assert failing(design, specification) == ""
    assert design.stable
    assert math.copysign(1, design.gain) == math.copysign(1, model.gain)
    assert 0 <= design.zero < 1


@settings(max_examples=25, deadline=None)
@given(st.floats(-0.9, 0.95), st.floats(0.05, 5), st.floats(-0.4, 0.4), st.integers(4, 30), st.booleans())
def test_every_stable_model_gets_a_design_that_meets_the_specification_or_a_reason(
    a: float, b: float, second: float, samples: int, negative: bool
) -> None:
    model = Model((a, 0.0), (-b if negative else b, second * b))
    assume(abs(sum(model.b)) > 0.01)
    specification = Specification(settling_s=30.0 * samples)
    try:
        design = designed(model, specification)
    except UsageError as error:
        assert "no gain and zero meet the specification" in str(error)
    else:
        assert failing(design, specification) == ""


@pytest.mark.parametrize("model", [RELATIVE, ABSOLUTE])
def test_no_other_point_of_a_fine_grid_has_a_tangibly_larger_margin(model: Model) -> None:
    specification = Specification()
    best = designed(model, specification).margin
    for gain in np.geomspace(0.02, 3, 14) / model.gain:
        for zero in np.linspace(0, 0.95, 6):
            if radius(model, gain, zero) < 1:
                other = judged(model, float(gain), float(zero), specification)
                assert other.margin <= best + 0.01 or failing(other, specification)


def test_a_shorter_settling_time_costs_margin() -> None:
    margins = [designed(ABSOLUTE, Specification(t)).margin for t in (600.0, 300.0, 180.0)]
    assert margins == sorted(margins, reverse=True)


def test_the_sampling_period_scales_time_and_nothing_else() -> None:
    slow, fast = designed(RELATIVE, Specification(300.0, 30.0)), designed(RELATIVE, Specification(10.0, 1.0))
    assert (slow.gain, slow.zero) == (fast.gain, fast.zero)
    assert slow.settling_s == pytest.approx(30 * (fast.settling_s or 0))


def test_what_no_controller_can_do_is_refused_with_what_one_can() -> None:
    with pytest.raises(UsageError, match=r"within 60 s.*the fastest takes \d+ s, with gain"):
        designed(RELATIVE, Specification(60.0))


def test_an_unstable_model_and_one_without_an_effect_are_refused() -> None:
    for model in (Model((1.1,), (1.0,)), Model((0.5, 0.1), (1.0, -1.0))):
        with pytest.raises(UsageError):
            designed(model, Specification())


def test_a_design_says_which_part_of_the_specification_it_misses() -> None:
    fast = judged(RELATIVE, 1.5, 0.55, Specification())
    assert failing(fast, Specification()) == ""
    assert "overshoots" in failing(fast, Specification(overshoot_ratio=0.0))
    assert "settles in" in failing(fast, Specification(settling_s=90.0))
    assert failing(judged(RELATIVE, 30.0, 0.05, Specification()), Specification()) == "the closed loop is not stable"
    slow = judged(RELATIVE, 0.001, 0.05, Specification())
    assert "settles" in failing(slow, Specification())


def test_json_has_no_number_that_is_not_finite() -> None:
    for gain in (0.3, 30.0):
        body = judged(RELATIVE, gain, 0.05, Specification()).body()
        flat = [body["gain_margin"], body["settling_s"], body["steady_state_error_ratio"]]
        assert all(value is None or math.isfinite(value) for value in flat)
    assert body["stable"] is False
    assert body["settling_s"] is None


@pytest.mark.parametrize("model", [RELATIVE, ABSOLUTE])
def test_the_figure_is_drawn(model: Model) -> None:
    specification = Specification()
    drawn = picture(designed(model, specification), specification)
    assert drawn.startswith("<svg")
    assert "Root locus" in drawn and "Predicted step response" in drawn
