"""All benchmarks of the gate: throughput, delay and memory.

    python benchmarks/gate/run.py --out benchmarks/results/DATE-gate

About twenty-five minutes, with --quick two. As root, on an otherwise idle machine; needs the Debian packages
apache2-bin, haproxy, nginx-light and wrk. All is private and on loopback, and ends with it. Every ratio is taken to
bare Apache in the same round of runs that alternate.
"""

from __future__ import annotations

import latency
import memory
import throughput
from _bench import options

if __name__ == "__main__":
    args = options(__doc__)
    (args.out / "summary.md").write_text("# What the gate costs\n\n")
    throughput.measure(args.out, args.quick, args.rounds)
    for one in (latency, memory):
        one.measure(args.out, args.quick)
