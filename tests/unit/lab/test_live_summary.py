"""When the memory of a server whose idle processes leave one by one was back, from stored runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests._stored_runs import always, track_of, whole
from trimtab.lab._gated import SPARE_FACT
from trimtab.lab._liu2003_results import live, within_memory
from trimtab.store import Store


@pytest.mark.parametrize(
    ("ratios", "since"),
    [((3.0, 2.0, 0.9, 0.8), 2), ((0.9, 1.0), 0), ((0.9, 2.0), 2), ((3.0, 0.9, 1.1, 0.9), 3)],
    ids=["came back", "always within", "left at the end", "left once more"],
)
def test_memory_is_back_from_the_window_after_the_last_that_was_above(ratios: tuple[float, ...], since: int) -> None:
    track = track_of(Store(None), "trim", lambda i, m: {**whole(0.1), "memory_ratio": ratios[i]}, windows=len(ratios))
    assert [w.index for w in within_memory(track)] == list(range(since, len(ratios)))


def test_memory_that_was_not_measured_is_not_taken_for_back() -> None:
    track = track_of(Store(None), "trim", always({"response_time_s": 0.1}))
    assert within_memory(track) == ()
    assert live({"trim": [track]}, {})[-2] == "| trim | - | - | never | - |"


def test_how_many_idle_processes_the_server_keeps_is_said() -> None:
    track = track_of(Store(None), "trim", always(whole(0.1)))
    assert "a change of M ends idle processes beyond it" in live({"trim": [track]}, {})[0]
    assert "it keeps" not in live({"trim": [track]}, {})[0]
    plan = replace(track.run.plan, host={SPARE_FACT: "5 to 10"})
    told = replace(track, run=replace(track.run, plan=plan))
    assert "lets idle ones go (it keeps 5 to 10), one a second" in live({"trim": [told]}, {})[0]
