"""The name that the process of the tests has, which is put back after each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

HOSTILE = (b"a) S 1\nb) S 2", b"\xff\n")
"""Names by which a line of /proc/PID/stat is misread."""


@pytest.fixture
def name() -> Iterator[Path]:
    """The file with it."""
    path = Path("/proc/self/comm")
    before = path.read_bytes().removesuffix(b"\n")
    yield path
    path.write_bytes(before)
