"""Nothing of a stranger's is run, read or signalled because his process is named as PHP-FPM's master is.

trimtab runs as root here, and the stranger as uid 65534. What root ran would leave a marker.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER, STRANGER
from tests.servers._included import give_file, give_link, open_directory
from tests.servers._private_fpm import Bed, private
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.errors import ApplyRefused, UsageError
from trimtab.plants.php_fpm import process
from trimtab.plants.php_fpm.findings import findings
from trimtab.plants.php_fpm.plant import PhpFpm

pytestmark = [pytest.mark.server, pytest.mark.root]


@contextmanager
def titled(program: Path, config: Path, marker: Path, *prefix: str) -> Iterator[int]:
    """A process with a title as FPM's; if root ran its program, that would leave the marker."""
    shutil.copy("/bin/bash", program)
    title = f"php-fpm: master process ({config})"
    code = f'exec -a "{title}" "{program}" -c "read wait || : > {marker}"'
    process_ = subprocess.Popen([*prefix, "/bin/bash", "-c", code], stdin=subprocess.PIPE, start_new_session=True)

    def started() -> bool:
        assert process_.poll() is None, "it has ended"
        return process_.pid in {one.pid for one in process.FpmMaster.running()}

    try:
        until(started, "it did not start")
        yield process_.pid
    finally:
        os.killpg(process_.pid, signal.SIGKILL)
        process_.communicate()


def refusal(pid: int, marker: Path) -> str:
    """What trimtab says when it shall attach; it has run nothing."""
    with pytest.raises(UsageError) as refused:
        PhpFpm.attach(SystemClock(), pid)
    assert not marker.exists(), "root has run it"
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_what_another_user_runs_is_left_to_him(open_path: Path) -> None:
    his = open_path / "his"
    his.mkdir()
    marker = open_path / "marker"
    with titled(his / "php-fpm8.2", his / "fpm.conf", marker, *AS_STRANGER) as pid:
        (found,) = findings(next(one for one in process.FpmMaster.running() if one.pid == pid))
        assert not found.usable
        for said in (refusal(pid, marker), found.detail):
            assert f"uid {STRANGER}" in said and "run trimtab as that user" in said, said


def test_a_program_that_others_can_change_is_refused(open_path: Path) -> None:
    program, marker = open_path / "php-fpm8.2", open_path / "marker"
    with titled(program, open_path / "fpm.conf", marker) as pid:
        os.chown(program, STRANGER, -1)
        assert f"{program} belongs to uid {STRANGER}: chown" in refusal(pid, marker)


def _open_pool_file(bed: Bed) -> Path:
    path = bed.testbed.snippet_directory / "www.conf"
    path.chmod(0o666)
    return path


@pytest.mark.parametrize("spoil", [give_file, _open_pool_file, open_directory, give_link])
def test_a_configuration_that_others_can_change_is_refused_with_what_mends_it(spoil: Callable[[Bed], Path]) -> None:
    with private() as bed:
        fpm = bed.attach()
        path = spoil(bed)
        with pytest.raises(UsageError, match=str(path)):
            bed.attach()
        with pytest.raises((UsageError, ApplyRefused), match=str(path)):
            fpm.apply({"max_children": 6})
        assert not bed.snippet.exists()
        assert bed.workers() <= 3
