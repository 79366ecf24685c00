"""Applications that trimtab was not made with: left alone, with `tune apache`, and left alone again.

    apt-get install --no-install-recommends $(awk '$2 == "bench-request-tracker" {print $1}' packages.txt)
    python benchmarks/applications/run.py --application request-tracker --seeds 1 --out DIR

    request-tracker   Request Tracker 5 in mod_perl, with SQLite: 100 MiB a worker, 3 GiB
    django            Django's administration site in mod_wsgi's embedded mode, with SQLite: 35 MiB a worker, 3 GiB
    wordpress         WordPress in mod_php, with MariaDB: 7 MiB a worker, 256 MiB
    proxy-waiting     none: Apache is a proxy of a server of our own, which works on 20 requests at a time, a tenth of
                      a second on each; the others wait there
    proxy-refusing    likewise, and it refuses at once who comes when 151 are there
    proxy-slowing     likewise, and each takes longer when more than 30 are there
    event-waiting, event-refusing, event-slowing   the same three behind an Apache with event
    fpm-waiting, fpm-refusing, fpm-slowing         behind scripts of PHP-FPM behind nginx: `tune php-fpm`
    far               a page of our own in mod_php, 8 ms and 4 MiB a worker, whose visitors are 100 ms away: 224 MiB

The first three are Debian's. Apache has Debian's own pool (prefork, 5 started, 5 to 10 spare, at most 150, keep-alive
5 s; event 2 started of 25 threads each, 25 to 75 spare, at most 150), FPM Debian's own (dynamic, 2 started, 1 to 3
spare, at most 5) with what `tune php-fpm` asks for, a status page and process_control_timeout (10 s), each a CPU of
its own; the clients are on another. Where memory is scarce it has as much as is said above, and swap beyond that.
Visitors come as in liu2003's Fig. 3: six pages each in the mean, three seconds between them, a page with three of its
files, on connections that the server closes. How many come is a share of what the server can do: before the other
server 200 requests a second, for those who are far away 83 pages a second, else by the CPU that a page takes, which
one visitor who does not think tells first, in the second half of 24 s:

    rush      memory is scarce; 0.6, and 1.8 times as many between 90 and 190 s of 300 s
    held      memory is ample; 1.1 for 150 s, and 100 clients more who ask for a small file each 4 s and never let go
              of their connections, each of which holds a worker
    full      memory is ample; 1.1 for 150 s
    light     memory is scarce; 0.4 for 150 s
    database  as rush, 1.3 times as many, with an eighth of a core for MariaDB: what is short is behind the server;
              WordPress alone

The clients of a seed are the same in each run of a case. All cases come before any is left alone once more, which
tells the noise. What is given is what all clients had: pages, requests given up, and how long they waited together,
those who gave up until their time-out. DIR gets summary.md and the store of the runs, runs.sqlite, also compressed;
the same command with the same DIR goes on where it was stopped. As root; 16 minutes for rush, 8 for the others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import _django
import _far
import _fpm
import _proxy
import _request_tracker
import _wordpress
from _site import Site

from trimtab.cli.lab import numbers
from trimtab.clock import SystemClock
from trimtab.core import MoveState, Objective, Plant
from trimtab.errors import TrimtabError
from trimtab.host import facts
from trimtab.lab import Arm, Context, Runs, World, harm
from trimtab.lab._beds import WARM_S, aside, under_load
from trimtab.lab._clients import in_all, later
from trimtab.lab._engine import run_lab
from trimtab.lab._results import STORE, packed
from trimtab.lab._tables import mean
from trimtab.plants.apache import DEFAULTS, Apache
from trimtab.report.track import Track, tracks
from trimtab.store import Store
from trimtab.testbed import far
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.setups import server_cpus
from trimtab.workloads._distribution import Constant
from trimtab.workloads._population import Closed, Population, Step, Url
from trimtab.workloads.wagon import Wagon

KINDS = ("waiting", "refusing", "slowing")
APPLICATIONS: dict[str, ModuleType | _proxy.Behind | _fpm.Behind] = {
    "request-tracker": _request_tracker,
    "django": _django,
    "wordpress": _wordpress,
    **{f"proxy-{kind}": _proxy.Behind(kind) for kind in KINDS},
    **{f"event-{kind}": _proxy.Behind(kind, "event") for kind in KINDS},
    **{f"fpm-{kind}": _fpm.Behind(kind) for kind in KINDS},
    "far": _far,
}
WINDOW_S = 5.0
COST_S, COST_WINDOW_S = 24.0, 2.0
"""A worker's first pages cost more, and one visitor after the other comes to each of ten."""
VISIT_PAGES = 6.0
RUSH_S = (90.0, 190.0)
HELD_FILE, HELD_GAP_S, HELD_REQUESTS = "/file500.html", 4.0, 100.0
"""Each connection outlasts its run: Apache itself would close it after 100 requests (MaxKeepAliveRequests)."""


