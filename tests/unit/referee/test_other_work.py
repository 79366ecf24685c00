"""Where requests fail fast nothing is gained by it: more workers than a database takes, say."""

from __future__ import annotations

import pytest

from tests.unit.referee.test_rule import Bench
from trimtab.core import Move, Verdict


def more_workers(cpu_ratio: float = 0.2, byte_rate_bytes_hz: float = 500_000.0, cost_s: float = 0.004) -> Bench:
    """A server with time to spare that answers in a fifth of the time once 300 workers may be there."""
    bench = Bench().see(12, byte_rate_bytes_hz=500_000.0).change(w=300)
    return bench.see(4, cost_s, cpu_ratio=cpu_ratio, byte_rate_bytes_hz=byte_rate_bytes_hz)


def test_more_workers_with_which_the_same_work_is_done_faster_are_better() -> None:
    assert more_workers().state.incumbent["w"] == 300


@pytest.mark.parametrize(
    ("cpu_ratio", "byte_rate_bytes_hz", "what"),
    [(0.02, 500_000.0, "CPU"), (0.2, 20_000.0, "bytes"), (0.2, 350_000.0, "bytes")],  # the last: a third of them fail
)
def test_what_is_faster_because_a_request_has_far_less_in_it_goes_back(
    cpu_ratio: float, byte_rate_bytes_hz: float, what: str
) -> None:
    bench = Bench().see(12, byte_rate_bytes_hz=500_000.0).change(w=300)
    for _ in range(4):
        bench.see(1, 0.004, cpu_ratio=cpu_ratio, byte_rate_bytes_hz=byte_rate_bytes_hz)
        if bench.backs:
            break
    assert bench.backs == [{"w": 150}]
    judged = bench.state.judgement
    assert judged.verdict is Verdict.UNMEASURED
    assert f"times the {what} that it had" in judged.why


@pytest.mark.parametrize(("sent", "kept"), [((500_000.0, 500_000.0), 150), ((400_000.0, 600_000.0), 300)])
def test_that_a_request_sends_less_says_something_only_beyond_what_it_varied_by(
    sent: tuple[float, float], kept: int
) -> None:
    bench = Bench()
    for window in range(12):
        bench.see(1, byte_rate_bytes_hz=sent[window % 2])
    bench.change(w=300).see(2, 0.004, byte_rate_bytes_hz=350_000.0)
    for _ in range(2):
        bench.see(1, 0.004 if bench.values["w"] == 300 else None, byte_rate_bytes_hz=350_000.0)
    assert (bench.values["w"], bench.state.incumbent["w"]) == (kept, kept)


def test_an_overloaded_server_that_completes_more_with_nothing_in_it_has_gained_nothing() -> None:
    for each_bytes, kept in ((10_000.0, 300), (300.0, 150)):
        bench = Bench().see(12, byte_rate_bytes_hz=500_000.0)
        for window in range(12):
            rate_hz, bytes_of_one = (50.0, 10_000.0) if window < 6 else (90.0, each_bytes)
            readings = {"request_rate_hz": rate_hz, "byte_rate_bytes_hz": rate_hz * bytes_of_one}
            bench.see(1, accept_queue_length=100.0 + 150 * window, **readings)
            if window == 5:
                assert bench.state.overloaded
                bench.change(w=300)
        assert bench.state.incumbent["w"] == bench.values["w"] == kept


def test_fewer_workers_that_swap_no_more_and_so_take_less_cpu_are_better() -> None:
    bench = Bench().see(12, cpu_ratio=0.6).change(w=40).see(4, 0.004, cpu_ratio=0.2)
    assert bench.state.incumbent["w"] == 40


def test_a_shorter_keep_alive_time_lets_in_more_too() -> None:
    for sent, back in ((500_000.0, []), (350_000.0, [{"k": 5000}])):
        bench = Bench().see(12, byte_rate_bytes_hz=500_000.0).change(k=1250)
        for _ in range(4):
            bench.see(1, 0.004, byte_rate_bytes_hz=sent)
            if bench.backs:
                break
        assert bench.backs == back


