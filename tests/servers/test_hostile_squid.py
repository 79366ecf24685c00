"""Nothing of a stranger's is run, read or signalled because his process is named as Squid is.

trimtab runs as root here, and the stranger as uid 65534. What root ran would leave a marker.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER, STRANGER
from tests.servers._included import give_file, open_directory
from tests.servers._private_squid import Bed, private
from trimtab.clock import SystemClock
from trimtab.errors import ApplyRefused, UsageError
from trimtab.plants.squid import probe, process
from trimtab.plants.squid.plant import Squid

pytestmark = [pytest.mark.server, pytest.mark.root]

REALLY_STRANGER = ("setpriv", "--ruid", str(STRANGER), "--")
PATIENCE_S = 60.0


@contextmanager
def named(program: Path, *prefix: str, mode: int = 0o755) -> Iterator[int]:
    """A process of a program of this name, which does nothing."""
    shutil.copy("/bin/sleep", program)
    process_ = subprocess.Popen([*prefix, program, "600"], start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while process_.pid not in {one.pid for one in process.SquidMaster.running()}:
            assert process_.poll() is None and time.monotonic() < deadline, "it did not start"
            time.sleep(0.02)
        program.chmod(mode)
        yield process_.pid
    finally:
        os.killpg(process_.pid, signal.SIGKILL)
        process_.communicate()


def refusal(pid: int) -> str:
    """What trimtab says when it shall attach."""
    with pytest.raises(UsageError) as refused:
        Squid.attach(SystemClock(), pid)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.alone  # the doctor looks at all servers of the machine
def test_what_another_user_runs_is_left_to_him(open_path: Path) -> None:
    with named(open_path / "squid", *AS_STRANGER) as pid:
        (found,) = [one for one in probe() if one.subject == f"squid pid {pid}"]
        assert not found.usable
        for said in (refusal(pid), found.detail):
            assert f"uid {STRANGER}" in said and "run trimtab as that user" in said, said


def test_a_program_that_others_can_change_is_refused(open_path: Path) -> None:
    program = open_path / "squid"
    with named(program) as pid:
        os.chown(program, STRANGER, -1)
        assert f"{program} belongs to uid {STRANGER}: chown" in refusal(pid)


def test_the_rights_of_root_that_a_program_could_have_given_to_a_stranger_are_not_believed(open_path: Path) -> None:
    """A set-user-id program that a stranger starts has root's rights and a command line of his choice."""
    with named(open_path / "squid", *REALLY_STRANGER, mode=0o4755) as pid:
        assert "has the rights of several users: trimtab leaves it alone" in refusal(pid)


def test_a_configuration_that_is_the_output_of_a_command_is_refused(open_path: Path) -> None:
    marker = open_path / "marker"
    program = open_path / "squid"
    shutil.copy("/bin/bash", program)
    code = f'exec -a squid "{program}" -c "read wait" -f "| : > {marker}"'
    process_ = subprocess.Popen(["/bin/bash", "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while process_.pid not in {one.pid for one in process.SquidMaster.running()}:
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.02)
        assert "takes its configuration from a command" in refusal(process_.pid)
        assert not marker.exists(), "root has run it"
    finally:
        os.killpg(process_.pid, signal.SIGKILL)
        process_.communicate()


def _open_included(bed: Bed) -> Path:
    path = bed.testbed.snippet_directory / "debian.conf"
    path.chmod(0o666)
    return path


@pytest.mark.parametrize("spoil", [give_file, _open_included, open_directory])
def test_a_configuration_that_others_can_change_is_refused_with_what_mends_it(spoil: Callable[[Bed], Path]) -> None:
    with private() as bed:
        squid, ports = bed.attach(), process.SquidMaster.find(bed.testbed.pid).ports()
        path = spoil(bed)
        with pytest.raises(UsageError, match=str(path)):
            bed.attach()
        with pytest.raises((UsageError, ApplyRefused), match=str(path)):
            squid.apply({"cache_mem": 16})
        assert not bed.snippet.exists()
        assert process.SquidMaster.find(bed.testbed.pid).ports() == ports
