"""An application that trimtab was not made with: Debian's WordPress, with MariaDB, left alone and with `tune apache`.

    apt-get install --no-install-recommends $(awk '$2 == "bench-wordpress" {print $1}' packages.txt)
    python benchmarks/wordpress/run.py --seeds 1-2 --out DIR

Apache has Debian's own pool (5 started, 5 to 10 spare, at most 150), mod_php, 256 MiB with swap beyond them and one
core; MariaDB has 512 MiB. Visitors come as in liu2003's Fig. 3: six pages each in the mean, three seconds between
them, a page with three of its files, on connections that the server closes. Two cases, each of five minutes with a
rush between 90 and 190 s, and each seed's clients are the same with both:

    rush      two visits in a second, 1.8 times as many in the rush; a page takes some 50 ms of the core
    database  the same, 1.3 times as many in the rush, and MariaDB has an eighth of a core: what is short is behind it

What is given is what clients had: pages, requests given up, and how long all of them waited together, those who gave
up until their time-out. DIR gets summary.md, and the store of the runs, runs.sqlite; the same command with the same
DIR goes on where it was stopped. Some 11 minutes a case and seed, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab import own
from trimtab.cli.lab import numbers
from trimtab.clock import SystemClock
from trimtab.core import Objective
from trimtab.errors import TrimtabError
from trimtab.host import facts
from trimtab.lab import Arm, Context, World, harm
from trimtab.lab._beds import WARM_S, under_load
from trimtab.lab._clients import in_all
from trimtab.lab._engine import run_lab
from trimtab.plants.apache import DEFAULTS, Apache
from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed
from trimtab.report.track import tracks
from trimtab.store import Store
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.workloads._population import Step, Url
from trimtab.workloads.wagon import Wagon

SHIPPED = Path("/usr/share/wordpress")
MIB = 1 << 20
LENGTH_S, WINDOW_S = 300.0, 5.0
RUSH_S = (90.0, 190.0)
CASES = {"rush": (0.7, 1.8), "database": (0.125, 1.3)}
"""MariaDB's cores, and how many times more visits come in the rush."""
POSTS = 40
INSTALL_S = 120.0
FILES = ("css/dist/block-library/style.min.css", "js/wp-emoji-release.min.js")
ALONE, TRIM = "left alone", "trim"
CONFIGURATION = """<?php
define('DB_NAME', '{database}'); define('DB_USER', '{user}'); define('DB_PASSWORD', '{password}');
define('DB_HOST', '127.0.0.1:{port}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (array('AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE') as $of) {{
    define($of . '_KEY', 'private'); define($of . '_SALT', 'private');
}}
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HOME', 'http://127.0.0.1:' . ($_SERVER['SERVER_PORT'] ?? 80) . '/wp'); define('WP_SITEURL', WP_HOME);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""
FILL = """
require '{root}/wp-load.php';
update_option('permalink_structure', '');
for ($i = 1; $i <= {posts}; $i++) {{
    $text = str_repeat("<p>The wind moves the tab, the tab moves the rudder, and this is post $i.</p>", 60);
    $id = wp_insert_post(['post_title' => "Post $i", 'post_content' => $text, 'post_status' => 'publish']);
    for ($c = 0; $c < 5; $c++) {{
        wp_insert_comment(['comment_post_ID' => $id, 'comment_content' => "Comment $c", 'comment_approved' => 1]);
    }}
    echo $id, ' ';
}}
"""


class WordPress(ApacheTestbed):
    """Apache with a copy of WordPress.

    Args:
        spec: the server.
        database: its MariaDB.
    """

    def __init__(self, spec: ApacheSpec, database: MariadbTestbed) -> None:
        self._database = database
        super().__init__(spec)

    @property
    def root(self) -> Path:
        """Where the copy is."""
        return self.directory / "htdocs" / "wp"

    def furnish(self) -> None:
        """Copies it, with a configuration of its own."""
        super().furnish()
        shutil.copytree(SHIPPED, self.root, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns(".ht*"))
        database = self._database
        assert database.password_file is not None
        text = CONFIGURATION.format(
            database=database.spec.database,
            user=database.spec.user,
            password=database.password_file.read_text(encoding="utf-8").strip(),
            port=database.port,
        )
        (self.root / "wp-config.php").unlink(missing_ok=True)
        (self.root / "wp-config.php").write_text(text, encoding="utf-8")
        for file in self.root.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        index = "<IfModule !dir_module>\nLoadModule dir_module {}\n</IfModule>\nDirectoryIndex index.php\n"
        module = Path(self._modules[0][1]).with_name("mod_dir.so")
        (self.snippet_directory / "index.conf").write_text(index.format(module), encoding="utf-8")

    def fill(self) -> tuple[str, ...]:
        """Installs it and writes its posts; returns their paths.

        Raises:
            TrimtabError: it is not as it should be.
        """
        form = {"weblog_title": "trimtab", "user_name": "admin", "admin_email": "admin@example.org", "pw_weak": "1"}
        form |= {"admin_password": "private", "admin_password2": "private", "blog_public": "0"}
        data, step = urllib.parse.urlencode(form).encode(), "/wp/wp-admin/install.php?step=2"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{step}", data, timeout=INSTALL_S):
            pass
        code = f"$_SERVER['SERVER_PORT'] = {self.port};" + FILL.format(root=self.root, posts=POSTS)
        command = [own.required("php-cli", "php"), "-r", code]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)
        paths = tuple(f"/wp/?p={number}" for number in made.stdout.split())
        if made.returncode or len(paths) != POSTS:
            raise TrimtabError(f"WordPress could not be filled: {made.stdout[-300:]} {made.stderr[-300:]}")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{paths[0]}", timeout=60) as reply:
            if b"this is post 1." not in reply.read():
                raise TrimtabError("WordPress gives another page than was asked for")
        return paths


@dataclass(frozen=True)
class OnWordPress:
    """WordPress and its visitors.

    Args:
        case: of `CASES`.
    """

    case: str

    @contextlib.contextmanager
    def open(self, arm: Arm, context: Context) -> Iterator[World]:
        """Starts both servers, fills them, and sends the visitors."""
        cores, factor = CASES[self.case]
        apache = ApacheSpec(
            start_servers=5, spare_workers=(5, 10), php=True, cores=1.0, memory_limit_bytes=256 * MIB, swap=True
        )
        database = MariadbSpec(cores=cores, memory_limit_bytes=512 * MIB)
        with MariadbTestbed(database) as behind, WordPress(apache, behind) as bed:
            visits = Wagon(
                session_gap_mean_s=0.5,
                session_pages_mean=6.0,
                session_pages_sigma=2.0,
                burst_mean=4.0,
                burst_sigma=1.5,
                think_mean_s=3.0,
                think_sigma_s=3.0,
                urls=tuple(Url(path) for path in bed.fill()),
                objects=tuple(Url(f"/wp/wp-includes/{name}") for name in FILES),
                zipf=1.0,
                schedule=(Step(RUSH_S[0], factor), Step(RUSH_S[1], 1.0)),
            )
            plant = Apache.attach(SystemClock(), bed.pid, bed.status_url, os.fspath(bed.snippet_directory))
            clients = visits.populations()
            with (
                contextlib.closing(plant),
                under_load(plant, bed.port, clients, WARM_S, arm, None, context) as loaded,
            ):
                yield World(loaded, {"server": plant.server, "confinement": bed.confinement, "case": self.case})


def arms(part: str, seed: int) -> Sequence[Arm]:
    """The runs of a seed; who goes first takes turns from seed to seed."""
    objective = Objective(DEFAULTS.minimize)
    made: list[Arm] = []
    for case in CASES:
        bed = OnWordPress(case)
        alone = Arm(part, f"{case}, {ALONE}", seed, bed, "static", LENGTH_S, WINDOW_S, objective, guarded=False)
        trim = replace(
            alone, label=f"{case}, {TRIM}", controller=DEFAULTS.controller, roles=DEFAULTS.roles, guarded=True
        )
        made += (alone, trim) if seed % 2 else (trim, alone)
    return made


def summary(store: Store, conditions: str) -> str:
    """Every run, with what was changed in it."""
    lines = ["# WordPress left alone and with trim", "", "    python benchmarks/wordpress/run.py --out DIR", ""]
    lines += (__doc__ or "").split("\n\n", 2)[2].strip().splitlines()
    lines += ["", f"Conditions: {conditions}", ""]
    for track in tracks(store, [run.id for run in store.runs()]):
        seed, status = track.run.plan.settings.seed, track.run.status
        lines += [f"- seed {seed}, {status}: {in_all(track.label, track.windows)}"]
        for one in track.changes():
            to = ", ".join(f"{name} {value}" for name, value in one.move.changes.items())
            lines += [f"    - after window {one.index}: {to}: {one.move.reason}"]
    return "\n".join([*lines, ""])


def main() -> None:
    """Reads the command line, makes every run, writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1", help="seeds of the visitors, such as 1-3 (default 1)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    options = parser.parse_args()
    seeds = numbers("--seeds", options.seeds)
    if not SHIPPED.is_dir():
        parser.error("no WordPress here: install what packages.txt lists as bench-wordpress")
    options.out.mkdir(parents=True, exist_ok=True)
    lab = replace(harm.LAB, arms=arms, conditions=lambda context: None)
    with contextlib.closing(Store(options.out / "runs.sqlite")) as store:
        run_lab(lab, (harm.PART,), Context(store, seeds=seeds, say=lambda text: print(text, flush=True)))
        (options.out / "summary.md").write_text(summary(store, str(facts())), encoding="utf-8")
    print(f"results: {options.out}")


if __name__ == "__main__":
    main()
