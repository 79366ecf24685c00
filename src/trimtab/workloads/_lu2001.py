"""The users of lu2001's experiments (Section 7): SURGE, with details missing in the paper settled by its figures.

With the published parameters and connections that outlive a page (`Surge()`), a worker is held for 46 s in the
simulator, and 100 and 200 users on 64 workers each wait 3 and 71 s. With connections of one page it is held for 4 s,
and they wait 0 and 3 s. In the paper they wait 6.5 and 28.5 s (Section 7.3.1, when the controller is turned on), and
three times 100 users on 128 workers 14.6 to 17.5 s (Section 7.3.2). Every user is held, waiting or away, so for each
class users = workers x (held + waiting + away) / held. These figures therefore mean that a worker is held for 14 to
15 s and a user is then away for 2 s: a connection of one page of some ten requests, and an inactive OFF time without
a connection. So here

- the client closes when its page is complete;
- active OFF times end at the server's TIMEOUT of 15 s, beyond which it would close in mid-page;
- a page embeds at least 5 files instead of 1, with the published tail.

The simulator then gives 5.6 and 29.7 s, and 17.0 to 18.1 s with three classes.
"""

from __future__ import annotations

import math

from trimtab.workloads._population import Connection, Step, required
from trimtab.workloads.surge import Surge

PAPER_TIMEOUT_S = 15.0
WORKERS = 128


def users_of_lu2001(
    class_name: str,
    users: int = 100,
    time_scale: float = 1.0,
    schedule: tuple[Step, ...] = (),
    source: str | None = None,
) -> Surge:
    """The users of one class.

    Args:
        class_name: its name.
        users: how many; the paper has 100 to a client machine.
        time_scale: divides OFF times; the server's KeepAliveTimeout is to be divided by it too.
        schedule: changes of the number, in seconds as they are.
        source: source address in 127.0.0.0/8; None lets the kernel choose.
    """
    return Surge(
        class_name=class_name,
        users=users,
        embedded_least=5.0,
        active_off_most_s=PAPER_TIMEOUT_S,
        time_scale=time_scale,
        connection=Connection.PER_PAGE,
        schedule=schedule,
        source=source,
    )


def keep_alive_time_ms(time_scale: float) -> int:
    """The paper's TIMEOUT at this scale, in milliseconds.

    Raises:
        UsageError: the scale is not more than 0 and finite.
    """
    required(0 < time_scale < math.inf, "time_scale", f"{time_scale:g}", "more than 0 and finite")
    return round(PAPER_TIMEOUT_S / time_scale * 1000)
