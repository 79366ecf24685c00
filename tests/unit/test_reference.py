"""docs/reference.md has every option, as README.md says."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from trimtab import cli, discovery

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
        parser = argparse.ArgumentParser(prog=plant, add_help=False)
        discovery.load("trimtab.plants", plant).add_arguments(parser.add_argument_group())
        yield parser


def test_every_option_of_every_verb_and_plant_stands_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    wanted = {flag for one in parsers() for action in one._actions for flag in action.option_strings}
    assert "--edit-in-place" in wanted and "--best-sellers-cache" in wanted
    assert not [flag for flag in sorted(wanted) if f"  {flag}" not in text and f", {flag}" not in text]
