"""The report as a page: renders from whatever is stored, says what is so, and needs no network."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from tests._curve import NAME
from tests._stored_runs import always, whole, write_run
from trimtab.core.trial import MoveState
from trimtab.events import Status
from trimtab.report.page import _changes, render
from trimtab.report.track import tracks
from trimtab.store import Store

HOSTILE = '<script>alert("$x_{$")</script>--><img src=x onerror=alert(1)> \' & {{ 7 * 7 }}'


def tuned(store: Store, label: str = "trim", **more: object) -> int:
    """A run that gets ten times better after its third window."""
    return write_run(
        store,
        label,
        lambda i, m: whole(2.0 if m == 150 else 0.2),
        moves=[(2, 40, MoveState.APPLIED)],
        **more,  # type: ignore[arg-type]
    )


def compared(store: Store) -> list[int]:
    """A baseline and a tuned run, three repeats each."""
    base = [write_run(store, "as shipped", always(whole(2.0 + 0.1 * s)), seed=s) for s in (1, 2, 3)]
    return base + [write_run(store, "trim", always(whole(0.2 + 0.01 * s)), seed=s) for s in (1, 2, 3)]


class Page(HTMLParser):
    """The tags of a page and the ids in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def pictures(text: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", text, re.DOTALL)


def check(text: str) -> None:
    """What holds for every page."""
    page = Page(text)
    names = [name for name, _ in page.tags]
    assert not {"script", "iframe", "link", "object", "img", "base"} & set(names)
    for _, attributes in page.tags:
        for key, value in attributes.items():
            assert not key.startswith("on"), f"an event handler {key}"
            if key in ("src", "href", "xlink:href", "action", "data"):
                assert value is not None and value.startswith("#"), value
    assert not re.search(r"url\((?!['\"]?#)|@import", text)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids)), "two elements of one id"
    for picture in pictures(text):
        root = ElementTree.fromstring(picture)
        inside = {e.get("id") for e in root.iter()}
        links = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', picture)
        assert links
        assert all((a or b) in inside for a, b in links), "a reference out of its own figure"


def test_one_run(store: Store) -> None:
    text = render(store, [tuned(store)])
    check(text)
    assert re.search(r"Response time is 8\.\d+ times better at the end of the run than at its start", text)
    assert len(pictures(text)) == 3
    assert "max_request_workers 150 -&gt; 40" in text and "more fit" in text and "applied in 250 ms" in text


def test_a_baseline_against_three_repeats(store: Store) -> None:
    text = render(store, compared(store), title="A comparison")
    check(text)
    assert "<title>A comparison" in text
    assert re.search(r"Response time is 10 times better with trim than with as shipped \(95 % interval", text)
    assert "No improvement" not in text
    assert "1, 2, 3, 1, 2, 3" in text, "the seeds"


@pytest.mark.usefixtures("undrawn")
def test_no_improvement_is_said_on_the_page(store: Store) -> None:
    ids = [write_run(store, name, always(whole(1.0 + s))) for name in "ab" for s in (1, 2, 3)]
    text = render(store, ids)
    assert "No improvement shown: response time with b is 1 times as good as with a" in text
    assert 'class="headline"' in text, "and not in green"


def test_nothing_was_changed_is_said(store: Store) -> None:
    text = render(store, [write_run(store, "static", lambda i, m: whole(1.0))])
    check(text)
    assert "Nothing was changed" in text


def test_missing_readings_are_gaps_and_not_zeros(store: Store) -> None:
    def at(index: int, m: int) -> dict[str, float]:
        readings = whole(1.0)
        kept = sorted(readings)[index % 3 :: 3] if index != 4 else []
        return {n: readings[n] for n in kept if n != "service_time_s"}

    text = render(store, [write_run(store, "x", at, problems=("accept queue: no permission to read",))])
    check(text)
    assert "<td>10</td><td>accept queue: no permission to read</td>" in text


