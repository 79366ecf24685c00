"""The processes of a running Apache: the parent and its generations of children.

Each generation of children has its own "pipe of death", which the parent opens anew at every start and reload
(`ap_mpm_pod_open` in server/mpm_unix.c). So a reload has taken place when the parent holds a pipe that it did not
hold before, and a child is of the present generation when it holds that pipe too. With ListenCoresBucketsRatio
there is one such pipe, and one socket at each address, for every bucket of children, which closes those of the
others. A worker process also holds the parent's listening sockets; the helper process of mod_cgid and the daemons of
mod_wsgi do not. They share others with it: that to the journal which systemd gives a server in the foreground, and
the Unix sockets of the daemons. The process manager of mod_fcgid holds all of that, but of its pipes only the ends
that it needs (`create_process_manager` in its fcgid_pm_unix.c), where a worker holds both, as the parent does.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

from trimtab.plants._master import Master
from trimtab.processes import children, descriptors, ends, program_of, start_of
from trimtab.sensors._tcp_listeners import listening

_ONE_SHOT = frozenset({"-t", "-v", "-V", "-S", "-l", "-L", "-M", "-h"})
"""Options with which the program answers a question and ends."""

_STARTS: tuple[list[str], ...] = ([], ["start"])
"""What a server is told with -k."""


class Parent(Master):
    """The parent process of a running Apache."""

    title = "Apache"
    called = "apache2 or httpd"
    program = re.compile(r"apache2|httpd2?([.-](prefork|worker|event))?")
    on_unix_sockets = False

    @cached_property
    def buckets(self) -> int:
        """How many sockets it has at each address; it keeps to their number from its start on.

        Raises:
            UsageError: not permitted.
        """
        held = descriptors(self.pid, "socket")
        addresses = Counter(address for name, address in listening(self.pid).items() if name in held)
        return min(addresses.values(), default=1)

    @classmethod
    def running(cls) -> list[Self]:
        """Every running Apache.

        One that was ordered to restart where none ran has started by that order, and goes on under its name
        (`ap_signal_server` in server/mpm_unix.c); else who gives the order has no children.
        """
        return [one for one in super().running() if _commands(one.argv) in _STARTS or children(one.pid)]

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line may be a server's, and is not a question's or an order's to end."""
        return _ONE_SHOT.isdisjoint(argv) and _commands(argv) in (*_STARTS, ["restart"], ["graceful"])


@dataclass(frozen=True)
class Generations:
    """The children of a parent.

    Args:
        workers: processes of the present generation that serve.
        old: processes of earlier generations, which finish what they have.
    """

    workers: tuple[int, ...]
    old: tuple[int, ...]

    def __bool__(self) -> bool:
        """Whether there is any child."""
        return bool(self.workers or self.old)


def programs(parent: Parent) -> tuple[int, ...]:
    """What children of Apache's run: programs of mod_fcgid, which its process manager starts, and CGI programs.

    Children that have executed another program, such as the shell of a piped log, are no children of that kind.

    Args:
        parent: Apache's parent process.
    """
    own = [child for child in children(parent.pid) if program_of(child) == parent.exe]
    return tuple(one for child in own for one in children(child) if start_of(one) is not None)


def _commands(argv: tuple[str, ...]) -> list[str]:
    return [after for word, after in pairwise(argv) if word == "-k"]


def generations(parent: Parent, present: frozenset[str]) -> Generations:
    """The children of Apache, by generation.

    Args:
        parent: Apache's parent process.
        present: pipes that only the present generation holds.

    Raises:
        UsageError: not permitted.
    """
    sockets = parent.accepting()
    whole, old = dict[int, int](), []
    for child in children(parent.pid):
        if start_of(child) is None or program_of(child) != parent.exe:
            continue
        pipes = ends(child, "pipe")
        if len(present.difference(pipes)) >= parent.buckets:
            if start_of(child) is not None:
                old.append(child)
        elif not sockets.isdisjoint(descriptors(child, "socket")):
            whole[child] = sum(1 for one in pipes if one in present)
    # One that was just started has not closed those of other buckets.
    most = max(whole.values(), default=0) - 2 * (parent.buckets - 1)
    return Generations(tuple(child for child, held in whole.items() if held >= most), tuple(old))
