from __future__ import annotations

import pytest

from tests._curve import NAME, seen, worker_knob
from trimtab.core import Move, Window
from trimtab.guard.not_binding import NotBinding


def reviewed(window: Window, wanted: int) -> Move:
    guard = NotBinding()
    return guard.review(guard.start((worker_knob(),)), window, Move({NAME: wanted, "keep_alive": 5}, "why"))[1]


def test_an_increase_of_a_limit_that_does_not_bind_is_held_and_the_rest_passes() -> None:
    move = reviewed(seen(100, busy_workers=20.0, accept_queue_length=0.0), 120)
    assert move.changes == {"keep_alive": 5}
    assert "100 does not bind: 20.0 busy, 0.00 queued" in move.reason


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        (seen(100, busy_workers=20.0, accept_queue_length=0.0), 80),
        (seen(100, busy_workers=50.0, accept_queue_length=0.0), 120),
        (seen(100, busy_workers=20.0, accept_queue_length=3.0), 120),
        (seen(100, busy_workers=20.0), 120),
        (seen(100, accept_queue_length=0.0), 120),
    ],
    ids=["decrease", "half busy", "queue", "queue not measured", "workers not measured"],
)
def test_all_else_passes(window: Window, wanted: int) -> None:
    assert reviewed(window, wanted) == Move({NAME: wanted, "keep_alive": 5}, "why")
