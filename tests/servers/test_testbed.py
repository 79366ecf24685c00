"""Private Apaches: they serve, their limits are in force, and nothing of them stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import trimtab
from tests.servers._traffic import closed_port
from trimtab import processes
from trimtab.errors import PlantError
from trimtab.testbed import content, reap
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.apache_config import Mpm
from trimtab.testbed.registry import Registry

pytestmark = [pytest.mark.server, pytest.mark.apache]

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
LIMIT = 128 * 2**20
OWNER = """
import sys, time
from pathlib import Path
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
bed = ApacheTestbed(ApacheSpec(max_request_workers=4, memory_limit_bytes=128 * 2**20, swap=True))
bed.start()
print(bed.directory, bed.pid, bed.url("/file500.html"), bed.confinement, sep="|", flush=True)
sys.stdin.read()
bed.stop()
"""


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=300) as reply:
        return bytes(reply.read())


def wait_until(holds: Callable[[], bool], patience_s: float = 60.0) -> bool:
    deadline = time.monotonic() + patience_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def groups_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cgroup").read_text().splitlines()


@pytest.fixture
def confined() -> Iterator[ApacheTestbed]:
    spec = ApacheSpec(max_request_workers=4, php=True, memory_limit_bytes=LIMIT, swap=True, cpus=(0,), cores=0.5)
    with ApacheTestbed(spec) as bed:
        yield bed


@pytest.mark.parametrize("mpm", ["prefork", "worker", "event"])
def test_every_kind_of_apache_serves_files_the_cgi_page_and_its_status(mpm: Mpm) -> None:
    with ApacheTestbed(ApacheSpec(mpm=mpm, max_request_workers=50)) as bed:
        for file in content.WEBSTONE:
            assert get(bed.url(file.path)) == content.body(file)
        began = time.monotonic()
        assert len(get(bed.url(content.cgi_url(service_ms=100, size_bytes=77)))) == 77
        assert time.monotonic() - began >= 0.1
        status = get(f"{bed.status_url}?auto").decode()
        assert f"ServerMPM: {mpm}" in status
        assert "Total Duration" in status, "ExtendedStatus is off"


def test_a_proxy_that_the_environment_names_is_not_asked_for_pages_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where packages come by a proxy `make demo` ended: Apache "did not start"."""
    monkeypatch.delenv("no_proxy")
    with closed_port() as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        with ApacheTestbed(ApacheSpec(max_request_workers=4)) as bed:
            assert bed.status("/file500.html") == 200


def test_the_dynamic_page_uses_the_cpu_time_that_it_is_asked_for() -> None:
    with ApacheTestbed(ApacheSpec(max_request_workers=1, server_limit=1, php=True)) as bed:
        ticks = os.sysconf("SC_CLK_TCK")

        def used_s() -> float:
            worker = only_worker(bed)
            fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / ticks

        before = used_s()
        for _ in range(5):
            get(bed.url(content.dynamic_url(cpu_us=100_000, memory_kb=0)))
        assert 0.5 <= used_s() - before + 2 / ticks <= 0.75


