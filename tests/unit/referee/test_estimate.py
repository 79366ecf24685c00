"""Effects planted in autocorrelated series, with steps and walks of the load: how often the estimate is right."""

from __future__ import annotations

import math

import pytest

from tests._planted import BEFORE, planted, share, verdicts
from trimtab.core import Verdict
from trimtab.referee.estimate import (
    UNDECIDED,
    Effect,
    Noise,
    Seen,
    effect,
    noise_of,
    queue_noise,
    verdict_of,
    windows_needed,
)

SEEDS = range(1, 100)


def series(*costs: float, utilisation: float = 0.5) -> list[Seen]:
    """Windows of 10,000 requests at these costs."""
    return [Seen(index, math.log(cost), utilisation, 1e4) for index, cost in enumerate(costs)]


def test_without_an_effect_a_change_is_rarely_called_worse_or_better() -> None:
    found = verdicts(SEEDS, 1.0)
    assert share(found, Verdict.WORSE) <= 0.06
    assert share(found, Verdict.WORSE, Verdict.BETTER) <= 0.1


def test_twice_the_cost_is_found_soon_and_five_times_at_once() -> None:
    assert share(verdicts(SEEDS, 2.0), Verdict.WORSE, within=4) >= 0.85
    assert share(verdicts(SEEDS, 5.0), Verdict.WORSE, within=2) >= 0.9


def test_harm_is_never_called_better() -> None:
    for factor in (2.0, 5.0):
        assert share(verdicts(SEEDS, factor), Verdict.BETTER) == 0


def test_a_gain_of_a_third_is_mostly_found_and_never_called_worse() -> None:
    found = verdicts(SEEDS, 0.7)
    assert share(found, Verdict.BETTER) >= 0.5
    assert share(found, Verdict.WORSE) <= 0.02


@pytest.mark.parametrize("kind", ["closed", "retries"])
def test_harm_is_found_also_where_clients_answer_it_by_asking_less_or_more(kind: str) -> None:
    found = verdicts(SEEDS, 2.0, closed=kind == "closed", retries=kind == "retries")
    assert share(found, Verdict.WORSE) >= 0.75
    assert share(found, Verdict.BETTER) == 0


def test_a_small_gain_is_believed_where_it_is_still_there_after_a_while() -> None:
    small = Effect(-0.15, 0.05, 0.1)
    assert verdict_of(small, UNDECIDED) is None
    assert verdict_of(small, UNDECIDED + 1) is Verdict.BETTER
    assert verdict_of(Effect(-0.08, 0.01, 0.1), UNDECIDED + 1) is Verdict.SAME


def test_a_steady_series_gives_the_effect_itself() -> None:
    windows = series(*[0.01] * 8, *[0.02] * 8)
    found = effect(windows, [False] * 8 + [True] * 8, Noise(0.05, 0.3))
    assert found.size == pytest.approx(math.log(2), abs=0.05)
    assert found.error < 0.1


def test_what_a_higher_load_explains_is_no_effect() -> None:
    """The cost doubles and so does what the queue makes one expect: 1 - rho falls from 0.5 to 0.25."""
    before = series(*[0.01] * 8)
    after = [Seen(8 + i, math.log(0.02), 0.75, 1e4) for i in range(8)]
    found = effect([*before, *after], [False] * 8 + [True] * 8, Noise())
    assert abs(found.size) < 2 * found.error


def test_means_of_few_requests_count_less() -> None:
    few = [Seen(one.index, one.log_cost, one.utilisation, 5) for one in series(*[0.01] * 6, *[0.02] * 3)]
    many = series(*[0.01] * 6, *[0.02] * 3)
    changed = [False] * 6 + [True] * 3
    assert effect(few, changed, Noise()).error > 1.3 * effect(many, changed, Noise()).error


def test_windows_that_do_not_follow_one_another_tell_sooner_than_a_prior_that_says_they_do() -> None:
    prior, changed = Noise(0.5, 0.8), [False] * 12 + [True] * 12
    hopping = [math.exp(0.3 * (-1) ** i) for i in range(24)]
    wandering = [math.exp(0.3 * (-1) ** (i // 6)) for i in range(24)]
    found, other = (effect(series(*costs), changed, prior) for costs in (hopping, wandering))
    assert found.error < 0.8 * other.error
    one, another = (noise_of(series(*costs[:12]), prior) for costs in (hopping, wandering))
    assert one.phi < 0.2 < 0.7 < another.phi
    apart = [Seen(3 * i, math.log(cost), 0.5, 1e4) for i, cost in enumerate(hopping)]
    assert noise_of(apart, prior).phi == prior.phi, "no two of them are neighbours"


def test_windows_of_one_kind_alone_have_no_effect() -> None:
    with pytest.raises(ValueError, match="with the change and without it"):
        effect(series(1.0, 2.0), [True, True], Noise())


def test_the_noise_of_a_queue_grows_with_its_load_and_shrinks_with_the_window() -> None:
    calm, busy = queue_noise(0.5, 0.02, 5.0), queue_noise(0.9, 0.02, 5.0)
    assert calm.sigma < busy.sigma
    assert calm.phi < busy.phi
    assert queue_noise(0.9, 0.02, 60.0).sigma < busy.sigma
    assert queue_noise(0.0, 0.0, 5.0) == Noise()


def test_a_small_effect_takes_windows_without_end() -> None:
    assert windows_needed(math.log(2), Noise()) < windows_needed(math.log(1.2), Noise())
    assert windows_needed(0.0, Noise()) == math.inf


def test_the_series_are_as_long_as_said_and_the_same_for_a_seed() -> None:
    assert planted(1, 2.0) == planted(1, 2.0)
    assert len(planted(1, 2.0).windows) == 2 * BEFORE + 1
