"""The pages' command lines are ones that trimtab takes, and the files that they show ones that it reads."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import pytest

from trimtab import cli, discovery
from trimtab.cli import lab, tune
from trimtab.cli._plant import chosen_controller, chosen_objective, defaults_of
from trimtab.cli._search import chosen_search, searching
from trimtab.core import PlantDefaults
from trimtab.errors import UsageError
from trimtab.gate import spec
from trimtab.lab import chosen
from trimtab.plants.stack import description, keys
from trimtab.settings import Mode

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.service")),
]
PLACEHOLDER = {"ID": "1", "N": "1", "PID": "1"}
"""Words for a number that a reader fills in; FILE and FOLDER are names as good as any."""
COMMAND = re.compile(r"\s*(?:\$ |ExecStart=|example: )?(?:\S*/)?trimtab ([a-z].*)")
VERBS = discovery.names("trimtab.cli")
ENDS = (";", "|", "&&", ">", "&")
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command line of a page.

    Args:
        where: page and line.
        words: what follows the program's name.
        whole: whether it is one to be typed, and not only named in a sentence.
    """

    where: str
    words: tuple[str, ...]
    whole: bool


def shown() -> Iterator[Shown]:
    """All of them."""
    for page in PAGES:
        fenced = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```"):
                fenced = not fenced
                continue
            where = f"{page.relative_to(ROOT)}:{number}"
            typed = fenced or line.startswith(("    ", "example: ", "ExecStart="))
            if typed and (found := COMMAND.match(line)):
                text = words(found[1])
                if page.name != "reference.md" or text[0] in VERBS:  # its help texts are wrapped anywhere
                    yield Shown(where, text, True)
            elif not typed:
                for named in re.findall(r"`(trimtab [a-z][^`]*)`", line):
                    yield Shown(where, words(named.removeprefix("trimtab ")), False)


def words(text: str) -> tuple[str, ...]:
    """The words of a command, as the shell takes them, without what follows it."""
    found = takewhile(lambda word: word not in ENDS, shlex.split(text, comments=True))
    return tuple(PLACEHOLDER.get(word, word) for word in found)


ALL = list(shown())


def test_there_are_commands_on_the_pages() -> None:
    assert sum(one.whole for one in ALL) > 80 and len(ALL) > 150
    assert {one.words[0] for one in ALL} >= set(VERBS)


@pytest.mark.parametrize("one", [one for one in ALL if one.whole], ids=lambda one: f"{one.where} {one.words[0]}")
def test_a_command_that_is_to_be_typed_is_taken(one: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (stack,) = TOML.findall((ROOT / "docs" / "stack.md").read_text(encoding="utf-8"))
    for name in ("stack.toml", "shop.toml"):
        (tmp_path / name).write_text(stack, encoding="utf-8")
        (tmp_path / name).chmod(0o600)
    monkeypatch.chdir(tmp_path)
    module, args = cli.parsed(one.words)
    assert module.__name__ == f"{cli.ROOM}.{one.words[0].replace('-', '_')}"
    if module is tune:
        require_tunable(args)
    if module is lab and args.action in ("run", "write"):
        declared = discovery.load(lab.ROOM, args.experiment).LAB
        if args.action == "run":
            chosen(declared.parts, args.part)
            lab.numbers("--seeds", args.seeds)


def require_tunable(args: argparse.Namespace) -> None:
    """Makes sure of what a run of `tune` refuses before it looks at a server."""
    usual: PlantDefaults = defaults_of(args)
    search = chosen_search(args, usual)
    objective = tune._settings(args, usual, search).objective
    assert objective == chosen_objective(args)
    name = args.controller or usual.controller
    controller = chosen_controller(name, objective, args.option)
    searching(controller, search, name, args.remeasure is not None, Mode(args.mode))


@pytest.mark.parametrize("one", [one for one in ALL if not one.whole], ids=lambda one: f"{one.where} {one.words[0]}")
def test_a_command_in_a_sentence_names_a_verb_and_options_that_there_are(one: Shown) -> None:
    """It may leave out what the command needs, and have a word in capitals in the place of a name."""
    verb, rest = one.words[0], [word for word in takewhile(lambda word: word != "--", one.words[1:])]
    named = [word for word in rest if not word.isupper()]
    module, parser = parser_of(verb, named)
    parsers: list[argparse.ArgumentParser] = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers += [action.choices[named[0]]] if named else action.choices.values()
    known = {flag for parser in parsers for action in parser._actions for flag in action.option_strings}
    assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= known
    assert module.__doc__


def parser_of(verb: str, rest: list[str]) -> tuple[ModuleType, argparse.ArgumentParser]:
    """A verb's parser, with the options of the plant that is named."""
    try:
        return cli.parser_of(verb, rest)
    except UsageError:
        return cli.parser_of(verb)


def test_the_file_of_a_stack_is_one_that_is_read() -> None:
    (text,) = TOML.findall((ROOT / "docs" / "stack.md").read_text(encoding="utf-8"))
    found = description.parse(text, "stack.toml")
    assert len(found.tiers) > 1
    for tier, table in found.tiers.items():
        given = dict(table)
        plant = discovery.load("trimtab.plants", str(given.pop("plant")))
        keys.parsed(plant.add_arguments, given, tier, Path("/"))


def test_the_classes_of_a_guarantee_are_ones_that_are_read() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    block = page.partition("`classes.toml`:\n\n")[2].partition("\nA connection belongs")[0]
    found = spec.parse("\n".join(line.removeprefix("    ") for line in block.splitlines()))
    assert [one.name for one in found.classes] == ["premium", "basic"]


def test_every_option_that_a_page_names_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    known = set(re.findall(r"--[a-z][a-z-]+", reference)) | {"--print-defaults", "--defaults-group-suffix"}
    pages = [page for page in PAGES if page.parent in (ROOT, ROOT / "docs")]
    spans = ((page.name, span) for page in pages for span in re.findall(r"`(--[^`]*)`", page.read_text()))
    named = [(page, flag) for page, span in spans for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span)]
    assert len(named) > 50
    assert [(page, flag) for page, flag in named if flag not in known] == []
