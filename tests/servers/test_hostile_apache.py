"""Nothing of a stranger's is run, read, signalled or waited for because his process is named as Apache's are.

trimtab runs as root here, and the stranger as uid 65534. What root ran would leave a marker.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER, STRANGER, his_directory
from tests.servers._included import give_file, give_link, open_directory
from tests.servers._private_apache import Bed, private
from tests.servers._under_gate import until
from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.errors import ApplyRefused, UsageError
from trimtab.plants.apache import Apache
from trimtab.plants.apache import process as apache_process
from trimtab.plants.apache.findings import findings
from trimtab.sensors._tcp_listeners import listeners
from trimtab.testbed._private import free_ports
from trimtab.testbed.apache import module_directory, program

pytestmark = [pytest.mark.server, pytest.mark.apache, pytest.mark.root]

MODULE = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) { if (geteuid() == 0) creat(MARKER, 0600); }
unsigned la_version(unsigned version) { return version; }
"""


@pytest.fixture
def his() -> Iterator[Path]:
    """A directory of the stranger's."""
    with his_directory() as directory:
        yield directory


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What would be there if root had run something of the stranger's."""
    return tmp_path / "root-was-here"


def evil_library(his: Path, marker: Path) -> Path:
    """A library that makes the marker when root loads it, as a module or as what LD_AUDIT names."""
    source, library = his / "evil.c", his / "evil.so"
    source.write_text(MODULE)
    subprocess.run(["cc", "-shared", "-fPIC", f'-DMARKER="{marker}"', "-o", library, source], check=True)
    os.chown(library, STRANGER, STRANGER)
    return library


def script(marker: Path) -> str:
    """Makes the marker when root runs it; else waits until its input ends."""
    return f'[ "$(/usr/bin/id -u)" = 0 ] && : > {marker}; read wait'


@contextmanager
def running(*command: str | Path) -> Iterator[int]:
    """A process that is named as Apache's are; ended with its children when the block ends."""
    before = {parent.pid for parent in apache_process.Parent.running()}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def started() -> bool:
        assert process.poll() is None, f"{command} has ended"
        return process.pid in {parent.pid for parent in apache_process.Parent.running()} - before

    try:
        until(started, f"{command} did not start")
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextmanager
def real_apache(
    his: Path, *lines: str, variable: str = "NONE=", start: tuple[str, ...] = AS_STRANGER
) -> Iterator[int]:
    """A real Apache that the stranger runs with a configuration and a variable of his own; `start` starts it."""
    (port,) = free_ports(1)
    modules = [
        f"LoadModule {name}_module {module_directory()}/mod_{name}.so"
        for name in ("mpm_event", "authz_core", "status")
    ]
    own = [f"ServerRoot {his}", f"PidFile {his}/pid", f"ErrorLog {his}/log", f"Listen 127.0.0.1:{port}"]
    config = his / "evil.conf"
    config.write_text("\n".join([*own, *modules, *lines, ""]))
    with running(*start, "env", variable, program(), "-f", config, "-DFOREGROUND") as pid:
        until(lambda: bool(listeners(pid)), "it does not listen")
        yield pid


def doctor(pid: int) -> tuple[Finding, ...]:
    """What the doctor says of one process."""
    return next(findings(parent) for parent in apache_process.Parent.running() if parent.pid == pid)


def refusal(pid: int, marker: Path) -> str:
    """What trimtab says when it shall attach to a process; it has run nothing of it."""
    with pytest.raises(UsageError) as refused:
        Apache.attach(SystemClock(), pid)
    assert not marker.exists(), "root has run it"
    assert "\n" not in str(refused.value)
    return str(refused.value)


def assert_left_to_its_user(pid: int, marker: Path) -> None:
    """Doctor and plant run nothing of it, and both say in one line who runs it and what to do."""
    (found,) = doctor(pid)
    for said in (refusal(pid, marker), found.detail):
        assert f"pid {pid}" in said and f"uid {STRANGER}" in said and "run trimtab as that user" in said, said
    assert not found.usable


