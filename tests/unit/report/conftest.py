"""What the tests of the report's pages begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from trimtab.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store without runs."""
    with closing(Store(tmp_path / "runs.sqlite")) as opened:
        yield opened
