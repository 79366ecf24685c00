"""CPU and memory of servers in control groups of version 1, 2 and none, out of trees of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests._cgroup_trees import MIB, PID, V1_STAT, V2_MOUNTS, machine, version_1, version_2, window, write
from tests._memory_plant import StillClock

from trimtab.core.memory import Room
from trimtab.errors import NotMeasured
from trimtab.sensors._cgroup import groups, tasks_left
from trimtab.sensors._memory import rooms
from trimtab.sensors.resources import Resources, probe


def test_version_1_with_a_path_of_its_own_per_controller(tmp_path: Path) -> None:
    version_1(tmp_path)
    stat = V1_STAT.format(swap=50 * MIB, file=100 * MIB, faults=30)
    base = "sys/fs/cgroup"
    readings = window(
        tmp_path,
        {
            f"{base}/cpuacct/web/cpuacct.usage": 1_750_000_000,
            f"{base}/cpuacct/web/cpuacct.stat": "user 90\nsystem 85\n",
            f"{base}/memory/mem/web/memory.stat": stat,
        },
    )
    assert readings["cpu_user_ratio"] == pytest.approx(0.4 / (2 * 0.5))
    assert readings["cpu_ratio"] == pytest.approx(0.75 / (2 * 0.5))
    assert readings["memory_bytes"] == (300 - 100 + 50) * MIB
    assert readings["swap_bytes"] == 50 * MIB
    assert readings["memory_ratio"] == 250 / 400
    assert readings["swap_in_rate_hz"] == 10
    assert "memory_pressure_ratio" not in readings


def test_version_1_without_limits_is_judged_by_the_machine(tmp_path: Path) -> None:
    version_1(tmp_path, quota=-1, limit=9223372036854771712)
    readings = window(tmp_path, {"proc/stat": "cpu  400 0 0 900 50 0 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n"})
    assert readings["cpu_ratio"] == pytest.approx(4.0 / (2 * 4))
    assert readings["cpu_user_ratio"] == readings["cpu_ratio"]
    assert readings["memory_limit_bytes"] == 1024 * MIB


def test_what_the_kernel_does_and_who_is_nice_is_no_work_for_requests(tmp_path: Path) -> None:
    version_1(tmp_path, quota=-1)
    jiffies = "cpu  100 60 140 900 50 0 20 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n"
    readings = window(tmp_path, {"proc/stat": jiffies})
    assert readings["cpu_ratio"] == pytest.approx(3.2 / (2 * 4))
    assert readings["cpu_user_ratio"] == pytest.approx(1.0 / (2 * 4))


def test_a_limit_whose_cpu_time_nobody_counts_leaves_cpu_unmeasured(tmp_path: Path) -> None:
    version_1(tmp_path)
    path = tmp_path / "proc" / str(PID) / "cgroup"
    path.write_text(path.read_text("ascii").replace("2:cpuacct:/web", "2:cpuacct:/"), encoding="ascii")
    readings = window(tmp_path, {})
    assert "cpu_ratio" not in readings
    assert readings["memory_ratio"] == 250 / 400
    finding = {f.subject: f for f in probe(PID, tmp_path)}["CPU"]
    assert not finding.usable and "cpuacct" in finding.detail and "cpuacct" in finding.enable


@pytest.mark.parametrize(
    ("memsw", "free"),
    [(None, 90), (9223372036854771712, 90), (600 * MIB, 150), (480 * MIB, 30), (430 * MIB, 0), (400 * MIB, 0)],
    ids=["not counted", "no limit", "more than the machine has", "some", "used up", "none allowed"],
)
def test_swap_that_is_left_is_the_machines_or_that_of_the_group(tmp_path: Path, memsw: int | None, free: int) -> None:
    """Of version 1, whose limit is of memory and swap together: 400 MiB of it is memory, and 50 MiB are swapped."""
    version_1(tmp_path)
    for group in ("memory", "memory/mem", "memory/mem/web"):
        if memsw is not None:
            own = memsw if group.endswith("web") else 9223372036854771712
            write(tmp_path, {f"sys/fs/cgroup/{group}/memory.memsw.limit_in_bytes": own})
            write(tmp_path, {f"sys/fs/cgroup/{group}/memory.memsw.usage_in_bytes": 350 * MIB})
    assert window(tmp_path, {})["swap_free_bytes"] == min(free, 90) * MIB


@pytest.mark.parametrize(("limit", "free"), [("max", 90), (str(100 * MIB), 40), ("0", 0)])
def test_swap_that_is_left_under_version_2(tmp_path: Path, limit: str, free: int) -> None:
    version_2(tmp_path, memory_swap_max=limit)
    assert window(tmp_path, {})["swap_free_bytes"] == free * MIB


def test_the_fewest_tasks_that_a_group_or_one_above_it_leaves_count(tmp_path: Path) -> None:
    version_2(tmp_path, pids_max="max", pids_current="60")
    assert tasks_left(PID, tmp_path) is None
    above = "sys/fs/cgroup/system.slice"
    write(tmp_path, {"sys/fs/cgroup/cgroup.controllers": "cpu memory pids"})
    write(tmp_path, {f"{above}/pids.max": "1024", f"{above}/pids.current": "124"})
    assert tasks_left(PID, tmp_path) == 900
    write(tmp_path, {f"{above}/apache2.service/pids.max": "100"})
    assert tasks_left(PID, tmp_path) == 40


def test_version_2_with_a_cpuset_and_a_memory_limit(tmp_path: Path) -> None:
    """What others use of the same CPUs is not left for the server."""
    version_2(tmp_path, memory_max=str(200 * MIB))
    group = "sys/fs/cgroup/system.slice/apache2.service"
    readings = window(
        tmp_path,
        {
            "proc/stat": "cpu  900 0 0 900 50\ncpu0 1\ncpu1 101 0 50 7 9\ncpu2 51 0 0 7\ncpu3 600\n",
            f"{group}/cpu.stat": "usage_usec 1500000\nuser_usec 5",
            f"{group}/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=600000\nfull total=0",
        },
    )
    assert readings["cpu_ratio"] == pytest.approx(2.0 / (2 * 2))
    assert readings["cpu_user_ratio"] == pytest.approx(1.5 / (2 * 2))
    assert readings["cpu_pressure_ratio"] == pytest.approx(0.25)
    assert readings["memory_pressure_ratio"] == 0
    assert readings["memory_bytes"] == (300 - 100 + 60 - 10) * MIB
    assert readings["memory_ratio"] == 250 / 200
    assert readings["worker_memory_bytes"] == (250 - 40 - 10) * MIB / 2


def test_a_worker_that_has_served_takes_more_than_the_mean_but_not_as_much_as_one_that_leaks(tmp_path: Path) -> None:
    """Seven workers of 3 MiB: two have taken 12 more, and one 97."""
    version_2(tmp_path, memory_current=str(500 * MIB))
    group = "sys/fs/cgroup/system.slice/apache2.service"
    sizes = {43: 3, 44: 15, 45: 3, 46: 3, 47: 100, 48: 15, 49: 3}
    files: dict[str, object] = {f"{group}/cgroup.procs": "\n".join(map(str, (PID, *sizes)))}
    for pid, mib in sizes.items():
        files[f"proc/{pid}/stat"] = f"{pid} (apache2) S {PID} 1"
        files[f"proc/{pid}/status"] = f"RssAnon: {(mib - 2) * 1024} kB\nVmSwap: {2 * 1024} kB\n"
    write(tmp_path, files)
    mean, without_it = (500 - 100 + 60 - 10 - 40 - 10) / 7, (4 * 3 + 2 * 15) / 6
    readings = window(tmp_path, {})
    assert readings["worker_memory_bytes"] / MIB == pytest.approx(mean)
    assert readings["served_worker_memory_bytes"] / MIB == pytest.approx(mean + 15 - without_it)


def test_what_a_worker_has_started_is_part_of_what_it_takes_also_without_a_group_of_the_servers_own(
    tmp_path: Path,
) -> None:
    """A worker of Apache's mpm-itk forks for each connection, and its child, as another user, does the work."""
    machine(tmp_path, "0::/\n", V2_MOUNTS)
    files: dict[str, object] = {}
    for pid, parent, kib in ((43, PID, 200), (44, PID, 200), (50, 43, 30_000), (51, 50, 999)):
        files[f"proc/{pid}/stat"] = f"{pid} (apache2) S {parent} 1"
        files[f"proc/{pid}/status"] = "RssAnon: 200 kB\nVmSwap: 0 kB\n"
        files[f"proc/{pid}/task/{pid}/children"] = {43: "50 ", 50: "51 "}.get(pid, "")
        files[f"proc/{pid}/smaps_rollup"] = f"Private_Clean: 0 kB\nPrivate_Dirty: {kib} kB\nSwapPss: 0 kB\n"
    write(tmp_path, {**files, f"proc/{PID}/task/{PID}/children": "43 44 "})
    assert window(tmp_path, {})["worker_memory_bytes"] == (200 + 200 + 30_000) * 1024 / 2


