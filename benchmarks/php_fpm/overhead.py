"""Measures the cost of observing a pool: CPU of trimtab's sensors, and of the pool that answers for its status page.

    python benchmarks/php_fpm/overhead.py

A static pool of 4, idle, over a Unix socket; windows of 1 s, sampled as the loop does it, for 20 s; then the pool
alone for as long. CPU is what the kernel charges. Every figure is a share of one core.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.plants.php_fpm import process
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed

SECONDS = 20


def pool_s(pid: int) -> float:
    """CPU time of the master and its workers so far."""
    pids = (pid, *process.FpmMaster.find(pid).workers("www"))
    return sum(int(Path(f"/proc/{one}/schedstat").read_text().split()[0]) for one in pids) / 1e9


def observed(fpm: PhpFpm) -> float:
    """CPU time of this process for the sensors alone."""
    used_s = 0.0
    for _ in range(SECONDS):
        began_s = time.process_time()
        for sensor in fpm.sensors():
            sensor.begin()
        used_s += time.process_time() - began_s
        until_s = time.monotonic() + 1.0
        while time.monotonic() < until_s:
            time.sleep(0.04)
            began_s = time.process_time()
            for sensor in fpm.sensors():
                sensor.sample()
            used_s += time.process_time() - began_s
        began_s = time.process_time()
        for sensor in fpm.sensors():
            sensor.read()
        used_s += time.process_time() - began_s
    return used_s


def main() -> None:
    """Measures and prints."""
    with FpmTestbed(FpmSpec(pm="static", max_children=4)) as bed:
        fpm = PhpFpm.attach(SystemClock(), bed.pid)
        before_s = pool_s(bed.pid)
        sensors_s = observed(fpm)
        between_s = pool_s(bed.pid)
        time.sleep(SECONDS)
        alone_s = pool_s(bed.pid) - between_s
        fpm.close()
    shares = {"trimtab": sensors_s, "pool observed": between_s - before_s, "pool alone": alone_s}
    print(json.dumps({name: f"{used_s / SECONDS:.4%}" for name, used_s in shares.items()}))


if __name__ == "__main__":
    main()
