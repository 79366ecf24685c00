"""All benchmarks of the gate: throughput, delay and memory.

    python benchmarks/gate/run.py --out benchmarks/results/DATE-gate

About half an hour, with --quick two minutes. As root, on an otherwise idle machine; needs a C compiler and the Debian
packages apache2-bin, haproxy and nginx-light. All is private and on loopback, and ends with it.
"""

from __future__ import annotations

import latency
import memory
import throughput
from _bench import options

if __name__ == "__main__":
    args = options(__doc__)
    (args.out / "summary.md").write_text("# What the gate costs\n\n")
    throughput.measure(args.out, args.quick, args.setups)
    for one in (latency, memory):
        one.measure(args.out, args.quick)
