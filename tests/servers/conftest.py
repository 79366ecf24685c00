"""Where the tests with a server keep what they store or show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._stranger import let_in


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of runs that is not there yet."""
    return tmp_path / "runs.sqlite"


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """A directory of root's into which strangers can look."""
    let_in(tmp_path)
    return tmp_path
