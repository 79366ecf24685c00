"""Where the tests with a server keep what they store or show."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of runs that is not there yet."""
    return tmp_path / "runs.sqlite"


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """A directory of root's into which strangers can look."""
    for above in (tmp_path, *tmp_path.parents[: -len(Path(tempfile.gettempdir()).parts)]):
        above.chmod(0o755)
    return tmp_path
