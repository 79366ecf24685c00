"""The kernel's knobs that a server can be given, and those that the whole machine shares.

Of a server: how its threads are scheduled, and the swappiness of its own control group. A slice is clipped by the
kernel to 0.1 to 100 ms without a word (`__setparam_fair` in kernel/sched/syscalls.c), so its domain ends there.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trimtab.core import Domain, How, Knob, Role
from trimtab.errors import NotMeasured
from trimtab.plants.linux import putback
from trimtab.plants.linux.target import Target
from trimtab.processes import capable
from trimtab.sensors import _cgroup
from trimtab.trust import untrusted

SLICE, POLICY, NICE = "slice_us", "sched_policy", "sched_nice"
POLICIES = {"other": putback.OTHER, "batch": putback.BATCH, "rr": putback.RR}
_LEAST_US, _MOST_US, _STEP_US = 100, 100_000, 50
_CLIPPED = "the kernel clips a slice to 0.1..100 ms"
_LIVE = "nothing: in force at once, without a reload"
_ALL = "every process of this machine feels it"
_CAP_SYS_NICE = 23
_SWAPPINESS = "How readily anonymous memory is swapped out instead of file pages being dropped."


@dataclass(frozen=True)
class KernelFile:
    """A knob that is one number in a file of the kernel.

    Args:
        knob: the knob.
        path: the file.
        factor: the file's unit for one of the knob's.
    """

    knob: Knob
    path: Path
    factor: int = 1


def base_slice_ns() -> int:
    """The slice that the machine gives a thread that has none of its own; 0 where the kernel has no slices.

    Raises:
        OSError: the kernel does not say.
    """

    def asked() -> int:
        # In a thread of ours that ends at once: 0 asks for the machine's slice.
        now = putback.read(0)
        if now is None or now.policy not in putback.FAIR or not putback.write(0, now._replace(slice_ns=0)):
            return 0
        after = putback.read(0)
        return 0 if after is None else after.slice_ns

    with ThreadPoolExecutor(1) as asking:
        return asking.submit(asked).result()


def may_raise() -> bool:
    """Whether this process may raise priorities, as it takes to put a nice level back.

    In a user namespace of its own, as in a rootless container, root has CAP_SYS_NICE and may not: so it is tried.
    """

    def tried() -> bool:
        # In a thread of ours that ends at once, whose nice level alone 0 stands for.
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 18)
        except PermissionError:
            return False
        return True

    with ThreadPoolExecutor(1) as trying:
        return capable(_CAP_SYS_NICE) and trying.submit(tried).result()


def lets_raise() -> str:
    """What would let this process raise priorities."""
    if os.geteuid() != 0:
        return "run trimtab as root"
    if capable(_CAP_SYS_NICE):
        return "run trimtab outside of this container: its root has CAP_SYS_NICE in a user namespace alone"
    return "give this container's root the capability SYS_NICE"


def of_threads(base_ns: int, raising: bool, real_time: bool) -> tuple[Knob, ...]:
    """The knobs of a server's threads that can be moved here, in the order in which `climb` tries them.

    The nice level is first: it is the one that changed most in the factorial (docs/lab-lamp2016.md).

    Args:
        base_ns: the machine's own slice; 0 where the kernel has no slices.
        raising: whether priorities may be raised.
        real_time: whether SCHED_RR may be chosen.
    """
    found = []
    if raising:
        found.append(
            Knob(
                NICE,
                "sched_attr.sched_nice",
                "levels",
                Domain(-20, 19),
                0,
                How.LIVE,
                _LIVE,
                "Share of the CPU beside other programs: each level less is about a quarter more.",
                Role.PRIORITY,
            )
        )
    if base_ns:
        domain = Domain(_LEAST_US, _MOST_US, _STEP_US, _CLIPPED, logarithmic=True)
        found.append(
            Knob(
                SLICE,
                "sched_attr.sched_runtime",
                "us",
                domain,
                domain.clip(base_ns / 1000),
                How.LIVE,
                _LIVE,
                "For how long a thread of the server may run before others have a turn.",
                Role.SLICE,
            )
        )
    names = tuple(POLICIES) if real_time else ("other", "batch")
    found.append(
        Knob(
            POLICY,
            "sched_attr.sched_policy",
            "policy",
            Domain.choice(*names, limited_by="" if real_time else "rr needs --allow-real-time"),
            0,
            How.LIVE,
            _LIVE,
            "By which policy the server's threads are scheduled; batch threads do not preempt when they wake.",
            Role.SCHEDULING_POLICY,
        )
    )
    return tuple(found)


MACHINE = (
    KernelFile(
        Knob(
            "vm_swappiness",
            "vm.swappiness",
            "percent",
            Domain(0, 200),
            60,
            How.LIVE,
            _ALL,
            _SWAPPINESS,
            Role.SWAPPINESS,
        ),
        Path("/proc/sys/vm/swappiness"),
    ),
    KernelFile(
        Knob(
            "base_slice_us",
            "sched/base_slice_ns",
            "us",
            Domain(_LEAST_US, _MOST_US, _STEP_US, _CLIPPED, logarithmic=True),
            2800,
            How.LIVE,
            _ALL,
            "The slice of every thread that has none of its own.",
            Role.OTHER,
        ),
        Path("/sys/kernel/debug/sched/base_slice_ns"),
        1000,
    ),
    KernelFile(
        Knob(
            "rr_timeslice_ms",
            "kernel.sched_rr_timeslice_ms",
            "ms",
            Domain(1, 1000, logarithmic=True),
            100,
            How.LIVE,
            _ALL,
            "The slice of real-time threads of SCHED_RR; no others feel it.",
            Role.OTHER,
        ),
        Path("/proc/sys/kernel/sched_rr_timeslice_ms"),
    ),
    KernelFile(
        Knob(
            "autogroup",
            "kernel.sched_autogroup_enabled",
            "switch",
            Domain.switch(),
            1,
            How.LIVE,
            _ALL,
            "Whether each session has an equal share of the CPU, in which nice levels count.",
            Role.OTHER,
        ),
        Path("/proc/sys/kernel/sched_autogroup_enabled"),
    ),
    KernelFile(
        Knob(
            "bandwidth_slice_us",
            "kernel.sched_cfs_bandwidth_slice_us",
            "us",
            Domain(1000, 100_000, 1000, logarithmic=True),
            5000,
            How.LIVE,
            _ALL,
            "How much of a CPU quota a CPU takes at once.",
            Role.OTHER,
        ),
        Path("/proc/sys/kernel/sched_cfs_bandwidth_slice_us"),
    ),
)
"""Settings that the whole machine shares."""


def hindrance(one: KernelFile) -> str:
    """Why a file cannot be set from here; empty when it can."""
    if not one.path.exists():
        return f"{one.path} is not there"
    if not os.access(one.path, os.W_OK):
        return f"no permission to write {one.path}"
    return untrusted(one.path) or ""


def of_machine() -> tuple[KernelFile, ...]:
    """The knobs of the whole machine that can be set from here."""
    return tuple(one for one in MACHINE if not hindrance(one))


def own_group(target: Target) -> tuple[KernelFile | None, str]:
    """The swappiness of the servers' own control group, or None and why there is none that is theirs alone."""
    pid = target.pid if target.pid is not None else min(one.pid for one in target.threads().values())
    try:
        group = _cgroup.groups(pid).get("memory")
    except NotMeasured as error:
        return None, str(error)
    if group is None or group.version == 2:
        return None, "control groups of version 2 have no swappiness"
    if group.is_top():
        return None, "the server is in no memory control group of its own"
    # The group's processes first: one that is born meanwhile is then among the server's.
    inside = putback.members([os.fspath(group.path)])
    if inside - {one.pid for one in target.threads().values()}:
        return None, f"{group.path} holds processes of others too"
    knob = Knob(
        "group_swappiness",
        "memory.swappiness",
        "percent",
        Domain(0, 200),
        60,
        How.LIVE,
        _LIVE,
        f"{_SWAPPINESS[:-1]}, in the server's own control group.",
        Role.SWAPPINESS,
    )
    found = KernelFile(knob, group.path / "memory.swappiness")
    why = hindrance(found)
    return (None, why) if why else (found, "")
