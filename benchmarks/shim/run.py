"""All benchmarks of the shim: what a call costs, what share of a server's time it takes, and what the server loses.

    python benchmarks/shim/run.py --out benchmarks/results/DATE-shim

About 40 minutes, with --quick two. As root, on an otherwise idle machine; needs a C compiler and the Debian packages
apache2-bin and linux-perf.
"""

from __future__ import annotations

import calls
import requests
import share
from _bench import options

if __name__ == "__main__":
    args = options(__doc__)
    (args.out / "summary.md").write_text("# What the shim costs\n\n")
    calls.measure(args.out, args.quick)
    share.measure(args.out, args.quick)
    requests.measure(args.out, args.quick, args.setups)
