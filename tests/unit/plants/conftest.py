"""What the tests of the kernel plant have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests._family import Family, started
from trimtab.gate import run_directory
from trimtab.plants.linux import knobs


@pytest.fixture
def own_journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of the kernel plant in the test's own directory."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(run_directory, "base", lambda: tmp_path / "run" / "trimtab")


@pytest.fixture
def family() -> Iterator[Family]:
    with started() as process:
        yield process


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for a knob of the whole machine."""
    path = tmp_path / "swappiness"
    path.write_text("60\n")
    monkeypatch.setattr(knobs, "MACHINE", (replace(knobs.MACHINE[0], path=path),))
    return path