def test_the_memory_of_the_dynamic_page_stays_resident_in_the_worker() -> None:
    with ApacheTestbed(ApacheSpec(max_request_workers=1, server_limit=1, php=True)) as bed:

        def private_kb() -> int:
            worker = only_worker(bed)
            rollup = Path(f"/proc/{worker}/smaps_rollup").read_text().splitlines()
            return sum(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty"))

        get(bed.url("/file500.html"))
        before = private_kb()
        for _ in range(5):
            get(bed.url(content.dynamic_url(cpu_us=0, memory_kb=12_000)))
        assert private_kb() - before >= 12_000


def bed_leader(bed: ApacheTestbed) -> processes.Process:
    leader = processes.identify(bed.pid)
    assert leader is not None
    return leader


def only_worker(bed: ApacheTestbed) -> int:
    (worker,) = [one.pid for one in processes.session(bed_leader(bed)) if one.pid != bed.pid]
    return worker


@root_only
@pytest.mark.root
def test_the_limits_are_in_force_for_the_server_and_its_workers(confined: ApacheTestbed) -> None:
    assert "memory 128 MiB" in confined.confinement and "CPUs 0" in confined.confinement
    assert "0.5 cores" in confined.confinement and "not " not in confined.confinement
    group = confined.cgroups["memory"]

    def members() -> set[int]:
        return {int(p) for p in (group / "cgroup.procs").read_text().split()}

    assert wait_until(lambda: len(members()) == 5), "the parent and its four workers"
    assert confined.pid in members()
    for pid in members():
        assert any(line.endswith(f"/{group.name}") for line in groups_of(pid))
        assert os.sched_getaffinity(pid) == {0}
    v1 = group / "memory.limit_in_bytes"
    assert int((v1 if v1.exists() else group / "memory.max").read_text()) == LIMIT


@root_only
@pytest.mark.root
def test_memory_beyond_the_limit_is_swapped_and_the_server_survives(confined: ApacheTestbed) -> None:
    urls = [confined.url(content.dynamic_url(cpu_us=0, memory_kb=60_000))] * 8
    fetchers = [
        subprocess.Popen([sys.executable, "-c", f"import urllib.request as u; u.urlopen({u!r}).read()"]) for u in urls
    ]
    assert [f.wait(300) for f in fetchers] == [0] * 8
    stat = (confined.cgroups["memory"] / "memory.stat").read_text().split()
    major_faults = int(stat[stat.index("pgmajfault") + 1])
    assert major_faults > 0
    assert processes.identify(confined.pid) is not None


def test_nothing_is_left_after_stop() -> None:
    bed = ApacheTestbed(ApacheSpec(mpm="worker", max_request_workers=50, memory_limit_bytes=LIMIT, swap=True))
    bed.start()
    leader, directory, groups = bed_leader(bed), bed.directory, list(bed.cgroups.values())
    bed.stop()
    bed.stop()
    assert not directory.exists()
    assert not [g for g in groups if g.exists()]
    assert processes.session(leader) == []
    assert str(directory) not in [r.directory for r in Registry().records()]


def test_nothing_is_left_when_the_server_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.testbed.apache_config.text", lambda *_: "Include /no/such/file\n")
    bed = ApacheTestbed(ApacheSpec(memory_limit_bytes=LIMIT))
    with pytest.raises(PlantError, match="/no/such/file"):
        bed.start()
    assert not [g for g in bed.cgroups.values() if g.exists()]
    assert os.getpid() not in [r.owner.pid for r in Registry().records()]


@pytest.mark.alone  # any testbed that starts anywhere clears away what the dead have left
def test_a_killed_owner_takes_its_server_along_and_the_rest_is_reaped() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdin is not None and owner.stdout is not None
    where, pid, url, confinement = owner.stdout.readline().strip().split("|")
    leader = processes.identify(int(pid))
    assert leader is not None and get(url)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    assert wait_until(lambda: not processes.session(leader))
    (record,) = [r for r in Registry().records() if r.directory == where]
    assert any(where in line for line in reap.clean())
    assert not Path(where).exists()
    assert not [g for g in record.cgroups if Path(g).exists()]
    assert where not in [r.directory for r in Registry().records()]
    if "swap on" in confinement and not any(r.swap for r in Registry().records()):
        assert "zram" not in Path("/proc/swaps").read_text()


@pytest.fixture
def readable_package() -> Iterator[Path]:
    """A directory with a copy of the package, and of its codec's, that every user can read."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        for package in (trimtab, msgspec):
            shutil.copytree(Path(str(package.__file__)).parent, directory / package.__name__)
        yield directory


@root_only
@pytest.mark.root
def test_an_ordinary_user_gets_a_server_without_confinement_and_is_told_why(readable_package: Path) -> None:
    owner = subprocess.Popen(
        # Debian's own interpreter: the one that runs this test may be in a place that only root can enter.
        ["/usr/bin/python3", "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user="nobody",
        group="nogroup",
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(readable_package), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert owner.stdin is not None and owner.stdout is not None
    said = owner.stdout.readline().strip().split("|")
    body = get(said[2]) if len(said) == 4 else b""
    owner.stdin.close()
    owner.stdout.close()
    assert owner.wait(300) == 0
    assert len(body) == 500
    assert "not limited in memory" in said[3] or "not confined" in said[3]
    assert "swap needs root" in said[3]
    assert not Path(said[0]).exists()
