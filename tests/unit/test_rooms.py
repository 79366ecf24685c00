"""Walls of the house that a machine can see."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests import _imports, _knob_names
from trimtab import discovery

PLANTS = "trimtab.plants"
KNOBS = _knob_names.names()
SERVERS = ("plants", "lab", "testbed")
"""Rooms that know single servers; of these, `testbed` knows none of their knobs."""
PURE = (
    *("core", "controllers", "referee", "guard", "search", "design", "identification", "queueing", "experiments"),
    *("decision", "trials", "replay", "guarantee", "settings"),
)
"""What decides: no effects and no clock."""
KEPT = ("store", "schema", "records", "codec", "events", "processes")
"""What keeps a run; it knows of no server."""
EFFECTS = (
    *("loop", "observer", "identify", "store", "report", "drawing", "native", "processes", "load", "launcher"),
    *("plants", "sensors", "testbed", "gate", "lab", "cli", "time", "datetime", "socket", "subprocess"),
)
WALLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PURE, (*EFFECTS, "files", "os", "pathlib")),
    **dict.fromkeys(KEPT, ("plants", "testbed", "gate", "lab", "cli", "report", "loop", "sensors")),
    **dict.fromkeys(
        ("loop", "observer"), ("plants", "sensors", "controllers", "testbed", "gate", "report", "lab", "cli")
    ),
    **dict.fromkeys(
        ("sensors", "gate"), ("plants", "controllers", "testbed", "loop", "store", "report", "lab", "cli")
    ),
    **dict.fromkeys(("design", "referee"), (*EFFECTS, "files", "os", "pathlib", "controllers")),
    "core": (*EFFECTS, "files", "os", "pathlib", "random", "controllers", "metrics", "discovery", "codec"),
    # Its models are kept in files.
    "identification": (*EFFECTS, "controllers"),
    "workloads": ("plants", "sensors", "testbed", "loop", "store", "report", "cli"),
    "plants": ("loop", "decision", "store", "lab", "cli"),
    "report": ("plants", "testbed", "loop", "lab", "cli"),
    "lab": ("cli",),
}
"""Room to what it may not lead to, of trimtab and of Python, through however many modules."""


def inside(module: str, *rooms: str) -> bool:
    """Whether a module is one of these rooms, or in one."""
    return any(f"{module}.".startswith((f"trimtab.{room}.", f"{room}.")) for room in rooms)


def outside_the_servers() -> Iterator[str]:
    """The modules that know no server."""
    return (module for module in _imports.modules() if not inside(module, *SERVERS))


def text_of(module: str) -> str:
    return _imports.modules()[module].read_text(encoding="utf-8")


@pytest.mark.parametrize("room", WALLS)
def test_a_room_leads_to_nothing_that_it_is_not_to_know(room: str) -> None:
    there = [module for module in _imports.modules() if inside(module, room)]
    assert there
    ways = [way for module in there for name, way in _imports.reached(module).items() if inside(name, *WALLS[room])]
    assert sorted({" > ".join(way) for way in ways}) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from trimtab import store", {"trimtab", "trimtab.store"}),
        ("import trimtab.store as kept", {"trimtab.store"}),
        ("from trimtab.store import Store", {"trimtab.store"}),
        ("from ..plants import squid", {"trimtab.plants", "trimtab.plants.squid"}),
        ("def later():\n    from trimtab import store", {"trimtab", "trimtab.store"}),
        ("if TYPE_CHECKING:\n    from trimtab import store\nelse:\n    import os", {"os"}),
    ],
)
def test_every_form_of_an_import_is_seen_but_that_for_types_alone(text: str, found: set[str]) -> None:
    assert set(_imports.found_in(text, "trimtab.core.knob")) == found


def test_a_package_leads_to_its_own_parts_and_a_part_to_the_packages_above_it() -> None:
    assert set(_imports.found_in("from . import knob", "trimtab.core", package=True)) == {
        "trimtab.core",
        "trimtab.core.knob",
    }
    assert _imports.reached("trimtab.core.finding").keys() >= {"__future__", "dataclasses"}
    assert _imports.reached("trimtab.settings")["trimtab.core"] == ("trimtab.settings", "trimtab.core")


def test_only_the_lab_and_private_servers_know_a_plant_from_outside() -> None:
    found = {
        module: {one for one in _imports.imported(module) if inside(one, "plants")}
        for module in outside_the_servers()
    }
    assert {module: sorted(plants) for module, plants in found.items() if plants} == {}
    beds = {one for bed in _imports.modules() if inside(bed, "testbed") for one in _imports.imported(bed)}
    assert {
        one for one in beds if re.fullmatch(rf"{PLANTS}\.\w+(\..+)?", one) and not one.endswith(".private")
    } == set()


def test_only_private_servers_and_the_verbs_about_them_know_the_testbed() -> None:
    users = {m for m in _imports.modules() if any(inside(one, "testbed") for one in _imports.imported(m))}
    product = {m for m in users if not inside(m, "lab", "testbed")}
    starters = {m for m in product if re.fullmatch(rf"{PLANTS}\.\w+(\.private)?", m)}
    assert product - starters == {"trimtab.cli.lab", "trimtab.cli._up"}


def test_no_verb_and_no_report_asks_for_a_plant_by_its_name() -> None:
    known = set(discovery.names(PLANTS))
    found = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module in outside_the_servers()
        for node in ast.walk(ast.parse(text_of(module)))
        if isinstance(node, ast.Compare)
        and any(isinstance(one, ast.Constant) and one.value in known for one in (node.left, *node.comparators))
    ]
    assert found == []


def named_in(text: str, knobs: frozenset[str], whole: bool = False) -> list[str]:
    """The knobs that the strings of a text name, docstrings aside, behind a tier and before a class too.

    Args:
        text: a module's.
        knobs: their names.
        whole: only where the name is the whole string, as one that is a single word counts anyhow.
    """
    tree = ast.parse(text)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    words = {name: re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9_])") for name in knobs}
    return [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
        for name in sorted(knobs)
        if name == _knob_names.bare(node.value) or ("_" in name and not whole and words[name].search(node.value))
    ]


def test_no_knob_is_known_by_its_name_outside_the_plants_and_the_lab() -> None:
    """A private server's file holds directives, which some knobs are called after; nothing there reads a knob."""
    rest = [module for module in _imports.modules() if not inside(module, "plants", "lab")]
    found = {module: named_in(text_of(module), KNOBS, whole=inside(module, "testbed")) for module in rest}
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_each_knob_would_be_found_whole_behind_a_tier_and_before_a_class(name: str) -> None:
    knobs = frozenset({name})
    for written in (name, f"app.{name}", f"{name}@8080", f"web2:nginx.{name}"):
        assert named_in(f"value = configuration[{written!r}]", knobs) == [name]
    assert named_in(f'value = configuration[f"{{tier}}.{name}"]', knobs) == [name]
    assert named_in(f'"""{name}"""\nclass A:\n    """Of {name}."""\n    {name}: int = 0', knobs) == []


def test_a_word_of_everyday_is_a_knob_only_where_it_is_the_whole_string() -> None:
    assert named_in('a = "at 3 pm", "pm.max"', frozenset({"pm"})) == []
    assert named_in('a = "max_children=4,pm"', frozenset({"pm", "max_children"})) == ["max_children"]
    assert named_in('a = "max_children 4", "max_children"', frozenset({"max_children"}), whole=True) == [
        "max_children"
    ]


def test_every_knob_is_declared_where_this_sees_it() -> None:
    found = {one.__name__: _knob_names.unseen(inspect.getsource(one), one) for one in _knob_names.modules()}
    assert {module: lines for module, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('Knob("a_b", 1)', True),
        ("Knob(name=PLANTS, unit=1)", True),
        ("core.Knob(of_class(PLANTS, label))", True),
        ("Knob(name, row.unit, row.role)", True),
        ("Knob(name, unit, role)", False),
        ('core.Knob(f"{prefix}_size", unit, Role.CACHE)', False),
        ("[Knob(name=one) for one in table]", False),
    ],
)
def test_a_knob_whose_name_is_put_together_out_of_sight_is_told(text: str, seen: bool) -> None:
    assert bool(_knob_names.unseen(text, sys.modules[__name__])) is not seen
