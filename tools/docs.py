"""Writes docs/reference.md from the code; with --check it only says whether that file is true."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trimtab import cli, discovery
from trimtab.cli._gains import Gains
from trimtab.core import Finding, Move, Window
from trimtab.design.pi import Design
from trimtab.events import MoveDone, Note, Stamp
from trimtab.identification.model import Model
from trimtab.identification.model_file import ModelFile
from trimtab.identification.signals import Pair
from trimtab.load_reports import Browsing, Class, Interaction, Interval, Latency, Summary
from trimtab.metrics import known
from trimtab.options import documented
from trimtab.records import Plan, Run
from trimtab.sensors._shared_file import Idle
from trimtab.workloads._tpcw_result import TpcwInteraction, TpcwResult

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference.md"
HEAD = """# Reference

Made from the code by `make docs`; `make test` fails when it is stale.
"""
JSON_LINES = """## Lines of JSON

With `--json` `tune`, `guarantee`, `identify`, `observe` and `lab run` print one object per line while they go, and
`runs show` the same of a stored run; `type` says what a line is. `tune` and `guarantee` print a line `run` (`run`,
`plant`, `controller`) before the first window, and a line `end` (`run`, `status`, `detail`, `restored`) at the end;
before its `run`, `guarantee` prints the windows and moves of an identification, where it makes one, and a line
`gains` for each controller. `identify` ends with a line `model`, `runs show` begins with one of the run and its plan.
Durations are in seconds, and what was not measured is absent. Fields may be added: ignore those that you do not know.
A run waits for no reader: who takes nothing for a second misses lines. `sequence` shows it, and `runs show` has them.
"""


TYPE = {"type": "what the line is."}
RUN = {"run": "number of the run in its store."}
MODEL_FILE = {"format": "tells this file from those of other times."}
CLASSES = {"classes": "names of its upper and its lower class."}
IN_ALL = {"plant": "the plants' registered names in one."}
STATUS = {"status": "its status; `killed` where its process ended without writing how."}
ROOM = {"room": "plants, sensors, testbed, or trimtab itself.", "member": "its name there."}
MADE = {"model": "its `a` and `b`.", "gain": "g.", "zero": "r.", "stable": "whether it is stable."}
POLES = {"poles": "poles of the closed loop, each as [real, imaginary]."}
MARGINS = {"stability_margin": "from 0 to 1.", "gain_margin": "factor by which the gain may be wrong; null for any."}
STEP = {"step_response": "output at the samples 0, 1, ... after a unit step of the reference."}
MEETS = {"meets": "whether the specification is met."}
SET = {"name": "of the run.", "in_charge": "server, fixed or auto.", "time_ms": "null for the server's own."}
OWN = {"server_ms": "keep-alive time that the server itself last asked for; null is not seen."}
DONE = {"step": "what was done.", "seconds": "since the start."}
SHOP = {"url": "its address.", "stack": "the file.", "tiers": "by name: `plant`, `pid`, `port`, `limits`."}


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
    head = {**TYPE, **documented(Stamp)}
    for kind, cls in (("window", Window), ("move", MoveDone), ("note", Note)):
        yield f"### {kind}\n\n{_fields(cls, head)}"
        if cls is MoveDone:
            yield f"`proposed` and `move` are moves:\n\n{_fields(Move, {})}"


def _fields(cls: type, head: dict[str, str]) -> str:
    """A table of a record's fields, as JSON has them."""
    docs = {**documented(cls), **({"window": "index of the window that it follows from."} if cls is MoveDone else {})}
    return _table({**head, **{one.name: docs[one.name] for one in dataclasses.fields(cls) if one.name != "stamp"}})


def _table(told: Mapping[str, str]) -> str:
    """A table of fields by name, as JSON has them."""
    rows = "\n".join(f"| `{name}` | {said.replace('None', 'null')} |" for name, said in told.items())
    return f"| field | what it is |\n|---|---|\n{rows}\n"


def _of(cls: type, *names: str) -> dict[str, str]:
    """What a record says of its fields, or of some of them."""
    docs = documented(cls)
    return {name: docs[name] for name in names or docs}


def other_lines() -> Iterator[str]:
    """The lines of `--json` that are no events of a run, field by field."""
    fitted = {**MODEL_FILE, **_of(Model), **_of(Pair, "kind"), **CLASSES, **_of(Pair, "delay")}
    ratios = _of(Design, "settling_s", "overshoot_ratio", "steady_state_error_ratio")
    listed = {**RUN, **_of(Run, "started"), **IN_ALL}
    shop = f"And in the end one of the shop:\n\n{_table(SHOP)}"
    told = (
        ("gains", "", {**TYPE, **_of(Pair, "kind"), **_of(Gains, "gain", "zero", "source")}),
        ("model", "The model's file with a type.", {**TYPE, **fitted, **_of(ModelFile, "period_s", "facts")}),
        ("runs show", "The first line:", {**TYPE, **RUN, **_of(Run, "status"), **_of(Plan)}),
        (
            "runs list",
            "One for each run:",
            {**listed, **_of(Plan, "controller"), **STATUS, **_of(Plan, "label", "group")},
        ),
        ("doctor", "One for each finding:", {**ROOM, **_of(Finding)}),
        ("design", "", {**MADE, **POLES, **ratios, **MARGINS, **_of(Design, "period_s"), **STEP, **MEETS}),
        ("keep-alive show", "", {**SET, **_of(Idle), **OWN}),
        ("lab up", "One for each step:", DONE),
    )
    for name, intro, fields in told:
        yield f"### {name}\n\n{intro + chr(10) * 2 if intro else ''}{_table(fields)}"
    yield shop
    yield from load_lines()


def load_lines() -> Iterator[str]:
    """The lines of the load generator."""
    yield "### load\n\nOne line `interval` for each interval, one `summary`, and one `tpcw` of that workload.\n"
    for title, head, cls in (
        ("`interval`", TYPE, Interval),
        ("`summary`", TYPE, Summary),
        ("Each of their `classes`", {}, Class),
        ("Each duration of a class, such as `page_actual`", {}, Latency),
        ("`browsing` of a class", {}, Browsing),
        ("Each of its `interactions`", {}, Interaction),
        ("`tpcw`", TYPE, TpcwResult),
        ("Each of its `interactions`", {}, TpcwInteraction),
    ):
        fields = {"class" if name == "class_name" else name: said for name, said in documented(cls).items()}
        yield f"{title}:\n\n{_table({**head, **fields})}"


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
    parts += [*json_lines(), *other_lines()]
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
