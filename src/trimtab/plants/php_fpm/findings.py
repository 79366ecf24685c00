"""What the doctor says of a running FPM, what a change needs, and what the user should know before one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.core import Clock, Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _own_file
from trimtab.plants._vetted import vet
from trimtab.plants.php_fpm import knobs, snippet, status
from trimtab.plants.php_fpm.attached import CLEAN, Attached
from trimtab.plants.php_fpm.configuration import GLOBAL, read
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.program import Program
from trimtab.sensors import resources
from trimtab.sensors.accept_queue import AcceptQueue
from trimtab.sensors.unix_queue import UnixQueue


def queue_of(fpm: Attached, clock: Clock, visitor: status.PoolStatus) -> UnixQueue | AcceptQueue:
    """The sensor of the pool's listen queue."""
    _, address = status.endpoint(fpm.listen)
    if isinstance(address, str):
        return UnixQueue(address, clock, fpm.master.pid, visitor.ours)
    return AcceptQueue([address], clock, fpm.master.pid, visitor, ours=visitor.ours)


def permitted(fpm: Attached, accept_lost: bool, ours: Path | None = None) -> None:
    """Makes sure that FPM may be reloaded, and that no request is lost by it.

    Args:
        fpm: the running FPM.
        accept_lost: whether requests may be lost.
        ours: our own file, where it does not matter that it was not loaded yet.

    Raises:
        UsageError: it may not; the message says what is needed.
        PlantGone: it has ended.
    """
    fpm.master.signal(0)
    if fpm.pending is not None and fpm.pending != ours:
        raise UsageError(
            f"{fpm.pending} was changed after PHP-FPM loaded it, so it is not known what is in force: reload PHP-FPM "
            "yourself (systemctl reload php-fpm, or kill -USR2), then try again"
        )
    if not fpm.timeout_s and not accept_lost:
        raise UsageError(
            f"a reload would end requests in progress, because {CLEAN} is 0: {how_to_reload(fpm)}, "
            "or accept it with --accept-lost-requests"
        )


def how_to_reload(fpm: Attached) -> str:
    """What makes reloads lose no request."""
    return f"add '{CLEAN} = 30s' to [{GLOBAL}] in {fpm.program.config_file} and reload PHP-FPM once"


def notes(fpm: Attached) -> tuple[str, ...]:
    """What the user should know before anything is changed."""
    others = [pool for pool in fpm.loaded.pools() if pool != fpm.pool]
    found = []
    if fpm.timeout_s:
        found.append(
            f"every change is a reload: PHP-FPM serves nothing until requests in progress are done, at most "
            f"{fpm.timeout_s} s ({CLEAN}), and ends those that take longer; what comes meanwhile waits in the queue"
        )
    else:
        found.append(f"{CLEAN} is 0: a reload ends requests in progress; {how_to_reload(fpm)}")
    if others:
        found.append(f"a reload is one of all pools: {', '.join(others)} too")
    if fpm.pending is not None:
        found.append(f"{fpm.pending} was changed after PHP-FPM loaded it: what is in force may not be what it says")
    if not fpm.place.apart:
        found.append(
            f"the status page waits in the queue of pool {fpm.pool}; 'pm.status_listen = 127.0.0.1:9001' in "
            f"[{fpm.pool}] (PHP 8.0 and newer) gives it a process of its own"
        )
    return tuple(found)


def findings(master: FpmMaster) -> tuple[Finding, ...]:
    """What can be done with one FPM, pool by pool; nothing is changed."""
    subject = f"php-fpm pid {master.pid}"
    try:
        vet(master)
        program = Program(master.exe, master.config_file)
        pools = read(program.config_file, program.prefix).pools()
    except UsageError as error:
        return (Finding(subject, False, str(error), "see the reason"),)
    except (PlantGone, OSError) as error:
        return (Finding(subject, False, f"cannot be read: {error}", "try again; it may just have ended"),)
    found = [Finding(subject, True, f"{master.exe.name}, configured by {program.config_file}")]
    for pool in pools:
        found += _pool(master, pool)
    return (*found, *(replace(one, subject=f"{subject} {one.subject}") for one in resources.probe(master.pid)))


def _pool(master: FpmMaster, pool: str) -> list[Finding]:
    """What can be done with one pool."""
    subject = f"php-fpm pid {master.pid} pool {pool}"
    try:
        fpm = Attached(master, SystemClock(), pool)
    except (UsageError, PlantGone, OSError) as error:
        return [Finding(subject, False, str(error), "see the reason")]
    found = [Finding(subject, True, f"listens at {fpm.listen}, status page {fpm.place.path} at {fpm.place.address}")]
    try:
        permitted(fpm, False)
        path = snippet.place(fpm.program, fpm.read(), pool, fpm.in_force, None)
        _own_file.writable(path, None)
    except (UsageError, PlantGone) as error:
        reason, usable = str(error), False
    else:
        reason, usable = f"to be set in {path}", True
    for knob in knobs.knobs(fpm.loaded, pool):
        shown = knob.domain.shown(fpm.in_force[knob.name])
        detail = f"{shown} now; {reason if usable else 'cannot be changed from here'}"
        found.append(Finding(f"{subject} {knob.name}", usable, detail, "" if usable else reason))
    return found + [Finding(f"{subject} note", True, note) for note in notes(fpm)]
