"""All benchmarks of the shim: what a call costs, and what a server loses.

    python benchmarks/shim/run.py --out benchmarks/results/DATE-shim

About ten minutes, with --quick one. As root, on an otherwise idle machine; needs the Debian packages apache2-bin
and wrk, and a C compiler.
"""

from __future__ import annotations

import calls
import requests
from _bench import options

if __name__ == "__main__":
    args = options(__doc__)
    (args.out / "summary.md").write_text("# What the shim costs\n\n")
    calls.measure(args.out, args.quick)
    requests.measure(args.out, args.quick, args.rounds)
