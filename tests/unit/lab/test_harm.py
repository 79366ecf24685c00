"""The battery: what a draw is made of, what its runs are, and the page that shows every one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests._curve import NAME, worker_knob
from trimtab.core import Applied, Move, Subject, Window
from trimtab.core.trial import MoveState
from trimtab.errors import TrimtabError
from trimtab.events import Outcome, Status
from trimtab.lab import Arm
from trimtab.lab._applications import urls
from trimtab.lab._drawn import SERVER_LIMIT, Drawn, fixed_workers, hurried
from trimtab.lab._engine import Made, _plan, _record
from trimtab.lab._harm_results import outcomes
from trimtab.lab._results import by_part, write_results
from trimtab.lab._scenario import draw
from trimtab.lab.harm import AGAIN, ALONE, LAB, ONE, OTHERS, PART, TRIM, arms, with_peers
from trimtab.report.track import tracks
from trimtab.store import Store
from trimtab.testbed.content import dynamic_url
from trimtab.workloads._population import Closed

SEEDS = range(1, 100)


def bed(arm: Arm) -> Drawn:
    assert isinstance(arm.bed, Drawn)
    return arm.bed


@pytest.mark.parametrize("seed", range(1, 20))
def test_a_draw_is_left_alone_twice_tuned_and_held_at_its_fixed_settings(seed: int) -> None:
    found = arms(PART, seed)
    labels = [a.label for a in found]
    assert labels[:3] == [ONE, ALONE, TRIM], "what a request costs is known before the rate that follows from it"
    assert labels[-1] == AGAIN, "the noise of the machine over the whole draw"
    fixed = [a for a in found if a.label.endswith(" fixed")]
    assert 3 <= len(fixed) <= 4 and all(a.controller == "static" for a in fixed)
    assert [bed(a).workers for a in fixed] == fixed_workers(hurried(seed))
    peers = arms(OTHERS, seed)
    assert {"fuzzy", "saturation", "nelder-mead"} <= {a.label for a in peers} if with_peers(seed) else not peers
    scenarios = {bed(a).scenario for a in (*found, *peers)}
    assert scenarios == {hurried(seed)}, "the same server and clients in all of them"


def test_the_peers_run_on_about_half_of_the_draws() -> None:
    assert 35 <= sum(map(with_peers, SEEDS)) <= 64


def test_every_draw_can_be_configured_on_a_real_server() -> None:
    """Specifications refuse what cannot work."""
    for seed in SEEDS:
        for arm in arms(PART, seed):
            spec, pool = bed(arm).spec(), bed(arm).pool()
            assert 1 <= pool.start_servers <= pool.max_children <= SERVER_LIMIT
            assert spec.php == (bed(arm).scenario.php == "module")
            assert bed(arm).clients(50.0)


def test_one_client_asks_without_a_thought_and_at_no_other_rate() -> None:
    (population,) = bed(arms(PART, 1)[0]).clients(10.0)
    assert population.arrivals == Closed(1)
    assert population.schedule == ()


def test_what_a_page_costs_is_in_its_address_and_an_application_has_pages_of_its_own() -> None:
    page = next(hurried(s) for s in SEEDS if draw(s).application == "page" and draw(s).lock_ratio)
    (url,) = urls(page)
    assert f"cpu_us={round(page.cpu_s * 1e6)}&" in url.path
    assert f"lock_percent={round(100 * page.lock_ratio)}&cold_kb=" in url.path
    for name in ("dokuwiki", "mediawiki"):
        found = urls(next(hurried(s) for s in SEEDS if draw(s).application == name))
        assert len(found) == 20 and found[0].weight == 1 and found[9].weight == pytest.approx(0.1)
    assert dynamic_url(1, 2) == "/dynamic.php?cpu_us=1&memory_kb=2", "as before for who asks for no more"


def stored(store: Store, arm: Arm, waiting: float, later: float, changes: bool = True, **more: float) -> int:
    """A run whose clients wait evenly in each half; trim changes something in its first window."""
    writer = store.begin(_plan(arm, (Subject("apache"),), (worker_knob(maximum=512),)))
    for index in range(8):
        readings = {"client_outstanding_requests": waiting if index < 4 else later, **more}
        writer.window(Window(index, 2.0 * index, 2.0, {NAME: 150}, readings, 10, ()))
    if arm.label == TRIM and changes:
        move = Move({NAME: 100}, "tried")
        writer.outcome(writer.move(0, move, move, MoveState.OPEN), MoveState.APPLIED, "", Applied({NAME: 100}, 0.1))
    writer.finish(Outcome(Status.DONE, "", 8, False))
    return writer.run_id


def drawn(
    store: Store, seed: int, levels: Mapping[str, tuple[float, float]], otherwise: tuple[float, float]
) -> list[int]:
    """All runs of a draw with what is given by label."""
    found = [arm for arm in arms(PART, seed) if arm.label != ONE]
    return [stored(store, arm, *levels.get(arm.label, otherwise)) for arm in found]


@pytest.mark.parametrize(
    ("trim", "again", "verdict"),
    [
        ((1.0, 1.0), (1.0, 1.0), "not told apart"),
        ((1.0, 1.15), (1.0, 1.0), "not told apart"),
        ((1.0, 1.4), (1.0, 1.0), "worse"),
        ((1.0, 2.0), (1.0, 1.8), "not told apart"),
        ((1.0, 0.2), (1.0, 1.0), "better"),
    ],
    ids=["equal", "within 10 %", "beyond it", "within what two runs differ by", "better"],
)
def test_a_verdict_is_on_all_that_clients_waited_and_beyond_the_noise(
    trim: tuple[float, float], again: tuple[float, float], verdict: str
) -> None:
    store = Store(None)
    ids = drawn(store, 7, {TRIM: trim, ALONE: (1.0, 1.0), AGAIN: again}, (2.0, 0.5))
    (one,) = outcomes(by_part(tracks(store, ids))[PART])
    assert one.verdict == verdict
    assert one.best.endswith(" fixed"), "in the second half"
    assert one.missed == pytest.approx(trim[1] / 0.5)


def test_where_trim_changed_nothing_the_server_was_left_alone_whatever_the_machine_did() -> None:
    store = Store(None)
    found = [arm for arm in arms(PART, 7) if arm.label != ONE]
    level = {TRIM: 3.0}
    ids = [stored(store, arm, level.get(arm.label, 1.0), level.get(arm.label, 1.0), changes=False) for arm in found]
    (one,) = outcomes(by_part(tracks(store, ids))[PART])
    assert one.verdict == "left alone"
    assert one.ratio(TRIM) == pytest.approx(3.0), "and shown as it came out"
    assert one.noise == pytest.approx(3.0), "it is one more run that was left alone"


def test_the_page_shows_every_draw_and_why_one_failed(tmp_path: Path) -> None:
    store = Store(None)
    ids = drawn(store, 7, {TRIM: (1.0, 0.3)}, (1.0, 1.0))
    lost = next(arm for arm in arms(PART, 8) if arm.label == TRIM)
    ids += [stored(store, arm, 1.0, 1.0) for arm in arms(PART, 8) if arm.label not in (ONE, TRIM)]
    ids.append(_record(lost, store, {}, "apache2 did not start: out of memory"))
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    assert "Draws: 2; 0 left alone, 1 better, 0 not told apart, 0 worse, 1 failed, 0 not judged." in text
    assert any(line.startswith("| 7 | ") and line.endswith("| better |") for line in text.splitlines())
    assert any(line.startswith("| 8 | ") and line.endswith("| failed |") for line in text.splitlines())
    assert "| 8 | trim | apache2 did not start: out of memory |" in text
    assert "mathdefault" not in (tmp_path / "ratios.svg").read_text(), "a scale that a person reads"


def test_a_draw_without_fixed_settings_compares_its_methods_and_has_no_verdict(tmp_path: Path) -> None:
    store = Store(None)
    level = {ALONE: 2.0, TRIM: 1.0, "tpe": 6.0}
    found = (*arms(PART, 6), *arms(OTHERS, 6))
    assert any(arm.label == "tpe" for arm in found), "a draw with peers"
    ids = [stored(store, arm, level[arm.label], level[arm.label]) for arm in found if arm.label in level]
    write_results(LAB, tmp_path, store, ids)
    text = (tmp_path / "summary.md").read_text()
    assert "Draws: 1; 0 left alone, 0 better, 0 not told apart, 0 worse, 0 failed, 1 not judged." in text
    assert "| tpe | 1 | 3.00 | 0.50 | 3.00 | 3.00 |" in text


def test_what_a_draw_asks_for_is_a_share_of_what_its_server_can_do() -> None:
    """Twice the CPU time of a request, half the rate."""
    rates = []
    for cpu_ratio in (0.2, 0.4):
        store = Store(None)
        one, alone, *_ = arms(PART, 6)
        run_id = stored(store, one, 1.0, 1.0, client_request_rate_hz=10.0, cpu_ratio=cpu_ratio)
        made = Made(store, {(PART, ONE, 6, one.digest()): run_id})
        assert alone.resolved is not None
        known = alone.resolved(alone, made)
        assert known.digest() != alone.digest(), "it is stored under what was declared, not under what was measured"
        assert bed(known).request_s == pytest.approx(cpu_ratio / 10)
        rates.append(getattr(bed(known).clients(50.0)[0].arrivals, "rate_hz", 0.0))
    assert rates[0] == pytest.approx(2 * rates[1]) and rates[1] > 0
    with pytest.raises(TrimtabError, match="is needed and has not been run"):
        replace(alone).resolved(alone, Made(Store(None)))  # type: ignore[misc]
