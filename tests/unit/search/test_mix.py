"""How well another mix is told from the chance of one."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.search.mix import Mix, another

BROWSING = {"pages": 3300.0, "requests": 17300.0, "transactions": 122.0}
ORDERING = {"pages": 13000.0, "requests": 48100.0, "transactions": 4750.0}


def drawn(rng: np.random.Generator, mean: dict[str, float], bursts: float) -> Mix:
    """A window's counts; what is asked for comes in bursts of so many on average."""
    return tuple(sorted((name, bursts * float(rng.poisson(count / bursts))) for name, count in mean.items()))


def seen(rng: np.random.Generator, count: int, mean: dict[str, float], bursts: float) -> list[Mix]:
    return [drawn(rng, mean, bursts) for _ in range(count)]


@pytest.mark.parametrize("bursts", [1.0, 5.0])
@pytest.mark.parametrize("trials", [3, 12])
def test_the_chance_of_one_mix_seldom_looks_like_another_twice(trials: int, bursts: float) -> None:
    rng = np.random.default_rng(1)
    twice = 0
    for _ in range(1000):
        before = seen(rng, trials, BROWSING, bursts)
        twice += all(another(before, one) for one in seen(rng, 2, BROWSING, bursts))
    assert twice <= 2


@pytest.mark.parametrize(("before", "after"), [(BROWSING, ORDERING), (ORDERING, BROWSING)])
def test_another_mix_is_told_from_three_trials(before: dict[str, float], after: dict[str, float]) -> None:
    rng = np.random.default_rng(2)
    found = [another(seen(rng, 3, before, 5.0), drawn(rng, after, 5.0)) for _ in range(500)]
    assert sum(map(bool, found)) >= 495


def test_more_of_the_same_is_no_other_mix() -> None:
    rng = np.random.default_rng(3)
    rush = {name: 4 * count for name, count in ORDERING.items()}
    assert not any(another(seen(rng, 5, ORDERING, 1.0), drawn(rng, rush, 1.0)) for _ in range(200))


def test_a_twentieth_is_no_other_mix_however_much_was_counted() -> None:
    before = [(("pages", 1e8), ("requests", 5e8))] * 4
    assert another(before, (("pages", 1e8), ("requests", 5.2e8))) is False
    assert another(before, (("pages", 1e8), ("requests", 6e8))) is True


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([(("pages", 100.0),)] * 3, (("pages", 400.0),)),
        ([(("pages", 100.0), ("orders", 10.0))], (("pages", 100.0), ("orders", 90.0))),
        ([(), ()], (("pages", 100.0), ("orders", 90.0))),
        ([(("pages", 100.0), ("orders", 10.0))] * 3, ()),
    ],
    ids=["one kind", "one trial", "nothing before", "nothing now"],
)
def test_what_cannot_be_told_is_said(before: list[Mix], now: Mix) -> None:
    assert another(before, now) is None


@pytest.mark.parametrize("orders", [30.0, 120.0, 5000.0])
def test_what_was_asked_for_can_end(orders: float) -> None:
    before = [(("orders", orders), ("pages", 1000.0))] * 3
    assert another(before, (("orders", 0.0), ("pages", 1000.0))) is True
    assert another([(("orders", 5.0), ("pages", 1000.0))] * 3, (("orders", 0.0), ("pages", 1000.0))) is False


def test_what_was_never_asked_for_can_begin() -> None:
    before = [(("orders", 0.0), ("pages", 1000.0))] * 3
    assert another(before, (("orders", 200.0), ("pages", 1000.0))) is True
    assert another(before, (("orders", 1.0), ("pages", 1000.0))) is False
