"""Writes docs/reference.md from the code; with --check it only says whether that file is true."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trimtab import cli, discovery
from trimtab.core import Move, Window
from trimtab.events import MoveDone, Note, Stamp
from trimtab.metrics import known
from trimtab.options import documented

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference.md"
HEAD = """# Reference

Made from the code by `make docs`; `make test` fails when it is stale.
"""
JSON_LINES = """## Lines of JSON

With `--json` `tune`, `guarantee` and `observe` print one object per line while they go, and `runs show` the same of a
stored run; `type` says what a line is. `tune` and `guarantee` begin with a line `run` (`run`, `plant`, `controller`)
and end with a line `end` (`run`, `status`, `detail`, `restored`); `runs show` begins with `run` and the whole plan.
Durations are in seconds, and what was not measured is absent. Fields may be added: ignore those that you do not know.
A run waits for no reader: who takes nothing for a second misses lines. `sequence` shows it, and `runs show` has them.
"""


def first_line(text: str | None) -> str:
    """The first sentence of a docstring."""
    return (text or "").strip().split("\n\n")[0].replace("\n", " ")


def verbs() -> Iterator[str]:
    """Every verb with its help."""
    yield "## Verbs\n"
    for name in discovery.names("trimtab.cli"):
        _, parser = cli.parser_of(name)
        yield f"### trimtab {name}\n\n{block(parser)}"
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from (f"#### {one.prog}\n\n{block(one)}" for one in action.choices.values())


def block(parser: argparse.ArgumentParser) -> str:
    """A parser's help as it is printed."""
    return f"```text\n{parser.format_help().strip()}\n```\n"


def plant_options() -> Iterator[str]:
    """The options of every plant that has some: of `tune PLANT`, and the keys of a stack's tier."""
    for name in discovery.names("trimtab.plants"):
        parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
        group = parser.add_argument_group(f"options of {name}")
        discovery.load("trimtab.plants", name).add_arguments(group)
        if group._group_actions:
            yield f"### Options of {name}\n\n{block(parser)}"


def options(package: str, attribute: str, hidden: tuple[str, ...]) -> Iterator[str]:
    """The members of a room whose classes are dataclasses, with their options."""
    for name in discovery.names(package):
        module = discovery.load(package, name)
        cls: Any = getattr(module, attribute)
        yield f"### {name}\n\n{first_line(module.__doc__)}\n"
        docs = documented(cls)
        rows = [
            f"| `{f.name}` | {_default(f)} | {docs.get(f.name, '')} |"
            for f in dataclasses.fields(cls)
            if f.name not in hidden
        ]
        if rows:
            yield "| option | default | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "-"
    return f"`{field.default}`" if field.default not in ("", ()) else "none"


def described(package: str) -> Iterator[str]:
    """The members of a room by their first sentence; read as text, so nothing is run."""
    for name in discovery.names(package):
        path = Path(discovery.load(package, name).__file__ or "")
        yield f"- **{name}**: {first_line(ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))))}"


def json_lines() -> Iterator[str]:
    """The lines that `--json` prints of a run, field by field."""
    yield JSON_LINES
    head = {"type": "what the line is.", **documented(Stamp)}
    for kind, cls in (("window", Window), ("move", MoveDone), ("note", Note)):
        yield f"### {kind}\n\n{_fields(cls, head)}"
        if cls is MoveDone:
            yield f"`proposed` and `move` are moves:\n\n{_fields(Move, {})}"


def _fields(cls: type, head: dict[str, str]) -> str:
    """A table of a record's fields, as JSON has them."""
    docs = {**documented(cls), **({"window": "index of the window that it follows from."} if cls is MoveDone else {})}
    told = {**head, **{one.name: docs[one.name] for one in dataclasses.fields(cls) if one.name != "stamp"}}
    rows = "\n".join(f"| `{name}` | {said.replace('None', 'null')} |" for name, said in told.items())
    return f"| field | what it is |\n|---|---|\n{rows}\n"


def text() -> str:
    """The whole reference."""
    parts = [HEAD, *verbs()]
    parts.append("## Controllers\n\nGiven with `--controller NAME --option NAME=VALUE`.\n")
    parts += options("trimtab.controllers", "CONTROLLER", ("objective",))
    parts.append("## Guards\n\nEvery move passes them; their order and its reason stand in `trimtab.guard`.\n")
    parts += options("trimtab.guard", "GUARD", ("objective",))
    parts.append("## Workloads\n\nGiven with `trimtab load URL --workload NAME`.\n")
    parts += options("trimtab.workloads", "WORKLOAD", ())
    for title, package in (("Plants", "trimtab.plants"), ("Sensors", "trimtab.sensors"), ("Lab", "trimtab.lab")):
        parts.append(f"## {title}\n\n" + "\n".join(described(package)) + "\n")
        if package == "trimtab.plants":
            parts += plant_options()
    parts += json_lines()
    rows = "\n".join(
        f"| `{m.name}{'@CLASS' if m.per_class else ''}` | {m.unit} | {m.symbol or '-'} | {m.description} |"
        for m in known().values()
    )
    parts.append(f"## Metrics\n\n| name | unit | symbol | what it is |\n|---|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def main() -> int:
    """Writes or checks."""
    os.environ["COLUMNS"] = "100"  # help text is wrapped to the terminal
    made = text()
    if "--check" not in sys.argv[1:]:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(made, encoding="utf-8")
        return 0
    there = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
    if there != made:
        print("docs/reference.md is stale: run 'make docs'", file=sys.stderr)
        sys.stderr.writelines(list(difflib.unified_diff(there.splitlines(True), made.splitlines(True), n=0))[:40])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
