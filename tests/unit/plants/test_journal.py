"""Journals on disk: what an earlier trimtab wrote is read, and what somebody else could have written is not."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import cast

import pytest

from trimtab.errors import UsageError
from trimtab.plants import _journal
from trimtab.plants.linux.journal import Written
from trimtab.plants.mariadb.journal import Entry as Knob
from trimtab.plants.mariadb.journal import Journal as OfMariadb
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.plants.tomcat.journal import Entry as Attribute
from trimtab.plants.tomcat.journal import Journal as OfTomcat
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import boot_id, start_of


class This:
    """The test's own process, as if it were a server."""

    pid = os.getpid()
    started = start_of(pid) or 0


def test_the_three_formats_as_they_have_always_been_on_disk_are_read(tmp_path: Path) -> None:
    server = This()
    (tmp_path / f"{server.pid}-{server.started}.json").write_text(
        f'{{"boot": "{boot_id()}", "entries": '
        '[{"bean": "Catalina:type=ThreadPool", "attribute": "maxThreads", "before": 200, "ours": [200, 105]}]}'
    )
    (tmp_path / f"{boot_id()}-{server.pid}-{server.started}.json").write_text(
        '{"max_connections": {"before": 151, "ours": [201, 301]}}'
    )
    (tmp_path / "kernel.json").write_text(
        '{"owner": [1, 2], "kept": false, "roots": [[3, 4]], "groups": ["/sys/fs/cgroup/web"], '
        '"threads": [[3, 3, 4, 0, 0, 3000000, 0, 0]], "ours": {"policy": [], "nice": [], "slice": [10000000]}, '
        '"files": [["/proc/sys/vm/swappiness", "60", ["10"]]]}'
    )
    tomcat = OfTomcat(cast(TomcatProcess, server), tmp_path)
    assert tomcat.entries() == (Attribute("Catalina:type=ThreadPool", "maxThreads", 200, (200, 105)),)
    mariadb = OfMariadb.of(cast(MariadbServer, server), ("max_connections",), tmp_path)
    assert mariadb.entries == {"max_connections": Knob(151, (201, 301))}
    kernel = _journal.read(tmp_path / "kernel.json", Written)
    assert kernel is not None and kernel.files == (("/proc/sys/vm/swappiness", "60", ("10",)),)


def test_it_is_for_its_user_alone_in_a_directory_that_is_too(tmp_path: Path) -> None:
    path = tmp_path / "state" / "kind" / "one.json"
    _journal.write(path, {"a": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path.parent.parent)] == [0o700, 0o700]
    assert _journal.read(path, dict[str, int]) == {"a": 1}
    _journal.write(path, None)
    assert _journal.read(path, dict[str, int]) is None


def test_no_link_is_followed(tmp_path: Path) -> None:
    aim, link = tmp_path / "aim", tmp_path / "link.json"
    aim.write_text('{"a": 1}')
    link.symlink_to(aim)
    with pytest.raises(UsageError, match="is not a regular file"):
        _journal.read(link, dict[str, int])
    with pytest.raises(UsageError, match="is not a regular file"):
        _journal.write(link, {"a": 2})
    assert aim.read_text() == '{"a": 1}'


def test_where_others_can_write_nothing_is_read_written_or_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "journals" / f"{os.getpid()}-1.json"
    _journal.write(path, {"a": 1})
    path.parent.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by everybody"):
        _journal.read(path, dict[str, int])
    with pytest.raises(UsageError, match="can be written by everybody"):
        _journal.write(path, None)
    _journal.tidy(path.parent)
    assert path.exists()


def test_journals_of_another_boot_and_of_processes_that_have_ended_are_taken_away(tmp_path: Path) -> None:
    alive = f"{This.pid}-{This.started}.json"
    kept = {alive, f"{boot_id()}-{alive}", "notes.json"}
    for name in (*kept, f"{This.pid}-1.json", f"{boot_id()}-{This.pid}-1.json", f"{'0' * 36}-{alive}"):
        (tmp_path / name).touch()
    _journal.tidy(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == kept
