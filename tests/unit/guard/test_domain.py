from __future__ import annotations

from tests._curve import NAME, seen, worker_knob
from trimtab.core import Move
from trimtab.guard.domain import Domain


def reviewed(wanted: dict[str, int], step: int = 1) -> Move:
    guard = Domain()
    return guard.review(guard.start((worker_knob(step, 256 // step * step, step),)), seen(150), Move(wanted, "why"))[
        1
    ]


def test_a_value_of_the_domain_passes_without_a_word() -> None:
    assert reviewed({NAME: 20}) == Move({NAME: 20}, "why")


def test_a_value_outside_is_brought_to_the_end_and_the_limit_is_named() -> None:
    move = reviewed({NAME: 999})
    assert move.changes == {NAME: 256}
    assert "999 is outside 1..256 (ServerLimit)" in move.reason


def test_a_value_between_two_steps_is_brought_to_the_nearest() -> None:
    move = reviewed({NAME: 60}, step=25)
    assert move.changes == {NAME: 50}
    assert "in steps of 25" in move.reason


def test_a_knob_that_was_not_given_is_refused() -> None:
    move = reviewed({"listen_backlog": 5, NAME: 20})
    assert move.changes == {NAME: 20}
    assert "listen_backlog is not a knob that may be moved here" in move.reason
