"""The pages of the battery's private servers: one of the cost drawn, or a real application from Debian.

DokuWiki is copied and given pages of its own; MediaWiki stays where Debian has put it and gets a configuration and an
SQLite database in the server's directory. Nothing outside that directory is written.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trimtab import own
from trimtab.errors import TrimtabError, UsageError
from trimtab.lab._scenario import MIB, Scenario
from trimtab.testbed._private import DIRECT, worker_user
from trimtab.testbed.content import dynamic_url
from trimtab.workloads._population import Url, zipf

SHIPPED = {"dokuwiki": Path("/usr/share/dokuwiki"), "mediawiki": Path("/usr/share/mediawiki")}
"""Directory of Debian's packages of them."""
EXTENSIONS = ("mbstring", "xml", "dom", "simplexml", "xmlreader", "xmlwriter", "intl", "pdo_sqlite", "sqlite3")
"""Modules of PHP that they need."""
WORKER_BYTES = {"dokuwiki": 4 * MIB, "mediawiki": 10 * MIB}
"""Memory of a worker that has served, from which the fixed settings are chosen, and nothing else."""
PAGES = 20
"""Pages of a wiki; the k-th is asked for k times as rarely as the first, as on real sites (Zipf)."""
INSTALL_S = 180.0
FIRST_S = 30.0
"""Time for the first page, which fills the application's caches."""
_TEXT = " ".join(["The wind moves the tab, the tab moves the rudder and the rudder moves the ship."] * 12)


def urls(scenario: Scenario) -> tuple[Url, ...]:
    """The pages that the clients of a scenario ask for."""
    if scenario.application == "page":
        hot_kb, cold_kb = (round(scenario.worker_bytes * share / 1024) for share in shares(scenario))
        waits = (round(scenario.wait_s * 1e6), round(100 * scenario.lock_ratio))
        return (Url(dynamic_url(round(scenario.cpu_s * 1e6), hot_kb, *waits, cold_kb)),)
    path = {"dokuwiki": "/dokuwiki/doku.php?id=page{}", "mediawiki": "/mediawiki/index.php?title=Page{}"}
    return zipf([Url(path[scenario.application].format(k)) for k in range(1, PAGES + 1)], 1.0)


def shares(scenario: Scenario) -> tuple[float, float]:
    """The hot and the cold share of a worker's memory."""
    return 1 - scenario.cold_ratio, scenario.cold_ratio


def require_installed(application: str) -> None:
    """Makes sure that an application is there.

    Raises:
        UsageError: it is not installed.
    """
    if application != "page" and not SHIPPED[application].is_dir():
        raise UsageError(f"no {application} on this machine: install what packages.txt lists for benchmarks")


def check(scenario: Scenario, port: int) -> None:
    """Makes sure that a server gives the pages that clients will ask for, not an error page.

    Raises:
        TrimtabError: it does not.
    """
    path = urls(scenario)[0].path
    try:
        with DIRECT.open(f"http://127.0.0.1:{port}{path}", timeout=FIRST_S) as reply:
            text = reply.read(1 << 20).decode(errors="replace")
    except OSError as error:
        raise TrimtabError(f"{scenario.application} does not answer at {path}: {error}") from error
    if (_TEXT if scenario.application != "page" else " pieces</p>") not in text:
        raise TrimtabError(f"{scenario.application} answers at {path} with another page: {text[:200]!r}")


def furnish(application: str, directory: Path) -> dict[str, str]:
    """Puts an application into a directory; returns PHP's environment.

    Raises:
        TrimtabError: it could not be set up.
    """
    settings = directory / "php.d"
    settings.mkdir(mode=0o755)
    environment = {"PHP_INI_SCAN_DIR": f":{settings}"}
    if application == "page":
        (settings / "page.ini").write_text("ffi.enable = 1\n", encoding="ascii")
        return environment
    lines = [f"extension = {name}" for name in EXTENSIONS]
    (settings / "application.ini").write_text("\n".join([*lines, ""]), encoding="ascii")
    data = directory / "data"
    data.mkdir(mode=0o755)
    if application == "dokuwiki":
        _dokuwiki(directory / "dokuwiki", data)
    else:
        environment["MW_CONFIG_FILE"] = os.fspath(_mediawiki(directory / "mediawiki", data))
    give(data)
    return environment