def test_a_program_that_the_server_writes_its_logs_to_is_none_of_its_workers(tmp_path: Path) -> None:
    """Two processes of event and four of rotatelogs are two workers."""
    version_2(tmp_path)
    group, logs = "sys/fs/cgroup/system.slice/apache2.service", range(50, 54)
    files: dict[str, object] = {f"{group}/cgroup.procs": "\n".join(map(str, (PID, 43, 44, *logs)))}
    for pid in (43, 44, *logs):
        files[f"proc/{pid}/stat"] = f"{pid} (x) S {PID} 1"
        files[f"proc/{pid}/status"] = f"RssAnon: {1 if pid in logs else 90} kB\nVmSwap: 0 kB\n"
    write(tmp_path, files)
    for pid in (PID, 43, 44):
        (tmp_path / f"proc/{pid}/exe").symlink_to("/usr/sbin/apache2")
    for pid in logs:
        (tmp_path / f"proc/{pid}/exe").symlink_to("/usr/bin/rotatelogs")
    readings = window(tmp_path, {})
    assert readings["worker_memory_bytes"] == (250 - 40 - 10) * MIB / 2
    assert readings["served_worker_memory_bytes"] == readings["worker_memory_bytes"]


def test_the_least_quota_on_the_way_to_the_top_binds(tmp_path: Path) -> None:
    version_2(tmp_path, cpu_max="300000 100000")
    write(
        tmp_path,
        {
            "sys/fs/cgroup/system.slice/cpu.max": "150000 100000",
            "sys/fs/cgroup/system.slice/cpu.stat": "usage_usec 0\nuser_usec 0",
        },
    )
    change = {"sys/fs/cgroup/system.slice/cpu.stat": "usage_usec 3000000\nuser_usec 2000000"}
    readings = window(tmp_path, change)
    assert readings["cpu_ratio"] == pytest.approx(3.0 / (2 * 1.5))
    assert readings["cpu_user_ratio"] == pytest.approx(2.0 / (2 * 1.5))