def test_what_only_one_of_two_measured_is_named_so(store: Store) -> None:
    with_cpu = write_run(store, "a", lambda i, m: {"response_time_s": 1.0, "cpu_ratio": 0.5})
    text = render(store, [with_cpu, write_run(store, "b", lambda i, m: {"response_time_s": 0.5})])
    check(text)
    assert "<td>0.5</td><td>not measured</td>" in text


def test_nothing_measured_at_all(store: Store) -> None:
    text = render(store, [write_run(store, "x", lambda i, m: {}), write_run(store, "y", lambda i, m: {})])
    check(text)
    assert "nothing can be said" in text


def test_a_baseline_that_measured_nothing(store: Store) -> None:
    silent = write_run(store, "base", lambda i, m: {})
    text = render(store, [silent, write_run(store, "trim", lambda i, m: whole(1.0))])
    check(text)
    assert "nothing can be said" in text


def test_a_run_without_windows(store: Store) -> None:
    text = render(store, [write_run(store, "x", lambda i, m: {}, windows=0)])
    check(text)
    assert not pictures(text)
    assert "Nothing was changed" in text


def test_a_baseline_beside_a_run_without_windows(store: Store) -> None:
    empty = write_run(store, "trim", lambda i, m: {}, windows=0)
    text = render(store, [write_run(store, "base", lambda i, m: whole(1.0)), empty])
    check(text)
    assert "nothing can be said" in text


@pytest.mark.usefixtures("undrawn")
def test_a_label_that_measured_nothing_stands_in_the_table_and_the_headline(store: Store) -> None:
    base, good = (write_run(store, label, always(whole(s))) for label, s in (("base", 2.0), ("good", 1.0)))
    lost = [write_run(store, "lost", always({})), write_run(store, "lost", always({}), windows=0)]
    text = render(store, [base, good, *lost, write_run(store, "good", always({}))])
    assert "<td>lost</td><td>0 of 2</td><td>not measured</td>" in text
    assert "<td>good</td><td>1 of 2</td>" in text
    assert "nothing can be said of lost, where response_time_s was not measured above 0" in text


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_failed_is_said_to_have_failed_and_why(store: Store) -> None:
    good = write_run(store, "base", always(whole(1.0)))
    bad = write_run(store, "trim", always(whole(1.0)), outcome=(Status.FAILED, "the server <is> gone"))
    text = render(store, [good, bad])
    assert f"<td>run {bad}</td><td>failed: the server &lt;is&gt; gone</td>" in text
    assert f"<td>run {good}</td>" not in text


def test_a_move_left_open_is_named_so(store: Store) -> None:
    run = write_run(store, "x", lambda i, m: whole(1.0), moves=[(9, 40, MoveState.OPEN)])
    text = render(store, [run])
    check(text)
    assert "left open: trimtab ended here" in text


def test_hostile_text_stays_text(store: Store) -> None:
    run = tuned(store, label=HOSTILE, reason=HOSTILE, notes=[HOSTILE], problems=(HOSTILE,), controller=HOSTILE)
    other = tuned(store, label="b")
    text = render(store, [run, other], title=HOSTILE)
    check(text)
    assert "<script>" not in text and "<img" not in text and "49" not in re.findall(r"<title>.*?</title>", text)[0]
    assert "&lt;script&gt;" in text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("plants", [("apache",), ("simulated",), ("apache", "simulated")])
def test_the_simulated_banner_stands_if_and_only_if_a_run_was_simulated(
    store: Store, plants: tuple[str, ...]
) -> None:
    text = render(store, [tuned(store, label=plant, plant=plant) for plant in plants])
    assert ("<strong>Simulated.</strong>" in text) == ("simulated" in plants)


def test_the_same_runs_give_the_same_page(store: Store) -> None:
    run = tuned(store)
    assert render(store, [run]) == render(store, [run])


def test_a_change_is_told_as_far_as_rules_among_the_knobs_have_let_it_come(store: Store) -> None:
    (track,) = tracks(store, [tuned(store)])
    (move,) = track.applied()
    reached = replace(move, configuration={NAME: 44}, detail="40 is less than 44")
    table = _changes(replace(track, moves=(reached,)))
    assert table.rows[0][1] == f"{NAME} 150 -> 44"
