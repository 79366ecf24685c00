"""The kernel's count of connections, on a machine whose CPUs come and go."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from trimtab.errors import NotMeasured
from trimtab.sensors import _arrivals
from trimtab.sensors._arrivals import Arrivals


class Kernel:
    """Connections come to every CPU that is on; a counter is of those that were when it was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cpus: set[int]) -> None:
        self.cpus, self.came, self.everywhere, self.refuses = cpus, dict.fromkeys(range(8), 0), 0, False
        monkeypatch.setattr(_arrivals, "Ports", lambda ports: Counter(self, ports))
        monkeypatch.setattr(_arrivals, "_online", lambda: set(self.cpus))
        monkeypatch.setattr(_arrivals.Namespace, "count", lambda _: self.everywhere)

    def connect(self, each: int, elsewhere: int = 0) -> None:
        """So many connections on each CPU, and some to other ports."""
        for cpu in self.cpus:
            self.came[cpu] += each
        self.everywhere += each * len(self.cpus) + elsewhere


class Counter:
    def __init__(self, kernel: Kernel, ports: Sequence[int]) -> None:
        if kernel.refuses:
            raise NotMeasured("perf counter of connections: refused")
        self.kernel, self.cpus, self.before = kernel, set(kernel.cpus), dict(kernel.came)

    def count(self) -> int:
        return sum(self.kernel.came[cpu] - self.before[cpu] for cpu in self.cpus)

    def close(self) -> None:
        pass


def test_connections_that_a_cpu_takes_which_was_added_in_mid_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {0, 1})
    arrivals = Arrivals([80], os.getpid(), None)
    kernel.connect(10)
    assert arrivals.since_mark() == 20
    kernel.cpus |= {2, 3}
    arrivals.mark()
    kernel.connect(10, elsewhere=5)
    assert arrivals.since_mark() == 40
    kernel.cpus -= {0, 1, 2}
    arrivals.mark()
    kernel.connect(10, elsewhere=5)
    assert arrivals.since_mark() == 10


def test_where_no_new_counter_can_be_had_the_namespace_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {0, 1})
    arrivals = Arrivals([80], os.getpid(), None)
    kernel.cpus, kernel.refuses = {0, 1, 2}, True
    arrivals.mark()
    kernel.connect(10, elsewhere=5)
    assert arrivals.since_mark() == 35
    assert "PassiveOpens" in arrivals.source and "refused" in arrivals.source