def test_without_control_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n", V2_MOUNTS)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    readings = window(tmp_path, {"proc/vmstat": "pgmajfault 27\n"})
    assert readings["memory_bytes"] == (512 - 100 - 200 - 12 + 100) * MIB
    assert readings["memory_ratio"] == 300 / 1024
    assert readings["swap_bytes"] == 100 * MIB
    assert readings["swap_in_rate_hz"] == 10


def test_the_pressure_in_a_container_is_that_of_its_own_group_though_it_is_the_top_that_can_be_seen(
    tmp_path: Path,
) -> None:
    """In a control group namespace; on the host others wait for memory half of the time."""
    machine(tmp_path, "0::/\n", V2_MOUNTS)
    said = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull total=0"
    write(tmp_path, {"sys/fs/cgroup/memory.pressure": said.format(0), "proc/pressure/memory": said.format(0)})
    of_the_group, of_the_host = said.format(200_000), said.format(1_000_000)
    readings = window(tmp_path, {"sys/fs/cgroup/memory.pressure": of_the_group, "proc/pressure/memory": of_the_host})
    assert readings["memory_pressure_ratio"] == pytest.approx(0.1)


def test_a_group_outside_of_what_can_be_seen_is_not_used(tmp_path: Path) -> None:
    machine(tmp_path, "0::/../other.service\n", V2_MOUNTS)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    assert groups(PID, tmp_path) == {}


