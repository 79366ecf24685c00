"""Where one window ends and the next begins: what was read for the one need not be read again for the other."""

from __future__ import annotations

_LEAST_S, _MOST_S = 0.01, 0.1
_SHARE = 0.1


def fresh_s(window_s: float) -> float:
    """How long after a window's end what was read there is still good as the next one's beginning, in seconds.

    The next window then counts from that reading on, so nothing is counted twice or lost; it is longer by at most a
    tenth. Between the two the loop reads the other sensors, stores and decides, which takes a few hundredths of a
    second beside a saturated server; after a change it waits for longer than this, unless it is told not to.

    Args:
        window_s: how long the window was, in seconds.
    """
    return min(_MOST_S, max(_LEAST_S, _SHARE * window_s))
