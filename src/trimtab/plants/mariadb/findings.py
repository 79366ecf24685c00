"""The doctor's findings on a running MariaDB."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import SystemClock
from trimtab.core import Finding, How
from trimtab.plants import _findings
from trimtab.plants.mariadb import knobs
from trimtab.plants.mariadb.attached import Attached
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.plant import Mariadb
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.sensors import resources

_OTHER_ROWS = (
    (knobs.LESS_DURABLE, "--allow-less-durable lets trimtab move it"),
    (knobs.AT_RESTART, "--allow-restart lets trimtab move it, where systemd runs MariaDB"),
)


def findings(server: MariadbServer) -> tuple[Finding, ...]:
    """Findings on one MariaDB; nothing is changed."""

    def attached() -> Mariadb:
        clock = SystemClock()
        return Mariadb(clock, Attached(server, Credentials.chosen(None, None), clock, knobs.TABLE))

    return _findings.of(f"mariadb pid {server.pid}", attached, _said)


def _said(plant: Mariadb) -> Iterable[Finding]:
    """Findings on one that was attached to."""
    yield from _findings.knobs(plant, lambda knob: str(knob.how))
    for rows, option in _OTHER_ROWS:
        for name, row in rows.items():
            how = "needs a restart" if row.how is How.RESTART else "not moved unless you allow it"
            yield Finding(name, False, f"{how}: {row.description}", option)
    for name, why in knobs.GONE.items():
        yield Finding(name, False, why, "nothing: thread_pool_size, in a thread pool, comes nearest")
    yield from _findings.notes(plant.notes)
    yield from resources.probe(plant.pid, workers=False)