def test_a_container_sees_its_group_below_the_root_of_the_mount(tmp_path: Path) -> None:
    mounts = V2_MOUNTS.replace(" / /sys", " /docker/abc /sys")
    machine(tmp_path, "0::/docker/abc/web\n", mounts)
    write(tmp_path, {"sys/fs/cgroup/web/cgroup.procs": "", "sys/fs/cgroup/cgroup.controllers": "memory"})
    assert groups(PID, tmp_path)["memory"].path == tmp_path / "sys/fs/cgroup/web"


STRANGE = os.fsdecode(b"w\xff\x1b[2J\x0b\r\xc2\x85\xe2\x80\xa8b")
"""What a stranger may call a group or a mount point: not UTF-8, with all that may be taken for the end of a line."""


def test_a_group_with_a_strangers_name_is_measured_and_named_as_can_be_shown(tmp_path: Path) -> None:
    version_2(tmp_path, memory_max=str(200 * MIB), cpu_max="150000 100000")
    above, proc = tmp_path / "sys/fs/cgroup/system.slice", tmp_path / "proc"
    (above / "apache2.service").rename(above / STRANGE)
    (proc / str(PID) / "cgroup").write_bytes(os.fsencode(f"0::/system.slice/{STRANGE}\n"))
    mount = f"60 23 0:60 / /home/{STRANGE} rw,nosuid - fuse.x x rw,user_id=1000\n"
    (proc / "self" / "mountinfo").write_bytes(os.fsencode(mount + V2_MOUNTS))
    assert groups(PID, tmp_path)["memory"].path == above / STRANGE
    assert window(tmp_path, {})["memory_ratio"] == 250 / 200
    findings = {one.subject: one for one in probe(PID, tmp_path)}
    alone = {one.subject for one in probe(PID, tmp_path, workers=False)}
    assert findings.keys() - alone == {"memory of a worker"}, "of a server that is one process nothing is said of one"
    assert all(one.detail.isprintable() for one in findings.values())
    for subject in ("CPU", "memory"):
        assert findings[subject].usable and r"w\udcff\x1b[2J" in findings[subject].detail


def test_a_quota_of_a_group_with_a_strangers_name_that_nobody_counts_is_told_as_can_be_shown(tmp_path: Path) -> None:
    version_1(tmp_path)
    cpu = tmp_path / "sys/fs/cgroup/cpu"
    (cpu / "web").rename(cpu / STRANGE)
    text = (tmp_path / "proc" / str(PID) / "cgroup").read_bytes()
    (tmp_path / "proc" / str(PID) / "cgroup").write_bytes(text.replace(b":cpu:/web", os.fsencode(f":cpu:/{STRANGE}")))
    (finding,) = [one for one in probe(PID, tmp_path) if one.subject == "CPU"]
    assert not finding.usable and finding.detail.isprintable() and "cpuacct" in finding.detail


def test_a_group_that_is_removed_is_not_measured(tmp_path: Path) -> None:
    version_1(tmp_path)
    sensor = Resources(PID, StillClock(), root=tmp_path)
    sensor.begin()
    (tmp_path / "sys/fs/cgroup/cpuacct/web/cpuacct.usage").write_text("", encoding="ascii")
    with pytest.raises(NotMeasured, match=r"cpuacct\.usage"):
        sensor.read()
    sensor.close()
    sensor.close()


def test_a_process_that_is_gone_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match=f"pid {PID}: No such file"):
        Resources(PID, StillClock(), root=tmp_path).begin()
    (finding,) = probe(PID, tmp_path)
    assert not finding.usable


V2_SLICE = "sys/fs/cgroup/system.slice"
V2_GROUP = f"{V2_SLICE}/apache2.service"
V1_BASE = "sys/fs/cgroup"
V1_MEMORY: Mapping[str, object] = {"usage_in_bytes": 300 * MIB, "stat": "total_active_file 0\ntotal_pgmajfault 0\n"}
"""What a group of version 1 has beside its limit."""


