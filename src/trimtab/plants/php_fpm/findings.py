"""The doctor's findings on a running FPM, pool by pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from trimtab.clock import SystemClock
from trimtab.core import Finding
from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _findings
from trimtab.plants._vetted import vet
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.configuration import read
from trimtab.plants.php_fpm.plant import PhpFpm
from trimtab.plants.php_fpm.process import FpmMaster
from trimtab.plants.php_fpm.program import Program
from trimtab.sensors import resources


def findings(master: FpmMaster) -> tuple[Finding, ...]:
    """Findings on one FPM, pool by pool; nothing is changed."""
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
        found += _findings.of(f"{subject} pool {pool}", partial(_attached, master, pool), _pool)
    return (*found, *(replace(one, subject=f"{subject} {one.subject}") for one in resources.probe(master.pid)))


def _attached(master: FpmMaster, pool: str) -> PhpFpm:
    clock = SystemClock()
    return PhpFpm(clock, Attached(master, clock, pool))


def _pool(plant: PhpFpm) -> Iterable[Finding]:
    """Findings on one pool."""
    page = plant.status_page
    yield Finding("", True, f"listens at {plant.listen}, status page {page.path} at {page.address}")
    yield from _findings.knobs(plant, lambda _: f"to be set in {plant.location()}")
    yield from _findings.notes(plant.notes)
