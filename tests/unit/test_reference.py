"""docs/reference.md has every option, as README.md says."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab import cli, discovery
from trimtab.core import Move, MoveState, Window
from trimtab.events import Event, MoveDone, Note, NoteKind, WindowDone, to_json

WINDOW, MOVE = Window(0, 0.0, 1.0, {}, {}), Move.hold("nothing to do")
REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"


def parsers() -> Iterator[argparse.ArgumentParser]:
    """Those of all verbs, of what verbs do, and of all plants."""
    for verb in discovery.names("trimtab.cli"):
        _, parser = cli.parser_of(verb)
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.values()
    for plant in discovery.names("trimtab.plants"):
        own = argparse.ArgumentParser(prog=plant, add_help=False)
        discovery.load("trimtab.plants", plant).add_arguments(own.add_argument_group())
        yield own


def test_every_option_of_every_verb_and_plant_stands_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    wanted = {flag for one in parsers() for action in one._actions for flag in action.option_strings}
    assert "--edit-in-place" in wanted and "--best-sellers-cache" in wanted
    assert not [flag for flag in sorted(wanted) if f"  {flag}" not in text and f", {flag}" not in text]


@pytest.mark.parametrize(
    "event",
    [
        WindowDone(WINDOW),
        MoveDone(WINDOW, MOVE, MOVE, MoveState.HELD),
        Note(0.0, NoteKind.PLANT, "a note"),
    ],
    ids=["window", "move", "note"],
)
def test_every_field_of_a_line_of_json_stands_in_the_reference_and_no_other(event: Event) -> None:
    line = to_json(event)
    told = REFERENCE.read_text(encoding="utf-8").partition("## Lines of JSON\n")[2]
    section = told.partition(f"### {line['type']}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    first, _, moves = section.partition("`proposed` and `move` are moves:")
    assert re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE) == list(line)
    if isinstance(event, MoveDone):
        assert re.findall(r"^\| `(\w+)` \|", moves, re.MULTILINE) == list(line["move"])