class Watched:
    """A sensor whose windows last 2 s and follow each other at once, so that one begins where the other has ended."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, StillClock()
        self.sensor = Resources(PID, self.clock, root=root)

    def window(self, change: Mapping[str, object]) -> dict[str, float]:
        """The readings of a window within which these files change."""
        self.sensor.begin()
        write(self.root, change)
        self.clock.seconds += 2.0
        return dict(self.sensor.read())


def used(seconds: float) -> dict[str, object]:
    """CPU time that the group and CPUs 1 and 2, its own, have used by then."""
    ticks = round(100 * seconds)
    return {
        f"{V2_GROUP}/cpu.stat": f"usage_usec {round(1e6 * seconds)}\nuser_usec 0",
        "proc/stat": f"cpu  {ticks} 0 0 900 50\ncpu0 1\ncpu1 {ticks} 0 0 7 9\ncpu2 0 0 0 7\ncpu3 6\n",
    }


def test_a_memory_limit_that_is_set_in_mid_window_counts_from_the_next_window_on(tmp_path: Path) -> None:
    version_2(tmp_path)
    watched = Watched(tmp_path)
    assert watched.window({f"{V2_GROUP}/memory.max": 500 * MIB})["memory_limit_bytes"] == 1024 * MIB
    readings = watched.window({f"{V2_GROUP}/memory.max": 400 * MIB})
    assert (readings["memory_limit_bytes"], readings["memory_ratio"]) == (500 * MIB, 250 / 500)
    assert watched.window({f"{V2_GROUP}/memory.max": "max"})["memory_limit_bytes"] == 400 * MIB
    assert watched.window({})["memory_limit_bytes"] == 1024 * MIB


@pytest.mark.parametrize(
    ("most", "high", "limit"), [("max", 300, 300), (500, 300, 300), (300, 500, 300), (300, 0, 300)]
)
def test_a_group_whose_memory_is_taken_away_before_its_limit_has_no_more(
    tmp_path: Path, most: str | int, high: int, limit: int
) -> None:
    """systemd's MemoryHigh."""
    version_2(tmp_path)
    watched = Watched(tmp_path)
    set_to = {"max": most if most == "max" else int(most) * MIB, "high": high * MIB}
    watched.window({f"{V2_GROUP}/memory.{name}": value for name, value in set_to.items()})
    readings = watched.window({})
    assert (readings["memory_limit_bytes"], readings["memory_ratio"]) == (limit * MIB, 250 / limit)
    assert [room.limit_bytes for room in rooms(PID, tmp_path)] == [limit * MIB, 1024 * MIB]


def test_a_quota_that_is_set_in_mid_window_parts_no_window_into_two_measures(tmp_path: Path) -> None:
    """Two cores are half used; then half a core is allowed, and three quarters of it are used."""
    version_2(tmp_path)
    write(tmp_path, used(0.0))
    watched = Watched(tmp_path)
    before = watched.window({f"{V2_GROUP}/cpu.max": "50000 100000", **used(2.0)})
    assert (before["cpu_cores"], before["cpu_ratio"]) == pytest.approx((2.0, 0.5))
    after = watched.window(used(2.75))
    assert (after["cpu_cores"], after["cpu_ratio"]) == pytest.approx((0.5, 0.75))


@pytest.mark.parametrize(
    ("change", "cores"),
    [
        ({f"{V2_GROUP}/cpu.max": "150000 100000"}, 1.5),
        ({f"{V2_SLICE}/cpu.max": "100000 100000", f"{V2_SLICE}/cpu.stat": "usage_usec 0\nuser_usec 0"}, 1),
        ({f"{V2_GROUP}/cpuset.cpus.effective": "1"}, 1),
    ],
    ids=["own quota", "quota of the slice, which had no such file", "cpuset"],
)
def test_every_limit_of_cpu_on_the_way_to_the_top_is_followed(
    tmp_path: Path, change: Mapping[str, object], cores: float
) -> None:
    version_2(tmp_path)
    watched = Watched(tmp_path)
    assert watched.window(change)["cpu_cores"] == 2
    assert watched.window({})["cpu_cores"] == cores