def test_a_strangers_program_that_is_named_apache2_is_not_run(his: Path, marker: Path) -> None:
    shutil.copy("/bin/dash", his / "apache2")
    with running(*AS_STRANGER, his / "apache2", "-c", script(marker)) as pid:
        assert_left_to_its_user(pid, marker)


def test_a_strangers_module_is_not_loaded_by_a_real_apache(his: Path, marker: Path) -> None:
    library = evil_library(his, marker)
    with real_apache(his, f"LoadFile {library}") as pid:
        assert_left_to_its_user(pid, marker)


@pytest.mark.parametrize("variable", ["LD_AUDIT", "LD_PRELOAD"])
def test_what_a_strangers_environment_names_is_not_loaded(his: Path, marker: Path, variable: str) -> None:
    library = evil_library(his, marker)
    with real_apache(his, variable=f"{variable}={library}") as pid:
        assert_left_to_its_user(pid, marker)


@pytest.mark.parametrize("variable", ["LD_AUDIT", "LD_PRELOAD"])
def test_what_the_environment_of_roots_own_apache_has_loaded_is_not_loaded_into_its_test(
    tmp_path: Path, variable: str
) -> None:
    marker = tmp_path / "marker"
    library = evil_library(tmp_path, marker)
    os.chown(library, 0, 0)
    with private("event", environ={variable: str(library)}) as bed:
        marker.unlink()
        apache = bed.attach()
        apache.apply({"max_request_workers": 5 * bed.threads})
        apache.restore()
        apache.close()
    assert not marker.exists()


