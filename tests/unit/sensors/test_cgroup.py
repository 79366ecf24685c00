"""Where a process's control groups are, by what distributions and containers write into mountinfo."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.sensors._cgroup import groups

PID = 42


def made(root: Path, cgroup: str, mounts: str, *directories: str) -> None:
    for name, text in ((f"proc/{PID}/cgroup", cgroup), ("proc/self/mountinfo", mounts)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="ascii")
    for name in directories:
        (root / name).mkdir(parents=True)


def test_groups_of_version_1_are_found_under_selinux_and_with_options_that_nobody_knows_yet(tmp_path: Path) -> None:
    """As RHEL 8 and its kin mount them."""
    mounts = (
        "30 24 0:26 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,seclabel,xattr,"
        "release_agent=/usr/lib/systemd/systemd-cgroups-agent,name=systemd\n"
        "35 24 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:14 - cgroup cgroup rw,seclabel,memory\n"
        "36 24 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,seclabel,favordynmods,cpu,cpuacct\n"
    )
    of_httpd = "/system.slice/httpd.service"
    top = "sys/fs/cgroup"
    made(
        tmp_path,
        f"8:cpu,cpuacct:{of_httpd}\n5:memory:{of_httpd}\n1:name=systemd:{of_httpd}\n",
        mounts,
        *(f"{top}/{one}{of_httpd}" for one in ("memory", "cpu,cpuacct", "systemd")),
    )
    found = groups(PID, tmp_path)
    assert {name: one.path.relative_to(tmp_path / top).parts[0] for name, one in found.items()} == {
        "cpu": "cpu,cpuacct",
        "cpuacct": "cpu,cpuacct",
        "memory": "memory",
        "name=systemd": "systemd",
    }


def test_one_hierarchy_is_not_taken_for_another_or_for_version_2(tmp_path: Path) -> None:
    mounts = (
        "34 24 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,cpuset_v2_mode\n"
        "35 24 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "31 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
    )
    made(
        tmp_path,
        "4:cpuset:/web\n5:memory:/web\n0::/web\n",
        mounts,
        *(f"sys/fs/cgroup/{one}/web" for one in ("cpuset", "memory", "unified")),
    )
    found = groups(PID, tmp_path)
    assert {name: (one.top.name, one.version) for name, one in found.items()} == {
        "cpuset": ("cpuset", 1),
        "memory": ("memory", 1),
        "": ("unified", 2),
    }


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_whose_name_mountinfo_escapes_sees_its_groups(tmp_path: Path, version: int) -> None:
    """As systemd-nspawn makes them for a machine `web-1`: the kernel writes a backslash as `\\134`."""
    unit = r"/machine.slice/machine-web\x2d1.scope"
    options, line = ("cgroup cgroup rw,memory", "5:memory:") if version == 1 else ("cgroup2 cgroup2 rw", "0::")
    root = unit.replace("\\", r"\134")
    made(
        tmp_path,
        f"{line}{unit}/payload\n",
        f"35 24 0:32 {root} /sys/fs/the\\040groups rw - {options}\n",
        "sys/fs/the groups/payload",
    )
    found = groups(PID, tmp_path)["memory" if version == 1 else ""]
    assert found.path == tmp_path / "sys/fs/the groups/payload"
    assert found.top == tmp_path / "sys/fs/the groups"