def test_a_server_that_is_bound_to_a_cpu_has_no_others_and_what_others_do_there_counts(tmp_path: Path) -> None:
    """systemd's CPUAffinity and taskset, of which no control group tells; CPUs 64 to 127 there could be."""
    version_2(tmp_path)

    def bound(to: str) -> dict[str, object]:
        return {f"proc/{PID}/status": f"Name: apache2\nRssAnon: 0 kB\nCpus_allowed_list:\t{to}\n"}

    write(tmp_path, {f"{V2_GROUP}/cpuset.cpus.effective": "0-3", **bound("2,64-127")})
    watched, busy = Watched(tmp_path), "cpu  900 0 0 900 50\ncpu0 901\ncpu1 801\ncpu2 51 0 0 7 9\ncpu3 600\n"
    before = watched.window({"proc/stat": busy, **bound("0-127")})
    assert (before["cpu_cores"], before["cpu_ratio"]) == pytest.approx((1.0, 0.25))
    assert watched.window({})["cpu_cores"] == 4


def test_in_a_container_whose_cpus_are_numbered_anew_all_of_them_count(tmp_path: Path) -> None:
    """By lxcfs with --enable-cfs CPUs 1 and 2 of the machine are 0 and 1 there; one is busy, the other idle."""
    version_2(tmp_path)
    write(tmp_path, {f"proc/{PID}/status": "RssAnon: 0 kB\nCpus_allowed_list:\t1-2\n", **cpus("0-1", 0, 0)})
    readings = window(tmp_path, cpus("0-1", 200, 0))
    assert (readings["cpu_cores"], readings["cpu_ratio"]) == pytest.approx((2, 0.5))


def cpus(online: str, *ticks: int) -> dict[str, object]:
    """What each CPU that is on has computed so far, of two that are busy all the time."""
    each = "".join(f"cpu{cpu} {of_one} 0 0 7 9\n" for cpu, of_one in enumerate(ticks))
    return {"sys/devices/system/cpu/online": online, "proc/stat": f"cpu  {sum(ticks)} 0 0 900 50\n{each}"}