@dataclass(frozen=True)
class Case:
    """What is wrong, or not, in a run.

    Args:
        share: CPU that the visitors' pages take, as a share of what there is.
        length_s: length of a run, in seconds.
        scarce: whether memory is limited.
        rush: how many times as many visitors come within `RUSH_S`.
        held: clients that never let go of their connections.
        behind_cores: cores of the database behind the server, where the application has one.
        only: the application that has it; empty for all.
    """

    share: float
    length_s: float
    scarce: bool
    rush: float = 1.0
    held: int = 0
    behind_cores: float = 0.7
    only: str = ""


CASES = {
    "rush": Case(0.6, 300.0, scarce=True, rush=1.8),
    "held": Case(1.1, 150.0, scarce=False, held=100),
    "full": Case(1.1, 150.0, scarce=False),
    "light": Case(0.4, 150.0, scarce=True),
    "database": Case(0.6, 300.0, scarce=True, rush=1.3, behind_cores=0.125, only="wordpress"),
}
ALONE, TRIM, AGAIN = "left alone", "trim", "left alone again"


@dataclass(frozen=True)
class OnApplication:
    """An application and its clients.

    Args:
        application: of `APPLICATIONS`.
        case: what is wrong.
        page_s: CPU that a page takes with its files, in seconds, or what is short in its place; None for one visitor
            who does not think.
    """

    application: str
    case: Case
    page_s: float | None = None

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts it and sends the clients."""
        module, cpus = APPLICATIONS[self.application], server_cpus()
        mpm = getattr(module, "mpm", "prefork")
        most, started, spare = (256, 5, (5, 10)) if mpm == "prefork" else (16, 2, (25, 75))
        spec = ApacheSpec(mpm, server_limit=most, start_servers=started, spare_workers=spare, cpus=cpus)
        scarce = module.MEMORY_BYTES if self.case.scarce else None
        spec = replace(spec, cpu_weight=100, memory_limit_bytes=scarce, swap=True)
        with module.serving(spec, self.case.behind_cores) as (bed, site), aside(cpus) as cpu:
            plant, known = getattr(module, "attached", _attached)(bed)
            address = getattr(module, "ADDRESS", "127.0.0.1")
            plant.check_permissions()  # as `tune` does, which so knows before how long Apache takes to read its files
            with (
                contextlib.closing(plant),
                under_load(plant, bed.port, self.clients(site), WARM_S, arm, cpu, context, (), address) as loaded,
            ):
                yield World(loaded, {**known, "application": self.application})

    def clients(self, site: Site) -> tuple[Population, ...]:
        """The clients."""
        visits = Wagon(
            session_gap_mean_s=VISIT_PAGES * (self.page_s or 1.0) / self.case.share,
            session_pages_mean=VISIT_PAGES,
            session_pages_sigma=2.0,
            burst_mean=4.0,
            burst_sigma=1.5,
            think_mean_s=3.0,
            think_sigma_s=3.0,
            urls=site.pages,
            objects=site.objects,
            schedule=(Step(RUSH_S[0], self.case.rush), Step(RUSH_S[1], 1.0)) if self.case.rush != 1.0 else (),
        ).population()
        if self.page_s is None:
            return (replace(visits, arrivals=Closed(1), think_s=Constant(0.001), schedule=()),)
        if not self.case.held:
            return (visits,)
        # One page each, which is never complete: so pages are the visitors' alone.
        holders = Population(
            class_name="holders",
            arrivals=Closed(self.case.held),
            burst_requests=Constant(HELD_REQUESTS),
            object_gap_s=Constant(HELD_GAP_S),
            pages=(Url(HELD_FILE),),
        )
        return (visits, holders)


def _attached(bed: ApacheTestbed) -> tuple[Plant, dict[str, str]]:
    """The Apache as a plant, and what is known of it."""
    plant = Apache.attach(SystemClock(), bed.pid, bed.status_url, os.fspath(bed.snippet_directory))
    return plant, {"server": plant.server, "confinement": bed.confinement}


def arms(part: str, seed: int, applications: Sequence[str], cases: Sequence[str]) -> Sequence[Arm]:
    """The runs of a case; or, last of all, those of all cases that are left alone once more."""
    if part != AGAIN:
        return _of_case(part, seed, applications)
    first = (arm for case in cases for arm in _of_case(case, seed, applications) if arm.label == ALONE)
    return [replace(arm, label=AGAIN) for arm in first]


def _of_case(case: str, seed: int, applications: Sequence[str]) -> Sequence[Arm]:
    """What a page of each application costs, and each of them left alone and with trim."""
    declared = CASES[case]
    made: list[Arm] = []
    for name in applications:
        if declared.only not in ("", name):
            continue
        page_s = getattr(APPLICATIONS[name], "PAGE_S", None)
        defaults = getattr(APPLICATIONS[name], "DEFAULTS", DEFAULTS)
        objective = Objective(defaults.minimize)
        usual = OnApplication(name, replace(CASES["full"], behind_cores=declared.behind_cores))
        cost = Arm(
            f"{name}, {declared.behind_cores:g}", harm.ONE, seed, usual, "static", COST_S, COST_WINDOW_S, objective
        )
        alone = replace(
            cost,
            group=f"{case}, {name}",
            label=ALONE,
            bed=OnApplication(name, declared, page_s),
            duration_s=declared.length_s,
            window_s=WINDOW_S,
            guarded=False,
            resolved=None if page_s else _at_its_rate,
        )
        trim = replace(alone, label=TRIM, controller=defaults.controller, roles=defaults.roles, guarded=True)
        made += (alone, trim) if page_s else (replace(cost, guarded=False), alone, trim)
    return made


def _at_its_rate(arm: Arm, runs: Runs) -> Arm:
    """The arm with the CPU that a page takes, as one visitor had it.

    Raises:
        TrimtabError: that run told nothing.
    """
    bed = arm.bed
    assert isinstance(bed, OnApplication)
    track = runs.track(f"{bed.application}, {bed.case.behind_cores:g}", harm.ONE, arm.seed)
    if not (page_s := _page_s(track)):
        raise TrimtabError(f"{bed.application}: the cost of a page is not known")
    return replace(arm, bed=replace(bed, page_s=page_s))


def _page_s(track: Track) -> float:
    """CPU that a page takes in a run with one visitor, in seconds; 0 where it is not known."""
    windows = later(track.windows)
    rate_hz, cpu_ratio = (mean(windows, name) or 0.0 for name in ("client_page_rate_hz", "cpu_ratio"))
    return cpu_ratio / rate_hz if rate_hz else 0.0


def summary(found: Sequence[Track], conditions: str) -> str:
    """Every run, with what was changed in it, and what trim said where it changed nothing."""
    lines = ["# Applications left alone, with trim, left alone again", ""]
    lines += ["    python benchmarks/applications/run.py --out DIR", ""]
    lines += (__doc__ or "").split("\n\n", 2)[2].strip("\n").splitlines()
    lines += ["", f"Conditions: {conditions}", ""]
    for track in found:
        head = f"- {track.run.plan.group}, seed {track.run.plan.settings.seed}, {track.run.status.value}: "
        if track.label == harm.ONE:
            lines += [
                f"{head}{1e3 * _page_s(track):.0f} ms of CPU for a page; {track.run.plan.host.get('server', '')}"
            ]
            continue
        lines += [head + in_all(track.label, track.windows)]
        for one in track.changes():
            to = ", ".join(f"{name} {value}" for name, value in one.move.changes.items())
            took = "" if one.took_s is None else f", in {one.took_s:.1f} s"
            why = one.move.reason + (f" ({one.detail})" if one.detail else "")
            lines += [f"    - after window {one.index}, {one.state.value}{took}: {to}: {why}"]
        if track.label == TRIM:
            held = (re.sub(r"\d[\d.,]*", "N", m.move.reason) for m in track.moves if m.state is MoveState.HELD)
            lines += [f"    - said {count} times: {text}" for text, count in Counter(held).most_common(4)]
            lines += [f"    - noted: {note.text}" for note in track.notes]
    return "\n".join([*lines, ""])


def main() -> None:
    """Reads the command line, makes every run, writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--application", action="append", choices=APPLICATIONS, help="one of them; may be repeated (default all)"
    )
    parser.add_argument("--case", action="append", choices=CASES, help="one of them; may be repeated (default all)")
    parser.add_argument("--seeds", default="1", help="seeds of the clients, such as 1-3 (default 1)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    options = parser.parse_args()
    seeds, names = numbers("--seeds", options.seeds), tuple(options.application or APPLICATIONS)
    cases = tuple(options.case or CASES)
    for name in names:
        if not APPLICATIONS[name].SHIPPED.is_dir():
            parser.error(f"no {name} here: install what packages.txt lists as {APPLICATIONS[name].MARK}")
    options.out.mkdir(parents=True, exist_ok=True)
    if "far" in names:  # the others find their own loopback there too
        try:
            far.enter(_far.DELAY_S)
        except TrimtabError as error:
            parser.error(str(error))
    lab = replace(
        harm.LAB,
        parts=dict.fromkeys((*cases, AGAIN), ""),
        arms=lambda part, seed: arms(part, seed, names, cases),
        conditions=lambda context: None,
    )
    with contextlib.closing(Store(options.out / "runs.sqlite")) as store:
        try:
            run_lab(lab, (), Context(store, seeds=seeds, say=lambda text: print(text, flush=True)))
        finally:
            ids = [run.id for run in store.runs()]
            (options.out / "summary.md").write_text(summary(tracks(store, ids), str(facts())), encoding="utf-8")
            (options.out / STORE).write_bytes(packed(store, ids))
    print(f"results: {options.out}")


if __name__ == "__main__":
    main()
