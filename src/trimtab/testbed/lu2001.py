"""The server and the clients of lu2001's experiments (Section 7) on one machine, scaled in time.

128 prefork workers, a connection TIMEOUT of 15 s, SURGE's files and its users, whose class is told by the source
address: 127.0.1.1 for class 0, 127.0.2.1 for class 1, 127.0.3.1 for class 2. In mid-run the users of class 0 double.
"""

from __future__ import annotations

from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.setups import server_cpus
from trimtab.workloads._lu2001 import WORKERS, keep_alive_time_ms, users_of_lu2001
from trimtab.workloads._population import Population, Step
from trimtab.workloads._surge_files import FileSet

STEP_S = 870.0
"""Time at which the second client machine of class 0 joins, before it is scaled."""


def server(time_scale: float = 1.0, workers: int = WORKERS) -> ApacheSpec:
    """The server: a pool of this size at any time.

    Args:
        time_scale: divides KeepAliveTimeout.
        workers: the pool's size; M in the paper.
    """
    return ApacheSpec(
        mpm="prefork",
        max_request_workers=workers,
        server_limit=workers,
        keep_alive_timeout_ms=keep_alive_time_ms(time_scale),
        # All users of the paper can wait at once, with a gate before the server or without.
        listen_backlog=1024,
        surge_files=FileSet().files,
        cpus=server_cpus(),
        cpu_weight=100,
    )


def source(index: int) -> str:
    """The address that the clients of a class send from.

    Args:
        index: index of the class, from 0; at most 253.
    """
    return f"127.0.{index + 1}.1"


def clients(users: dict[str, int], time_scale: float = 1.0, step: bool = False) -> tuple[Population, ...]:
    """The users of each class.

    Args:
        users: class name to its users, the highest priority first.
        time_scale: divides OFF times and the time of the step.
        step: whether the users of the first class double in mid-run (Sections 7.3.1 and 7.3.3).
    """
    doubled = (Step(STEP_S / time_scale, 2.0),) if step else ()
    return tuple(
        users_of_lu2001(name, count, time_scale, () if index else doubled, source(index)).population()
        for index, (name, count) in enumerate(users.items())
    )