def test_cpus_that_are_added_to_a_machine_count_from_the_next_window_on(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n", V2_MOUNTS)
    write(tmp_path, cpus("0-1", 0, 0))
    watched = Watched(tmp_path)
    assert watched.window(cpus("0-1", 200, 200))["cpu_ratio"] == pytest.approx(1.0)
    watched.window(cpus("0-3", 400, 400, 0, 0))
    after = watched.window(cpus("0-3", 500, 500, 100, 100))
    assert (after["cpu_cores"], after["cpu_ratio"]) == pytest.approx((4, 0.5))


def test_a_cpu_that_goes_off_in_mid_window_makes_no_use_of_less_than_nothing(tmp_path: Path) -> None:
    """CPU 3 of those to which the server is bound; its time is in no file any more."""
    machine(tmp_path, "0::/\n", V2_MOUNTS)
    bound: dict[str, object] = {f"proc/{PID}/status": "RssAnon: 0 kB\nCpus_allowed_list:\t2-3\n"}
    write(tmp_path, {**bound, **cpus("0-3", 0, 0, 900, 900)})
    watched = Watched(tmp_path)
    assert "cpu_ratio" not in watched.window(cpus("0-2", 0, 0, 1000))
    after = watched.window(cpus("0-2", 0, 0, 1100))
    assert (after["cpu_cores"], after["cpu_ratio"]) == pytest.approx((1, 0.5))


@pytest.mark.parametrize("group", ["memory/mem/web", "memory/mem"])
def test_limits_of_version_1_are_followed(tmp_path: Path, group: str) -> None:
    version_1(tmp_path)
    write(tmp_path, {f"{V1_BASE}/memory/mem/memory.{name}": text for name, text in V1_MEMORY.items()})
    watched = Watched(tmp_path)
    change = {f"{V1_BASE}/{group}/memory.limit_in_bytes": 350 * MIB, f"{V1_BASE}/cpu/web/cpu.cfs_quota_us": 200_000}
    before = watched.window(change)
    assert (before["memory_limit_bytes"], before["cpu_cores"]) == (400 * MIB, 0.5)
    after = watched.window({})
    assert (after["memory_limit_bytes"], after["cpu_cores"]) == (350 * MIB, 2)


def test_a_server_that_is_put_into_another_group_has_the_limits_of_that(tmp_path: Path) -> None:
    version_2(tmp_path, memory_max=str(500 * MIB))
    other = "sys/fs/cgroup/other.service"
    files = {"max": 600 * MIB, "current": 90 * MIB, "stat": "pgmajfault 1\n"}
    write(tmp_path, {f"{other}/memory.{name}": text for name, text in files.items()})
    write(tmp_path, {f"{other}/cgroup.procs": PID})
    watched = Watched(tmp_path)
    before = watched.window({f"proc/{PID}/cgroup": "0::/other.service\n"})
    assert (before["memory_limit_bytes"], before["memory_bytes"]) == (500 * MIB, 250 * MIB)
    after = watched.window({})
    assert (after["memory_limit_bytes"], after["memory_bytes"]) == (600 * MIB, 90 * MIB)
    assert after["swap_in_rate_hz"] == 0


def test_what_a_worker_takes_is_looked_at_again_once_a_limit_is_another(tmp_path: Path) -> None:
    """Where a process's children are not listed, a look stands for 5 s."""
    version_2(tmp_path)
    watched, grown = Watched(tmp_path), {f"{V2_GROUP}/memory.current": 500 * MIB}
    before = watched.window({f"{V2_GROUP}/memory.max": 600 * MIB})
    assert before["worker_memory_bytes"] == (250 - 40 - 10) * MIB / 2
    assert watched.window(grown)["worker_memory_bytes"] == (450 - 40 - 10) * MIB / 2


def test_while_limits_stay_a_window_counts_from_the_end_of_the_one_before(tmp_path: Path) -> None:
    version_2(tmp_path)
    write(tmp_path, used(0.0))
    watched = Watched(tmp_path)
    watched.window(used(2.0))
    write(tmp_path, used(3.0))
    assert watched.window(used(4.0))["cpu_ratio"] == pytest.approx(0.5), "nothing between the two is lost"


def test_a_server_that_has_ended_is_not_measured_any_more_and_its_successor_is(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n", V2_MOUNTS)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    watched = Watched(tmp_path)
    assert watched.window({})["memory_ratio"] == 300 / 1024
    kept = tmp_path / f"proc/{PID}/cgroup"
    kept.rename(tmp_path / "kept")
    for _ in range(2):
        with pytest.raises(NotMeasured, match=f"pid {PID}: No such file"):
            watched.window({})
    (tmp_path / "kept").rename(kept)
    assert watched.window({})["memory_ratio"] == 300 / 1024


def test_the_limits_of_a_process_are_those_of_its_groups_and_the_machines_with_what_is_there(tmp_path: Path) -> None:
    machine(tmp_path, "0::/a/b\n", V2_MOUNTS)
    group = "sys/fs/cgroup/a"
    write(
        tmp_path,
        {
            f"proc/{PID}/status": "Name:\tmariadbd\nRssAnon:\t 51200 kB\nRssFile:\t 9999 kB\nVmSwap:\t 10240 kB\n",
            "sys/fs/cgroup/cgroup.controllers": "memory\n",
            f"{group}/memory.current": 400 * MIB,
            f"{group}/memory.stat": f"active_file {100 * MIB}\n",
            f"{group}/memory.max": f"{600 * MIB}\n",
            f"{group}/b/memory.max": "max\n",
        },
    )
    of_group, of_machine = rooms(PID, tmp_path)
    assert of_group == Room(f"control group {tmp_path / group}", 600 * MIB, 300 * MIB, 60 * MIB)
    assert of_machine == Room("the machine", 1024 * MIB, 300 * MIB, 60 * MIB)