@pytest.mark.parametrize(
    ("before_hz", "since_hz", "back"),
    [
        ([0.0], [8.0, 8.0], True),
        ([0.0], [0.4, 0.0], False),
        ([0.2], [0.6, 0.6], False),  # chance
        ([5.0], [7.0, 7.0], False),  # by less than half more
        ([0.0], [16.0, 0.0], False),  # of one window
        ([0.0, 10.0], [20.0, 20.0], True),
        ([0.0], [0.0, 16.0], False),
    ],
)
def test_what_answers_more_requests_with_errors_goes_back_though_they_are_as_large_and_take_a_fifth_of_the_time(
    before_hz: list[float], since_hz: list[float], back: bool
) -> None:
    bench = Bench()
    for window in range(12):
        bench.see(1, error_rate_hz=before_hz[window % len(before_hz)])
    bench.change(w=300)
    for window in range(4):
        bench.see(1, 0.004, error_rate_hz=since_hz[window % 2])
        if bench.backs:
            break
    assert bench.backs == ([{"w": 150}] if back else [])
    if back:
        assert bench.state.judgement.verdict is Verdict.WORSE
        assert "of the requests fail" in bench.state.judgement.why


def test_errors_that_are_not_counted_since_say_nothing_of_a_change() -> None:
    bench = Bench().see(12, error_rate_hz=0.0).change(w=300).see(4, 0.004)
    assert bench.state.incumbent["w"] == 300


def failed(bench: Bench, **after: float) -> Bench:
    """Back from more workers, of whose requests a sixth had failed, with three windows of before."""
    bench.see(12, error_rate_hz=0.0).change(w=300).see(2, 0.004, error_rate_hz=8.0)
    assert bench.backs == [{"w": 150}]
    return bench.see(4, **after)


MORE = Move({"w": 300}, "connections wait", gain=0.9, capacity=2.0)


def test_a_way_after_which_requests_failed_stays_closed_though_an_overload_begins_and_the_load_changes() -> None:
    bench = failed(Bench(), error_rate_hz=0.0)
    assert ("w", 1) in bench.state.closed
    bench.see(180, error_rate_hz=0.0)
    bench.see(180, error_rate_hz=0.0, request_rate_hz=100.0, connection_rate_hz=50.0)
    assert ("w", 1) not in bench.state.refuted
    assert "tried on this workload" in bench.asked(MORE).reason
    for queue in (200.0, 500.0, 900.0):
        bench.see(1, 5.0, accept_queue_length=queue, error_rate_hz=0.0)
    assert bench.state.overloaded
    assert "tried on this workload" in bench.asked(MORE).reason


def test_where_as_many_fail_once_the_change_is_taken_back_it_was_not_to_blame() -> None:
    assert not failed(Bench(), error_rate_hz=8.0).state.barred


def test_a_window_in_which_requests_still_fail_is_cut_short() -> None:
    bench = Bench().see(12, error_rate_hz=0.0).change(w=300)
    partial = bench.window(0.004, error_rate_hz=8.0)
    assert not bench.judge.abort(bench.state, partial), "those may be the reload's"
    bench.state, back = bench.judge.judge(bench.state, partial)
    assert not back
    assert "of the requests fail" in bench.judge.abort(bench.state, bench.window(0.004, error_rate_hz=8.0))
    assert not bench.judge.abort(bench.state, bench.window(0.004, error_rate_hz=0.0))


def test_up_to_where_none_failed_the_way_is_open() -> None:
    bench = failed(Bench(), error_rate_hz=0.0).change(w=60).see(180, 0.004, error_rate_hz=0.0)
    assert bench.state.incumbent["w"] == 60
    assert ("w", 1) not in bench.state.closed
    move = bench.asked(MORE)
    assert move.changes == {"w": 150}
    assert "requests have failed" in move.reason
    bench.change(w=150).see(180, 0.002, error_rate_hz=0.0)
    assert bench.state.incumbent["w"] == 150
    assert "tried on this workload" in bench.asked(MORE).reason
