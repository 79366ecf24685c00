"""All benchmarks of the load generator, one after the other: `python benchmarks/load/run.py`, about four minutes."""

from __future__ import annotations

import against_wrk
import browsers
import lateness
import sessions

if __name__ == "__main__":
    against_wrk.main()
    sessions.main()
    browsers.main()
    lateness.main()
