"""Which files confinement writes, on imitations of both versions of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimtab.testbed.cgroup import Confinement, Limits


def imitation_v1(root: Path) -> Path:
    for controller in ("memory", "cpu", "cpuset", "cpuacct"):
        (root / controller).mkdir(parents=True)
    (root / "cpuset" / "cpuset.mems").write_text("0\n")
    return root


def imitation_v2(root: Path) -> Path:
    root.mkdir(parents=True)
    for name in ("cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"):
        (root / name).touch()
    return root


def text(path: Path) -> str:
    return path.read_text().strip()


def test_version_1_gets_one_group_per_controller(tmp_path: Path) -> None:
    limits = Limits(memory_limit_bytes=2**20, swap=True, cores=0.5, cpus=(0, 2), cpu_weight=10)
    made = Confinement(limits, imitation_v1(tmp_path / "v1")).directories
    assert set(made) == {"memory", "cpu", "cpuset", "cpuacct"}
    assert text(made["memory"] / "memory.limit_in_bytes") == str(2**20)
    assert not (made["memory"] / "memory.memsw.limit_in_bytes").exists()
    assert text(made["cpu"] / "cpu.cfs_quota_us") == "50000"
    assert text(made["cpu"] / "cpu.shares") == "10240"
    assert text(made["cpuset"] / "cpuset.cpus") == "0,2"
    assert text(made["cpuset"] / "cpuset.mems") == "0"


def test_without_swap_memory_and_swap_share_one_limit(tmp_path: Path) -> None:
    made = Confinement(Limits(memory_limit_bytes=2**20), imitation_v1(tmp_path / "v1")).directories
    assert text(made["memory"] / "memory.memsw.limit_in_bytes") == str(2**20)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's groups are found through /proc/self/cgroup")
def test_version_2_gets_one_group_for_all(tmp_path: Path) -> None:
    root = imitation_v2(tmp_path / "v2")
    limits = Limits(memory_limit_bytes=2**20, swap=False, cores=1.5, cpus=(1,))
    made = Confinement(limits, root).directories
    assert len(set(made.values())) == 1
    group = made["memory"]
    assert text(group / "memory.max") == str(2**20)
    assert text(group / "memory.swap.max") == "0"
    assert text(group / "cpu.max") == "150000 100000"
    assert text(group / "cpuset.cpus") == "1"
    assert text(root / "cgroup.subtree_control") == "+memory +cpu +cpuset"


def test_what_cannot_be_limited_is_said_with_the_reason(tmp_path: Path) -> None:
    confinement = Confinement(Limits(memory_limit_bytes=2**20), tmp_path / "nothing")
    assert confinement.directories == {}
    assert str(confinement).startswith("not limited in memory: No such file or directory")


def test_no_limit_makes_no_group(tmp_path: Path) -> None:
    root = imitation_v1(tmp_path / "v1")
    confinement = Confinement(Limits(), root)
    assert confinement.procs_files() == []
    assert str(confinement) == "none: no limit was asked for"
    assert list((root / "memory").iterdir()) == []
