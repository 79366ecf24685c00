"""The minimal standard generator and the white noise from it."""

from __future__ import annotations

import numpy as np
import pytest

from tests._white_noise import binary
from trimtab.identification.park_miller import MODULUS, bit, following, seeded


def test_it_is_the_minimal_standard_by_its_authors_own_check() -> None:
    """Park and Miller (1988): from seed 1 the state after 10,000 draws is 1043618065."""
    state = 1
    for _ in range(10_000):
        state = following(state)
    assert state == 1_043_618_065


@pytest.mark.parametrize("seed", [0, 1, 2, -1, MODULUS - 1, MODULUS, 10**18])
def test_every_seed_is_accepted_and_gives_a_state_of_the_generator(seed: int) -> None:
    assert 1 <= seeded(seed) < MODULUS


def test_the_same_seed_gives_the_same_bits_and_neighbouring_seeds_others() -> None:
    assert binary(1, 60) == binary(1, 60)
    others = [sum(a != b for a, b in zip(binary(1, 60), binary(seed, 60), strict=True)) for seed in range(2, 40)]
    assert min(others) >= 15, "two experiments would be nearly the same"


def test_a_signal_of_sixty_windows_has_both_levels_in_plenty() -> None:
    ones = [sum(binary(seed, 60)) for seed in range(100)]
    assert min(ones) >= 15
    assert max(ones) <= 45


def test_it_is_white() -> None:
    signal = 2.0 * np.array(binary(7, 20_000)) - 1.0
    assert abs(signal.mean()) < 0.03
    for lag in range(1, 20):
        assert abs(float(np.mean(signal[:-lag] * signal[lag:]))) < 0.03, lag


def test_a_bit_is_the_high_half_of_the_range() -> None:
    state = seeded(5)
    after, one = bit(state)
    assert (after, one) == (following(state), int(following(state) > MODULUS / 2))
