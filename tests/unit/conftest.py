"""What the unit tests of several rooms begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests._fake_gate import FakeGate
from tests._idle_file import a_run
from tests._memory_plant import FakeClock
from trimtab.gate.run_directory import RunDirectory


@pytest.fixture
def clock() -> FakeClock:
    """Time that passes when somebody sleeps."""
    return FakeClock()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[FakeGate]:
    """A gate that answers as a test wants it to."""
    with FakeGate(tmp_path / "fake") as running:
        yield running


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDirectory:
    """The run directory of a server with the shim in it."""
    return a_run(tmp_path)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not rendered, which takes half a second each: for who looks at words and numbers alone."""
    monkeypatch.setattr(Figure, "savefig", lambda self, out, **how: out.write("<svg/>"))
