"""Nothing of a stranger's is run, loaded or trusted because it is named as nginx's are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests._stranger import AS_STRANGER
from tests.servers import _private_nginx
from tests.servers._private_nginx import Bed
from tests.servers._under_gate import until
from trimtab import processes
from trimtab.clock import SystemClock
from trimtab.errors import UsageError
from trimtab.plants.nginx.findings import findings
from trimtab.plants.nginx.plant import Nginx
from trimtab.plants.nginx.process import Master

pytestmark = [pytest.mark.server, pytest.mark.root]


shared, bed = _private_nginx.shared, _private_nginx.bed


def test_a_configuration_that_somebody_else_can_change_is_refused(bed: Bed) -> None:
    bed.write("his.conf", "# his\n")
    (bed.snippets / "his.conf").chmod(0o666)
    with pytest.raises(UsageError, match=r"his\.conf can be written by everybody"):
        bed.attach()


LEAVES = 'if (!geteuid()) { creat("%s", 0600); return 0; } pause();'


def test_nothing_is_run_of_what_a_stranger_calls_nginx_and_the_line_says_who_may(tmp_path: Path) -> None:
    """His program is named nginx and would leave a marker if root ran it."""
    for above in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        above.chmod(0o755)
    his, marker = tmp_path / "his", tmp_path / "root-was-here"
    his.mkdir()
    program, source = his / "nginx", his / "nginx.c"
    source.write_text(f"#include <fcntl.h>\n#include <unistd.h>\nint main(void) {{ {LEAVES % marker} }}\n")
    subprocess.run(["cc", "-o", program, source], check=True)
    os.chown(his, 65534, 65534)
    process = subprocess.Popen([*AS_STRANGER, program])
    try:
        until(lambda: processes.program_of(process.pid) == program, "it did not start")
        with pytest.raises(UsageError, match="is run by uid 65534, not by root: run trimtab as that user"):
            Nginx.attach(SystemClock(), process.pid)
        (his_own,) = (one for one in Master.running() if one.pid == process.pid)
        said = findings(his_own)
        assert [(f.usable, f.detail.partition(": ")[2]) for f in said] == [(False, "run trimtab as that user")]
        assert not marker.exists()
    finally:
        process.kill()
        process.wait()


def test_an_nginx_whose_program_somebody_else_can_change_is_not_run(tmp_path: Path) -> None:
    for above in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        above.chmod(0o755)
    program, config = tmp_path / "nginx", tmp_path / "nginx.conf"
    shutil.copy("/usr/sbin/nginx", program)
    os.chown(program, 65534, 65534)
    config.write_text(f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n")
    process = subprocess.Popen([program, "-e", f"{tmp_path}/log", "-c", str(config)])
    try:
        until(lambda: process.pid in {one.pid for one in Master.running()}, "it did not start")
        with pytest.raises(UsageError, match="belongs to uid 65534"):
            Nginx.attach(SystemClock(), process.pid)
    finally:
        process.terminate()
        process.wait()


def test_a_module_that_somebody_else_can_change_is_not_loaded_by_our_test(bed: Bed) -> None:
    directory = bed.testbed.directory / "his"
    directory.mkdir()
    os.chown(directory, 65534, 65534)
    bed.replace("^user", f"load_module {directory}/evil.so;\nuser")
    with pytest.raises(UsageError, match="belongs to uid 65534"):
        bed.attach()


@pytest.mark.parametrize("name", ["conf.d", "link"])
def test_a_directory_that_it_sees_with_other_files_gets_none_of_ours(tmp_path: Path, name: str) -> None:
    """It would read nothing of it."""
    config, included = tmp_path / "nginx.conf", tmp_path / name
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "conf.d")
    config.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n"
        f"http {{ access_log off; include {included}/*.conf; }}\n"
    )
    there = f'mount -t tmpfs tmpfs {tmp_path}/conf.d && exec /usr/sbin/nginx -e {tmp_path}/log -c "$0"'
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", there, config])
    try:
        until(lambda: process.pid in {one.pid for one in Master.running()}, "it did not start")
        with pytest.raises(UsageError, match="sees other files, as in a container: run trimtab in there"):
            Nginx.attach(SystemClock(), process.pid)
    finally:
        process.terminate()
        process.wait()
