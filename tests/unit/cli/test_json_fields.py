"""docs/reference.md has every field of the lines of `--json` that are no events of a run, in their order."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.cli.conftest import Trimtab
from trimtab import codec
from trimtab.cli._gains import Gains, tell_gains
from trimtab.core import Finding
from trimtab.identification.model import Model
from trimtab.identification.model_file import ModelFile
from trimtab.identification.signals import Kind, Pair
from trimtab.load_reports import Browsing, Class, Interaction, Interval, Latency, Summary
from trimtab.workloads._tpcw_result import TpcwInteraction, TpcwResult

REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"
LINES = REFERENCE.read_text(encoding="utf-8").partition("## Lines of JSON\n")[2]
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def told(section: str) -> list[list[str]]:
    """The fields in each table of a section."""
    text = LINES.partition(f"### {section}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    return [re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in TABLE.findall(text)]


def first(out: str) -> dict[str, Any]:
    """The first line that was printed."""
    found: dict[str, Any] = json.loads(out.splitlines()[0])
    return found


def test_those_of_runs(trimtab: Trimtab) -> None:
    trimtab("tune", "memory", "--duration", "20s", "--window", "10s")
    assert told("runs list") == [list(first(trimtab("runs", "list", "--json").out))]
    assert told("runs show") == [list(first(trimtab("runs", "show", "1", "--json").out))]


def test_those_of_a_design(trimtab: Trimtab) -> None:
    said = trimtab("design", "poles", "--model", "0.74,-0.37,0.95,-0.12", "--gain", "0.3", "--zero", "0.05", "--json")
    assert told("design") == [list(first(said.out))]


def test_those_of_an_identification_and_what_follows_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    file = ModelFile(Model((0.5,), (1.0,)), Pair(Kind.RELATIVE, "a", "b"), 30.0, {})
    assert told("model") == [["type", *file.body()]]
    tell_gains({Kind.RELATIVE: Gains(0.3, 0.05, "as given")}, True)
    assert told("gains") == [list(first(capsys.readouterr().out))]


def test_those_of_the_doctor() -> None:
    assert told("doctor") == [["room", "member", *codec.builtins(Finding("a", True, "b"))]]


def test_those_of_the_load_generator() -> None:
    kinds = (Interval, Summary, Class, Latency, Browsing, Interaction)
    reports = [[one.encode_name for one in msgspec.structs.fields(kind)] for kind in kinds]
    judged = [[one.name for one in fields(kind)] for kind in (TpcwResult, TpcwInteraction)]
    found = told("load")
    assert [line.pop(0) for line in (found[0], found[1], found[6])] == ["type"] * 3
    assert found == [*reports, *judged]
