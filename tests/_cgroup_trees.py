"""A server of process 42 in control groups of version 1, 2 and none, as trees of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests._memory_plant import StillClock
from trimtab.sensors.resources import Resources

MIB = 1 << 20
PID = 42
V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
"""
V2_MOUNTS = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_STAT = (
    "cache 9\nswap 1\ntotal_swap {swap}\ntotal_active_file {file}\ntotal_inactive_file 0\ntotal_pgmajfault {faults}\n"
)


def write(root: Path, files: Mapping[str, object]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}", encoding="ascii")


def machine(root: Path, cgroup: str, mounts: str, jiffies: int = 0) -> None:
    """A machine of four cores and 1 GiB, of which 300 MiB are in demand, 100 MiB of them swapped."""
    write(
        root,
        {
            f"proc/{PID}/cgroup": cgroup,
            f"proc/{PID}/status": "RssAnon: 0 kB\n",
            f"proc/{PID}/stat": f"{PID} (apache (2)) S 1 1 1",
            "proc/self/mountinfo": mounts,
            "proc/stat": f"cpu  {jiffies} 0 0 900 50 0 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\nintr 5\n",
            "proc/meminfo": (
                "MemTotal: 1048576 kB\nMemFree: 524288 kB\nActive(file): 102400 kB\nInactive(file): 204800 kB\n"
                "SReclaimable: 12288 kB\nSwapTotal: 204800 kB\nSwapFree: 92160 kB\nSwapCached: 10240 kB\n"
            ),
            "proc/vmstat": "pgfault 5000\npgmajfault 7\n",
        },
    )


def window(root: Path, change: Mapping[str, object]) -> dict[str, float]:
    """The readings of a window of 2 s at the end of which these files have changed."""
    clock = StillClock()
    sensor = Resources(PID, clock, root=root)
    sensor.begin()
    write(root, change)
    clock.seconds = 2.0
    readings = dict(sensor.read())
    sensor.close()
    return readings


def version_1(root: Path, quota: int = 50_000, limit: int = 400 * MIB) -> None:
    machine(root, "4:memory:/mem/web\n3:cpuset:/\n2:cpuacct:/web\n1:cpu:/web\n9:name=systemd:/x\n", V1_MOUNTS)
    base = "sys/fs/cgroup"
    write(
        root,
        {
            f"{base}/cpu/web/cpu.cfs_quota_us": quota,
            f"{base}/cpu/web/cpu.cfs_period_us": 100_000,
            f"{base}/cpuacct/web/cpuacct.usage": 1_000_000_000,
            f"{base}/cpuacct/web/cpuacct.stat": "user 50\nsystem 50\n",
            f"{base}/cpuset/cpuset.effective_cpus": "0-3",
            f"{base}/memory/memory.limit_in_bytes": 9223372036854771712,
            f"{base}/memory/mem/memory.limit_in_bytes": 9223372036854771712,
            f"{base}/memory/mem/web/memory.limit_in_bytes": limit,
            f"{base}/memory/mem/web/memory.usage_in_bytes": 300 * MIB,
            f"{base}/memory/mem/web/memory.stat": V1_STAT.format(swap=50 * MIB, file=100 * MIB, faults=10),
            f"{base}/memory/mem/web/cgroup.procs": f"{PID}\n",
        },
    )


def version_2(root: Path, **changes: str) -> None:
    machine(root, "0::/system.slice/apache2.service\n", V2_MOUNTS)
    group = "sys/fs/cgroup/system.slice/apache2.service"
    write(
        root,
        {
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory",
            f"{group}/cpu.max": "max 100000",
            f"{group}/cpu.stat": "usage_usec 1000000\nuser_usec 5",
            f"{group}/cpuset.cpus.effective": "1-2",
            f"{group}/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=100000\nfull total=0",
            f"{group}/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull total=0",
            f"{group}/memory.max": "max",
            f"{group}/memory.current": 300 * MIB,
            f"{group}/memory.swap.current": 60 * MIB,
            f"{group}/memory.stat": (
                f"anon 5\nactive_file {50 * MIB}\ninactive_file {30 * MIB}\nslab_reclaimable {20 * MIB}\n"
                f"swapcached {10 * MIB}\npgmajfault 4\nshmem {40 * MIB}\n"
            ),
            f"{group}/cgroup.procs": f"{PID}\n43\n44\n",
            f"proc/{PID}/status": "Name: apache2\nRssAnon: 10240 kB\nVmSwap: 0 kB\nVmPTE: 0 kB\n",
            "proc/43/stat": f"43 (apache2) S {PID} 1",
            "proc/44/stat": f"44 (a) b) S {PID} 1",
            **{f"{group}/{name.replace('_', '.')}": text for name, text in changes.items()},
        },
    )
