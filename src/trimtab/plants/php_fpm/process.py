"""The processes of a running FPM: its master, which configuration that has, its workers, its generations.

The master writes its title over its own command line and environment, so what it was started with beside its
configuration cannot be read. At every start it makes a pair of sockets for its signals (`fpm_signals_init_main` in
sapi/fpm/fpm/fpm_signals.c). Through a reload, in which it executes itself, it inherits those that listen, and the one
to the journal that systemd gave it for its standard error (`fpm_stdio_save_original_stderr` in fpm_stdio.c, PHP 8.2).
So a reload has taken place when the master holds two sockets that it did not hold before, beside the listening ones.

One that puts itself into the background (`daemonize = yes` without -F, or -D) does so in every reload: it executes
itself and forks (`fpm_unix_init_main` in fpm_unix.c), so what serves then is another process.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from trimtab import processes
from trimtab.plants._master import Master
from trimtab.processes import children, descriptors, executed, start_of
from trimtab.sensors._tcp_listeners import listening
from trimtab.sensors._unix_diag import unix_sockets

_TITLE = re.compile(r"php-fpm: master process \((.+)\)")
_POOL = "php-fpm: pool "
_PAIR = 2
"""Sockets that each execution makes for its signals; one alone may be a log's that was opened anew."""


class FpmMaster(Master):
    """The master process of a running FPM."""

    title = "PHP-FPM"
    called = "php-fpm"
    program = re.compile(r"php-fpm([\d.]+)?")

    @staticmethod
    def serves(argv: tuple[str, ...]) -> bool:
        """Whether a command line is a master's."""
        return _TITLE.match(" ".join(argv)) is not None

    @property
    def config_file(self) -> Path:
        """Its configuration, from its title; a relative path begins where the master was started."""
        found = _TITLE.match(" ".join(self.argv))
        path = Path(found[1] if found else "")
        return path if path.is_absolute() else self.cwd() / path

    @property
    def daemonized(self) -> bool:
        """Whether it has put itself into the background, and so does in every reload."""
        return not executed(self.pid)

    def catchable(self) -> int | None:
        """Workers whose output it can open files for once those that there are have ended; None for any number.

        Of each it holds two ends of pipes, and four until it is forked (`fpm_stdio_prepare_pipes` in fpm_stdio.c).
        """
        try:
            held = dict(processes.opened(self.pid))
        except OSError:
            return None
        own = {held.get(number) for number in range(3)}
        pipes = sum(target.startswith("pipe:") and target not in own for target in held.values())
        most = processes.open_files(self.pid)
        return None if most is None else max(0, most - (len(held) - pipes) - _PAIR) // _PAIR

    def workers(self, pool: str) -> tuple[int, ...]:
        """The running workers of a pool."""
        title = f"{_POOL}{pool}".encode()
        return tuple(pid for pid in children(self.pid) if start_of(pid) is not None and _words(pid) == title)

    def crews(self) -> frozenset[str]:
        """The pools that have running workers."""
        titles = [_words(pid) for pid in children(self.pid) if start_of(pid) is not None]
        return frozenset(os.fsdecode(title).removeprefix(_POOL) for title in titles)

    def generation(self) -> frozenset[str]:
        """The sockets that it holds.

        Raises:
            UsageError: not permitted.
        """
        return descriptors(self.pid, "socket")

    def anew(self, before: frozenset[str]) -> bool:
        """Whether it has executed itself since; not in the very moment of it.

        Args:
            before: its `generation` then.

        Raises:
            UsageError: not permitted.
        """
        new = self.generation() - before
        # For those that listen the kernel walks through all connections of the machine.
        return len(new) >= _PAIR and len(new - _listening(self.pid)) >= _PAIR


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].rstrip()
    except OSError:
        return b""


def _listening(pid: int) -> frozenset[str]:
    """The sockets of the process's network namespace that listen, by their kernel names."""
    return frozenset(listening(pid)) | {one.target for one in unix_sockets(pid) if one.listens}
