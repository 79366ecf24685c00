"""The machine's clock, the only place that reads it for the loop."""

from __future__ import annotations

import time


class SystemClock:
    """Monotonic time of this machine."""

    def now_s(self) -> float:
        """Seconds since an arbitrary origin."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Sleeps; a duration that is not positive returns at once."""
        if duration_s > 0:
            time.sleep(duration_s)
