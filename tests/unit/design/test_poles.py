"""The closed loop: by residuals, and by stepping its difference equations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.design.poles import Loop, characteristic, horizon, nyquist_distance, radii, radius, root_locus
from trimtab.identification.model import Model

LOOPS = [
    Loop(Model((0.74, -0.37), (0.95, -0.12)), 0.3, 0.05),
    Loop(Model((-0.08, -0.2), (-0.2, -0.05)), -4.6, 0.3),
    Loop(Model((0.9,), (0.02,)), 5.0, 0.8),
    Loop(Model((0.5, 0.2, -0.1), (1.0, 0.4, 0.1)), 0.2, 0.5),
]
every = pytest.mark.parametrize("loop", LOOPS)


def by_hand(loop: Loop, samples: int) -> list[float]:
    """Eq. (1) and (2) stepped: the controller sees V(m) and sets U(m)."""
    n = loop.model.order
    outputs, inputs, error_before, u = [0.0] * n, [0.0] * n, 0.0, 0.0
    response = []
    for m in range(samples):
        v = loop.model.predicted((*outputs, *inputs)) if m else 0.0
        error = 1.0 - v
        u = u + loop.gain * (error - loop.zero * error_before)
        error_before = error
        outputs, inputs = [v, *outputs[: n - 1]], [u, *inputs[: n - 1]]
        response.append(v)
    return response


@every
def test_the_step_response_is_that_of_the_difference_equations(loop: Loop) -> None:
    assert loop.step_response(25) == pytest.approx(by_hand(loop, 25), abs=1e-9)


@every
def test_every_pole_is_a_root_of_the_characteristic_polynomial(loop: Loop) -> None:
    a, b = [1.0, *(-x for x in loop.model.a)], list(loop.model.b)
    for pole in loop.poles():
        residual = (pole - 1) * np.polyval(a, pole) + loop.gain * (pole - loop.zero) * np.polyval(b, pole)
        assert abs(residual) < 1e-9
        assert abs(np.polyval(characteristic(loop.model, loop.gain, loop.zero), pole)) < 1e-9
    assert len(loop.poles()) == loop.model.order + 1
    assert radius(loop.model, loop.gain, loop.zero) == pytest.approx(loop.radius())


@every
def test_the_slowest_poles_of_many_loops_at_once_are_those_of_each(loop: Loop) -> None:
    gains, zeros = (axis.ravel() for axis in np.meshgrid([-30.0, 0.0, loop.gain], [0.0, 0.5, loop.zero, 1.0]))
    each = [radius(loop.model, float(gain), float(zero)) for gain, zero in zip(gains, zeros, strict=True)]
    assert radii(loop.model, gains, zeros) == pytest.approx(each, rel=1e-6)


@every
def test_with_integral_control_there_is_no_error_in_the_end(loop: Loop) -> None:
    assert loop.steady_state() == pytest.approx(1.0)
    assert by_hand(loop, 400)[-1] == pytest.approx(1.0, abs=1e-6)


@every
def test_the_margins_are_those_of_python_control(loop: Loop) -> None:
    import control  # takes seconds to load, and no other test needs it

    _, _, margin, *_ = control.stability_margins(loop.open())
    assert loop.stability_margin() == pytest.approx(margin, abs=2e-3)


@every
def test_the_loop_is_at_the_limit_of_stability_at_its_gain_margin(loop: Loop) -> None:
    factor = loop.gain_margin()
    assert 1 < factor < math.inf
    assert radius(loop.model, loop.gain * factor, loop.zero) == pytest.approx(1.0, abs=1e-6)
    assert radius(loop.model, loop.gain * factor * 1.01, loop.zero) > 1


def test_a_loop_that_is_not_stable_has_no_margin() -> None:
    loop = Loop(Model((0.74, -0.37), (0.95, -0.12)), 30.0, 0.05)
    assert loop.radius() > 1
    assert (loop.stability_margin(), loop.gain_margin()) == (0.0, 0.0)


def test_real_poles_come_first_and_pairs_begin_with_the_positive_imaginary_part() -> None:
    first, second, third = LOOPS[0].poles()
    assert abs(first.imag) < 1e-12
    assert second.imag > 0
    assert third == pytest.approx(second.conjugate())


@every
def test_the_root_locus_begins_at_the_open_loop_poles_and_passes_through_the_design(loop: Loop) -> None:
    start, end = root_locus(loop.model, loop.zero, [0.0, loop.gain])
    expected = sorted([1.0 + 0j, *loop.model.poles()], key=lambda p: (round(p.real, 6), p.imag))
    assert sorted(start, key=lambda p: (round(p.real, 6), p.imag)) == pytest.approx(expected, abs=1e-6)
    key = lambda p: (round(p.real, 6), p.imag)  # noqa: E731
    assert sorted(end, key=key) == pytest.approx(sorted(loop.poles(), key=key), abs=1e-6)


def test_no_feedback_is_as_far_from_instability_as_can_be() -> None:
    model = Model((0.5,), (1.0,))
    margins = nyquist_distance(model, np.array([1e-9, 0.1, 0.5]), np.array([0.3, 0.3, 0.3]))
    assert margins[0] == pytest.approx(1.0, abs=1e-6)
    assert margins[0] > margins[1] > margins[2] > 0


@pytest.mark.parametrize(
    ("slowest", "least", "most"), [(0.0, 20, 20), (0.5, 20, 20), (0.99, 900, 1100), (1.2, 20, 20)]
)
def test_a_response_is_followed_until_its_slowest_pole_has_died_away(slowest: float, least: int, most: int) -> None:
    assert least <= horizon(slowest) <= most
