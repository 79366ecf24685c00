"""A private MariaDB: how long it may take to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.registry import Registry


def test_only_data_that_are_kept_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has only begun to start does not hear the signal to end, and was waited for in full."""
    waited: list[float] = []
    monkeypatch.setattr(SwappedServer, "stop", lambda bed, patience_s: waited.append(patience_s))
    for directory in (None, tmp_path / "kept"):
        MariadbTestbed(MariadbSpec(directory=directory), Registry(tmp_path)).stop()
    MariadbTestbed(MariadbSpec(), Registry(tmp_path)).stop(120.0)
    removed_s, kept_s, asked_s = waited
    assert removed_s <= 5.0 < 30.0 <= kept_s
    assert asked_s == 120.0
