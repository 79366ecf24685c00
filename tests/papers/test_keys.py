"""Papers are named by key: a key that is no paper of ours, or one whose file is not there, is an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"chung2004", "lamp2016", "liu2003", "lu2001", "sugiki2005"}
KEY = re.compile(r"(?<![A-Za-z0-9])([a-z]{2,12}(?:19|20)\d\d)(?!\d)")
MODULE = re.compile(r"(?<![-./\w])(?:[a-z_]+/)+[a-z0-9_-]+\.(?:py|rs|html|md)\b")
ROOMS = ("src", "tests", "docs", "native", "benchmarks", "tools")
KINDS = {".py", ".rs", ".md", ".html", ".toml"}


def texts() -> dict[Path, str]:
    """Every file that may name a paper, by its path."""
    found = (p for room in ROOMS for p in (ROOT / room).rglob("*") if p.suffix in KINDS and p != Path(__file__))
    kept = [p for p in found if not {"target", "__pycache__", "node_modules"} & set(p.parts)]
    kept += list(ROOT.glob("*.md"))
    return {p.relative_to(ROOT): p.read_text(encoding="utf-8") for p in kept}


def test_every_key_in_a_text_is_one_of_the_papers() -> None:
    named = {(key, path) for path, text in texts().items() for key in KEY.findall(text)}
    assert {key for key, _ in named} >= {"liu2003"}, "the search finds nothing"
    assert {(key, str(path)) for key, path in named if key not in KEYS} == set()


def test_every_key_in_a_file_name_is_one_of_the_papers() -> None:
    named = {(key, path) for path in texts() for key in KEY.findall(path.stem.strip("_").replace("_", " "))}
    assert {key for key, _ in named} >= {"liu2003"}
    assert {(key, str(path)) for key, path in named if key not in KEYS} == set()


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_paper_has_an_experiment_that_names_it_and_worked_examples(key: str) -> None:
    assert key in (ROOT / "src" / "trimtab" / "lab" / f"{key}.py").read_text(encoding="utf-8")
    assert list((ROOT / "tests" / "papers").glob(f"test_{key}_*.py"))


def test_worked_examples_name_a_paper() -> None:
    for path in (ROOT / "tests" / "papers").glob("test_*.py"):
        if path != Path(__file__):
            assert path.stem.split("_")[1] in KEYS, path.name


def test_files_that_the_guides_name_exist() -> None:
    missing = []
    for path, text in texts().items():
        if path.suffix == ".md" and path.name != "CHANGELOG.md" and path.parts[0] != "benchmarks":
            for name in (n for n in MODULE.findall(text) if "example" not in n):
                if not any((ROOT / base / name).exists() for base in ("", "src/trimtab", "src", "native")):
                    missing.append(f"{path}: {name}")
    assert missing == []