def _dokuwiki(root: Path, data: Path) -> None:
    """A copy of Debian's with its own configuration and pages: its preload.php would send it to /etc and /var."""
    shutil.copytree(SHIPPED["dokuwiki"], root, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns(".ht*"))
    (root / "inc" / "preload.php").unlink(missing_ok=True)
    shutil.copytree("/etc/dokuwiki", root / "conf", ignore_dangling_symlinks=True)
    local = f"<?php\n$conf['title'] = 'trimtab';\n$conf['useacl'] = 0;\n$conf['savedir'] = '{data}';\n"
    (root / "conf" / "local.php").write_text(local, encoding="utf-8")
    for name in ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "pages"):
        (data / name).mkdir()
    (data / "tmp").mkdir()
    for k in range(1, PAGES + 1):
        (data / "pages" / f"page{k}.txt").write_text(_text("==== {} ===="), encoding="utf-8")
    for file in root.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def _mediawiki(root: Path, data: Path) -> Path:
    """Debian's, through a link, with an own database; gives its configuration."""
    root.symlink_to(SHIPPED["mediawiki"])
    with _installed() as made:
        shutil.copytree(made, data, dirs_exist_ok=True)
    settings = data / "LocalSettings.php"
    more = [
        f'$wgSQLiteDataDir = "{data}";',
        f'$wgCacheDirectory = "{data}/cache";',
        "$wgJobRunRate = 0;",
    ]
    settings.write_text("\n".join([settings.read_text(encoding="utf-8"), *more, ""]), encoding="utf-8")
    (data / "cache").mkdir()
    return settings


@contextlib.contextmanager
def _installed() -> Iterator[Path]:
    """A fresh wiki with its pages: configuration and database.

    Raises:
        TrimtabError: its installer failed.
    """
    maintenance = SHIPPED["mediawiki"] / "maintenance"
    with tempfile.TemporaryDirectory() as made:
        fixed = ["--dbtype=sqlite", f"--dbpath={made}", f"--confpath={made}", "--scriptpath=/mediawiki"]
        secret = ["--server=http://127.0.0.1", f"--pass={os.urandom(12).hex()}", "trimtab", "Admin"]
        _php([os.fspath(maintenance / "install.php"), *fixed, *secret], {})
        with tempfile.TemporaryDirectory() as texts:
            files = [Path(texts) / f"Page{k}" for k in range(1, PAGES + 1)]
            for file in files:
                file.write_text(_text("== {} =="), encoding="utf-8")
            environment = {"MW_CONFIG_FILE": f"{made}/LocalSettings.php"}
            _php([os.fspath(maintenance / "importTextFiles.php"), *map(os.fspath, files)], environment)
        yield Path(made)


def _text(heading: str) -> str:
    """A page of eight sections, under headings as the wiki writes them."""
    return "\n\n".join(f"{heading.format(f'Part {n}')}\n\n{_TEXT}" for n in range(8)) + "\n"


def _php(arguments: list[str], environment: dict[str, str]) -> None:
    """Runs a script of the application.

    Raises:
        TrimtabError: it failed.
    """
    program = own.program("php")
    if program is None:
        raise UsageError("no php on this machine: install what packages.txt lists")
    ran([program, *arguments], environment, arguments[0])


def ran(command: Sequence[str], environment: Mapping[str, str], called: str = "") -> str:
    """What a program of an application says, once it has ended.

    Args:
        command: the program and its arguments.
        environment: what it finds in its environment beside the system's directories.
        called: its path, where the program only runs it.

    Raises:
        TrimtabError: it failed, or took too long.
    """
    name = Path(called or command[0]).name
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            env={"PATH": own.search_path(), **environment},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrimtabError(f"{name} took longer than {INSTALL_S:g} s") from error
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise TrimtabError(f"{name} failed: {said[-300:]}")
    return done.stdout


def give(data: Path) -> None:
    """Lets the workers write there; the directory comes last, since who has it may put links into it."""
    if worker := worker_user():
        uid, gid = pwd.getpwnam(worker[0]).pw_uid, grp.getgrnam(worker[1]).gr_gid
        for file in (*sorted(data.rglob("*"), reverse=True), data):
            os.chown(file, uid, gid, follow_symlinks=False)
