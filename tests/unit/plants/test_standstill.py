"""What connections wait longer for a reload."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests._memory_plant import FakeClock
from trimtab.errors import ApplyFailed, NotMeasured
from trimtab.plants._standstill import Standstill


class Waiting:
    """A queue as long as is said at each look; the last again and again."""

    def __init__(self, *lengths: int, most: int = 511) -> None:
        self.lengths, self.most, self.closed = list(lengths) or [0], most, False

    def waiting(self) -> tuple[int, int]:
        if self.lengths[0] < 0:
            raise NotMeasured("nothing listens there any more")
        return (self.lengths.pop(0) if self.lengths[1:] else self.lengths[0]), self.most

    def close(self) -> None:
        self.closed = True


def seen(queue: Waiting, steps: int, stopped: int) -> Standstill:
    """A standstill of so many tenths of a second, looked at for so many."""
    clock = FakeClock()
    made = Standstill(clock, lambda: queue)
    made.begin()
    for step in range(1, steps + 1):
        clock.sleep(0.1)
        made.look()
        if step == stopped:
            made.end()
    made.close()
    return made


def test_what_waits_beyond_what_waited_before_is_counted_until_the_reload_is_done() -> None:
    queue = Waiting(2, 4, 6, 6, 4, 2)  # the fourth look is that of the end of the standstill
    made = seen(queue, 4, 2)
    assert made.duration_s == pytest.approx(0.2)
    assert made.waited_s == pytest.approx(0.1 * (1 + 3 + 3 + 1))
    assert queue.closed


def test_a_queue_that_becomes_shorter_takes_nothing_away() -> None:
    assert seen(Waiting(5, 0), 4, 2).waited_s == 0.0


@pytest.mark.parametrize("queue", [Waiting(1, 128, 3, most=128), Waiting(1, 2, -1), Waiting(-1)])
def test_a_queue_that_was_full_or_is_gone_tells_nothing(queue: Waiting) -> None:
    made = seen(queue, 4, 2)
    assert made.waited_s is None
    assert made.duration_s == pytest.approx(0.2)


def test_where_the_queue_cannot_be_seen_the_standstill_still_has_a_length_and_begins_once() -> None:
    def nowhere() -> Waiting:
        raise NotMeasured("the kernel refuses to say")

    clock = FakeClock()
    made = Standstill(clock, nowhere)
    made.begin()
    clock.sleep(0.3)
    made.begin()
    made.end()
    made.close()
    assert made.duration_s == pytest.approx(0.3)
    assert made.waited_s is None


def test_that_of_a_reload_that_fails_is_counted_too() -> None:
    """It was in no budget of harm, though the longest are those in which no new worker comes."""
    clock, server = FakeClock(), SimpleNamespace(held_s=1.0)
    for standstill_s in (20.0, 5.0, 0.0):
        made = Standstill(clock, Waiting)
        with pytest.raises(ApplyFailed), made.counted(server):
            if standstill_s:
                made.begin()
            clock.sleep(standstill_s or 7.0)
            if standstill_s == 5.0:
                made.end()
                clock.sleep(3.0)
            raise ApplyFailed("no new worker")
    assert server.held_s == 1.0 + 20.0 + 5.0


def test_a_look_before_it_counts_nothing() -> None:
    clock = FakeClock()
    made = Standstill(clock, lambda: Waiting(7))
    made.look()
    clock.sleep(1.0)
    assert made.during(3) == 3
    assert made.waited_s == 0.0
