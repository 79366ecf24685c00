"""The processes of a running Apache: the parent and its generations of children.

Each generation of children has its own "pipe of death", which the parent opens anew at every start and reload
(`ap_mpm_pod_open` in server/mpm_unix.c). So a reload has taken place when the parent holds a pipe that it did not
hold before, and a child is of the present generation when it holds that pipe too. A worker process also holds the
parent's listening sockets; the helper process of mod_cgid and the daemons of mod_wsgi do not. They share others with
it: that to the journal which systemd gives a server in the foreground, and the Unix sockets of the daemons.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from trimtab.plants._master import Master
from trimtab.processes import children, descriptors, program_of, start_of

_ONE_SHOT = frozenset({"-t", "-v", "-V", "-S", "-l", "-L", "-M", "-h"})
"""Options with which the program answers a question and ends."""


class Parent(Master):
    """The parent process of a running Apache."""

    title = "Apache"
    called = "apache2 or httpd"
    program = re.compile(r"apache2|httpd(\.(prefork|worker|event))?")
    on_unix_sockets = False

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line is a server's, and not a question's or an order's to another."""
        commands = [after for word, after in pairwise(argv) if word == "-k"]
        return _ONE_SHOT.isdisjoint(argv) and commands in ([], ["start"])


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


def generations(parent: Parent, present: frozenset[str]) -> Generations:
    """The children of Apache, by generation.

    Args:
        parent: Apache's parent process.
        present: pipes that only the present generation holds.
    """
    sockets = parent.accepting()
    workers, old = [], []
    for child in children(parent.pid):
        if start_of(child) is None or program_of(child) != parent.exe:
            continue
        if not present <= descriptors(child, "pipe"):
            if start_of(child) is not None:
                old.append(child)
        elif not sockets.isdisjoint(descriptors(child, "socket")):
            workers.append(child)
    return Generations(tuple(workers), tuple(old))