@pytest.mark.alone  # `trimtab doctor` looks at every server of the machine
def test_a_file_that_a_stranger_made_into_a_fifo_does_not_hang_the_doctor(his: Path) -> None:
    with real_apache(his) as pid:
        (his / "evil.conf").unlink()
        os.mkfifo(his / "evil.conf")
        command = [sys.executable, "-m", "trimtab", "doctor"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
        assert f"pid {pid}" in said


def test_the_command_line_of_a_stranger_is_not_read_because_its_pages_may_never_come(his: Path) -> None:
    shutil.copy("/bin/dash", his / "apache2")
    with running(*AS_STRANGER, his / "apache2", "-c", "read wait \x1b[2J") as pid:
        found = next(parent for parent in apache_process.Parent.running() if parent.pid == pid)
        assert found.argv == ()


def test_a_stranger_cannot_keep_root_from_finding_its_own_apache(his: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy("/bin/dash", his / "apache2")
    with private("event") as bed, running(*AS_STRANGER, his / "apache2", "-c", "read wait") as pid:
        real = apache_process.Parent.running
        monkeypatch.setattr(
            apache_process.Parent, "running", lambda: [one for one in real() if one.pid in (bed.testbed.pid, pid)]
        )
        assert apache_process.Parent.find(None).pid == bed.testbed.pid


def test_what_runs_in_another_mount_namespace_is_compared_before_it_is_run(tmp_path: Path, marker: Path) -> None:
    for name in ("apache2", "another"):
        shutil.copy("/bin/dash", tmp_path / name)
    there = f'mount --bind {tmp_path}/another {tmp_path}/apache2 && exec {tmp_path}/apache2 -c "$0"'
    # The one that runs is the other's; what would be run here is ours of the same name.
    with running("unshare", "--mount", "sh", "-c", there, f"read wait || : > {marker}") as pid:
        assert re.search("sees other files.*run trimtab in there", refusal(pid, marker))


def test_mounts_of_its_own_do_not_matter_where_the_files_are_the_same(tmp_path: Path) -> None:
    # As Debian's apache2.service has them (PrivateTmp).
    status = ("<Location /server-status>", "SetHandler server-status", "</Location>", "User nobody", "Group nogroup")
    with real_apache(tmp_path, *status, start=("unshare", "--mount")) as pid:
        assert os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino
        apache = Apache.attach(SystemClock(), pid)
        assert apache.configuration()["max_request_workers"] == 400
        apache.close()


def test_the_page_of_another_server_at_the_same_address_in_another_network_is_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    lines = ("<Location /server-status>", "SetHandler server-status", "</Location>", "User nobody", "Group nogroup")
    there = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    with private("event") as bed, real_apache(tmp_path, *lines, start=there) as pid:
        for url in (bed.testbed.status_url, None):
            with pytest.raises(UsageError, match=rf"another network namespace.*nsenter --net=/proc/{pid}/ns/net"):
                Apache.attach(SystemClock(), pid, url)


@pytest.mark.parametrize("user", [(), AS_STRANGER])
def test_what_runs_in_another_process_namespace_is_not_run(his: Path, marker: Path, user: tuple[str, ...]) -> None:
    """Whoever runs it: a container's users are nobody's here."""
    there = his / "apache2"
    shutil.copy("/bin/dash", there)
    inside = ("unshare", "--pid", "--fork", "--kill-child", *user, str(there), "-c", f"read wait || : > {marker}")
    process = subprocess.Popen(inside, stdin=subprocess.PIPE, start_new_session=True)
    try:
        until(lambda: any(p.exe == there for p in apache_process.Parent.running()), "it did not start")
        (child,) = (p.pid for p in apache_process.Parent.running() if p.exe == there)
        assert re.search("pid namespace.*run trimtab in there", refusal(child, marker))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _open_included_file(bed: Bed) -> Path:
    bed.write("more.conf", "# nothing\n")
    path = bed.testbed.snippet_directory / "more.conf"
    path.chmod(0o664)
    os.chown(path, -1, STRANGER)
    return path


def _give_module(bed: Bed) -> Path:
    path = bed.testbed.directory / "mod_env.so"
    shutil.copy(Path(module_directory()) / "mod_env.so", path)
    os.chown(path, STRANGER, -1)
    bed.write("module.conf", f"LoadModule env_module {path}\n")
    return path


def _miss_in_tmp(bed: Bed) -> Path:
    path = Path(f"/tmp/trimtab-{bed.testbed.directory.name}.conf")
    bed.write("tmp.conf", f"IncludeOptional {path}\n")
    return path


@pytest.mark.parametrize(
    "spoil", [give_file, open_directory, _open_included_file, give_link, _give_module, _miss_in_tmp]
)
def test_a_configuration_that_others_can_change_is_refused_with_what_mends_it(spoil: Callable[[Bed], Path]) -> None:
    with private("event") as bed:
        apache = bed.attach()
        path = spoil(bed)
        with pytest.raises(UsageError, match=str(path)):
            bed.attach()
        (found,) = doctor(bed.testbed.pid)
        assert not found.usable and str(path) in found.detail
        with pytest.raises((UsageError, ApplyRefused), match=str(path)):
            apache.apply({"max_request_workers": 5 * bed.threads})
        assert not bed.snippet.exists()


def test_a_program_that_others_can_change_is_refused(tmp_path: Path, marker: Path) -> None:
    shutil.copy("/bin/dash", tmp_path / "apache2")
    os.chown(tmp_path / "apache2", STRANGER, -1)
    with running(tmp_path / "apache2", "-c", f"read wait || : > {marker}") as pid:
        assert re.search(f"{tmp_path}/apache2 belongs to uid {STRANGER}: chown", refusal(pid, marker))


def test_a_program_that_was_replaced_since_it_was_started_is_not_run(tmp_path: Path, marker: Path) -> None:
    shutil.copy("/bin/dash", tmp_path / "apache2")
    with running(tmp_path / "apache2", "-c", f"read wait || : > {marker}") as pid:
        (tmp_path / "apache2").unlink()
        shutil.copy("/bin/dash", tmp_path / "apache2")
        assert re.search("replaced since.*restart", refusal(pid, marker))
