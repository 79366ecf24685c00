"""The figures declare what they need, and the page has those whose needs are met."""

from __future__ import annotations

import html
import math
import re

import pytest

from tests._class_runs import write_guarantee
from tests._stored_runs import Readings, always, whole, write_run
from trimtab import discovery
from trimtab.core import Applied, Domain, How, Knob, Move, MoveState, Objective, Role, Subject, Window
from trimtab.drawing import Figure
from trimtab.records import Plan
from trimtab.report import figures
from trimtab.report.figures import drawn
from trimtab.report.page import render
from trimtab.report.style import Picture, logarithmic
from trimtab.report.text import plain
from trimtab.report.track import Track, tracks
from trimtab.settings import Settings
from trimtab.store import Store

ALL: dict[str, Picture] = {
    name: discovery.load(figures.__name__, name).PICTURE for name in discovery.names(figures.__name__)
}


def knob(name: str, role: Role = Role.OTHER, domain: Domain | None = None) -> Knob:
    return Knob(name, name, "", domain or Domain(0, 500), 1, How.LIVE, "", "", role)


def run_of(store: Store, knobs: tuple[Knob, ...], readings: Readings, objective: Objective | None = None) -> int:
    """A run that moves each of its knobs once."""
    settings = Settings(2.0, math.inf, objective or Objective())
    values = {k.name: 1 for k in knobs}
    writer = store.begin(Plan((), "", (Subject("some"),), knobs, "fuzzy", {}, settings, dict(values)))
    for index in range(2 * len(knobs) + 2):
        writer.window(Window(index, 2.0 * index, 2.0, dict(values), readings, 300))
        if index % 2 and index // 2 < len(knobs):
            moved = {knobs[index // 2].name: 2}
            move, values = Move(moved, "because"), {**values, **moved}
            number = writer.move(index, move, move, MoveState.OPEN)
            writer.outcome(number, MoveState.APPLIED, "", Applied(values, 0.1))
    return writer.run_id


def titles(store: Store, *runs: int) -> list[str]:
    return [plot.title for plot in drawn(tracks(store, runs))]


def test_each_has_a_place_of_its_own() -> None:
    for promised in (True, False):
        positions = [one.position for one in ALL.values() if one.guarantee in (None, promised)]
        assert len(positions) == len(set(positions))


@pytest.mark.parametrize("name", sorted(ALL))
def test_none_is_drawn_of_runs_without_what_it_needs(name: str) -> None:
    one = ALL[name]
    bare = tracks(store := Store(None), [run_of(store, (knob("some"),), {})])
    needs_nothing = not (one.readings or one.any_of or one.role or one.guarantee or one.search)
    assert one.drawable(bare) == needs_nothing == (name == "trajectories")


@pytest.mark.usefixtures("undrawn")
def test_a_reading_more_is_a_figure_more() -> None:
    store, limit = Store(None), (knob("limit", Role.WORKER_LIMIT),)
    first = "What was set, and what came of it"
    assert titles(store, run_of(store, limit, {"response_time_s": 1.0})) == [first]
    assert titles(store, run_of(store, limit, {"response_time_s": 1.0, "cpu_ratio": 0.5})) == [first, "What binds"]
    assert titles(store, run_of(store, limit, whole(1.0))) == [first, "Where the time goes", "What binds"]


@pytest.mark.usefixtures("undrawn")
def test_a_guarantee_has_its_own_and_a_keep_alive_time_beside_other_knobs_too() -> None:
    store = Store(None)
    assert titles(store, write_guarantee(store, "relative"))[:2] == [
        "What each class waited",
        "What each class was given, and what waited",
    ]
    both = (knob("limit", Role.WORKER_LIMIT), knob("time_ms", Role.KEEP_ALIVE))
    seen = {"response_time_s": 1.0, "idle_connections": 3.0, "intervals_50ms@3": 8.0}
    assert titles(store, run_of(store, both, seen))[1:] == ["What idle connections hold", "Request intervals"]
    assert titles(store, run_of(store, both[:1], seen))[1:] == ["What idle connections hold"], "no time is moved"


def test_every_knob_is_drawn_and_stands_in_the_table_with_the_names_of_a_choice() -> None:
    store = Store(None)
    knobs = (*(knob(f"knob_{i}") for i in range(7)), knob("manager", domain=Domain.choice("static", "dynamic", "x")))
    text = render(store, [run_of(store, knobs, {"client_page_time_s": 1.0}, Objective("client_page_time_s"))])
    (picture,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for name in (*(f"knob_{i}" for i in range(7)), "manager", "static", "dynamic", "client page time"):
        assert f"<!-- {name} -->" in picture
    assert "knob_6 2, manager x" in text
    assert "manager dynamic -> x" in html.unescape(text)


def test_a_run_of_all_zeros_can_be_drawn() -> None:
    store = Store(None)
    nothing = {name: 0.0 for name in whole(0.0)}
    found: list[Track] = tracks(store, [run_of(store, (knob("limit", Role.WORKER_LIMIT),), nothing)])
    assert len(drawn(found)) == 3


@pytest.mark.parametrize(("low", "high", "least"), [(0.7, 1.5, 4), (0.01, 100.0, 5)], ids=["narrow", "wide"])
def test_a_logarithmic_scale_can_be_read_however_narrow_it_is(low: float, high: float, least: int) -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [low, high])
    logarithmic(axes, plain)
    figure.draw_without_rendering()
    ticks = [*axes.yaxis.get_major_ticks(), *axes.yaxis.get_minor_ticks()]
    bottom, top = axes.get_ylim()
    labels = [t.label1.get_text() for t in ticks if bottom <= t.get_loc() <= top]
    shown = [label for label in labels if label]
    assert least <= len(shown) <= 15
    assert "1" in shown


def test_only_what_is_drawn_stands_in_the_legend_of_what_idle_connections_hold() -> None:
    store = Store(None)
    (track,) = tracks(store, [write_run(store, "trim", always({**whole(2.0), "idle_held_workers": 3.0}))])
    picture = ALL["idle"].draw([track])
    assert "workers that wait for one" in picture and "idle connections" not in picture


def test_the_time_of_many_windows_is_drawn_in_two_paths() -> None:
    store = Store(None)
    few, many = (run_picture(store, count).count("<path") for count in (10, 200))
    assert many < few + 100, "ticks may be more, bars are not"


def run_picture(store: Store, windows: int) -> str:
    found = tracks(store, [write_run(store, "trim", always(whole(2.0)), windows=windows)])
    return ALL["decomposition"].draw(found)


def test_long_labels_do_not_run_into_one_another() -> None:
    store = Store(None)
    runs = [write_run(store, f"{'a long label ' * 9}{n}", always(whole(2.0)), windows=3) for n in range(6)]
    for one in drawn(tracks(store, runs)):
        assert [name.partition("…")[2][-1] for name in re.findall("<!-- (a l[^>]*) -->", one.svg)] == list("012345")
        assert max(len(name) for name in re.findall("<!-- (a l[^>]*) -->", one.svg)) < 20


@pytest.mark.filterwarnings("error")
def test_a_label_in_letters_that_the_font_has_not_is_drawn_without_a_word() -> None:
    store = Store(None)
    assert drawn(tracks(store, [write_run(store, "試", always(whole(2.0)), windows=3)]))
