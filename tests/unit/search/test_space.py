"""Knobs as coordinates: there and back, by ratios where a number is wide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core import Domain, How, Knob
from trimtab.search.space import coordinate, point_of, points_of, value_at

DOMAINS = [
    Domain(0, 100, 5),
    Domain(1, 1000),
    Domain(0, 100_000),
    Domain(4096, 2**24, 1, logarithmic=True),
    Domain.switch(),
    Domain.choice("a", "b", "c"),
    Domain(7, 7),
]


@given(domain=st.sampled_from(DOMAINS), data=st.data())
def test_a_value_comes_back_from_its_coordinate(domain: Domain, data: st.DataObject) -> None:
    value = domain.clip(data.draw(st.integers(domain.minimum, domain.maximum)))
    assert 0 <= coordinate(domain, value) <= 1
    assert value_at(domain, coordinate(domain, value)) == value


@given(domain=st.sampled_from(DOMAINS), x=st.floats(-10, 10))
def test_every_coordinate_is_a_member_of_the_domain(domain: Domain, x: float) -> None:
    assert value_at(domain, x) in domain


def test_equal_steps_are_equal_factors_in_a_wide_domain_and_equal_differences_in_a_narrow_one() -> None:
    assert [value_at(Domain(1, 10_000), x) for x in (0, 0.25, 0.5, 0.75, 1)] == [1, 10, 100, 1000, 10_000]
    assert [value_at(Domain(0, 100, 5), x) for x in (0, 0.25, 0.5, 0.75, 1)] == [0, 25, 50, 75, 100]
    assert coordinate(Domain(1024, 1024 * 64, logarithmic=True), 8192) == pytest.approx(0.5)


@given(data=st.data())
def test_many_configurations_have_the_coordinates_that_each_has(data: st.DataObject) -> None:
    knobs = [Knob(f"k{k}", "", "", domain, domain.minimum, How.LIVE, "", "") for k, domain in enumerate(DOMAINS)]
    one = st.tuples(*(st.integers(domain.minimum, domain.maximum) for domain in DOMAINS))
    many = data.draw(st.lists(one, min_size=1, max_size=3))
    # numpy's logarithm may differ from math's in the last digit: of 4591, say.
    each = [[*point_of(knobs, values)] for values in many]
    assert points_of(knobs, many).tolist() == [pytest.approx(one, rel=1e-14, abs=0) for one in each]
