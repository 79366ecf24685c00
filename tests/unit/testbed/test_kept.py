"""What is kept: made once, whole or not at all, and only in its latest version."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.testbed.kept import kept


def test_it_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []
    for _ in range(2):
        with kept(tmp_path, "thing", "1", made.append) as path:
            assert path.is_dir()
    assert len(made) == 1


def test_what_could_not_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        (path / "half").touch()
        raise RuntimeError

    with pytest.raises(RuntimeError), kept(tmp_path, "thing", "1", fails):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]


def test_another_version_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for version in ("1", "2"):
        with kept(tmp_path, "thing", version, lambda path: (path / "file").touch()) as path:
            assert (path / "file").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thing-2", "thing.lock"]
