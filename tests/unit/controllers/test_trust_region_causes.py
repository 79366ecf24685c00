"""What the trust region tries first, where some windows of its start show a cause and others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.search.test_causes import KNOBS, NOW, window
from trimtab.controllers.trust_region import TrustRegion
from trimtab.core import Objective, Trial
from trimtab.search.space import named


@pytest.mark.parametrize("full", [0, 1, 2])
def test_a_cause_that_one_window_of_the_start_shows_is_tried_first(full: int) -> None:
    search = TrustRegion(Objective("request_rate_hz", minimize=False))
    state, start = search.start(KNOBS, 1), named(KNOBS, NOW)
    for index in range(3):
        seen = window(base__cpu_ratio=0.99 if index == full else 0.93)
        rate = {"request_rate_hz": 10.0 + index / 10}
        state, move = search.step(state, Trial(replace(seen, index=index, configuration=start, readings=rate)))
    assert {name: value for name, value in move.changes.items() if value != start[name]} == {
        "app.threads": 15,
        "base.answers": 1,
    }
    assert "worth a trial" in move.reason
