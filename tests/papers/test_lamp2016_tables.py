"""lamp2016, Tables 1 to 3: which of the printed percentages follow from the printed scores, and which do not."""

from __future__ import annotations

import pytest

from trimtab.lab._lamp2016_results import APACHE_WEIGHT, PAPERS

APACHE, PHP, BOTH = PAPERS["apache"], PAPERS["php"], PAPERS["both"]


def test_the_combined_score_is_phps_and_ten_times_apaches() -> None:
    assert APACHE_WEIGHT * APACHE["mean"] + PHP["mean"] == pytest.approx(BOTH["mean"], rel=1e-5)


@pytest.mark.parametrize(("scores", "increase"), [(APACHE, 0.0822), (PHP, 0.0513), (BOTH, 0.0640)])
def test_the_increases_over_the_default_follow(scores: dict[str, float], increase: float) -> None:
    assert scores["most"] / scores["default"] - 1 == pytest.approx(increase, abs=1e-4)


@pytest.mark.parametrize(("scores", "printed", "follows"), [(APACHE, 0.2768, 0.539), (BOTH, 0.4155, 0.2575)])
def test_the_increases_of_the_best_over_the_worst_do_not(
    scores: dict[str, float], printed: float, follows: float
) -> None:
    ours = scores["most"] / scores["least"] - 1
    assert ours == pytest.approx(follows, abs=1e-3)
    assert abs(ours - printed) > 0.1


def test_the_mean_of_apaches_cells_is_below_the_default_and_phps_default_is_the_least() -> None:
    assert APACHE["mean"] / APACHE["default"] - 1 == pytest.approx(-0.069, abs=1e-3)
    assert PHP["default"] == PHP["least"]
    assert PHP["sd"] / PHP["mean"] == pytest.approx(0.0134, abs=1e-4)
