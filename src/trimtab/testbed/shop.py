"""A private shop of three tiers on loopback: Squid, Tomcat with the bookstore, MariaDB with its population.

Population and web application are made once and kept; each shop works on copies, so all begin alike.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import subprocess
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from trimtab import own
from trimtab.errors import PlantError, TrimtabError, UsageError
from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed
from trimtab.plants.squid.private import SquidSpec, SquidTestbed
from trimtab.plants.tomcat.private import Jdbc, TomcatSpec, TomcatTestbed
from trimtab.testbed._private import DIRECT, usual_modes
from trimtab.testbed.bookstore import webapp
from trimtab.testbed.bookstore.population import Population
from trimtab.testbed.kept import default_directory, kept

_MOST_AGE_S = 30
_START_S, _FILL_S = 120.0, 600.0
_LOADER = ("innodb_flush_log_at_trx_commit = 0", "innodb_doublewrite = 0", "innodb_log_file_size = 512M")
MIB = 1 << 20
FIRST_LINE = "# The private shop of 'trimtab lab up shop', written at each start."
TIME_SCALE = 120
"""For the browsers that tune it: 100 of them at half a core for each tier are near saturation, and so can gain."""


@dataclass(frozen=True)
class ShopSpec:
    """A private shop and the limits of each tier: half a core each unless it is said otherwise.

    Args:
        items: books; the specification has 1000, 10,000 and more.
        browsers: emulated browsers it is for: 2880 customers each.
        best_sellers_cache_s: how long a list of best sellers may be kept, 0 to 30. The specification allows 30; 0
            leaves the database the work of each page.
        proxy: Squid; its origin is filled in.
        application: Tomcat; application and database are filled in.
        database: MariaDB.

    Raises:
        UsageError: a number is out of its range.
    """

    items: int = 1000
    browsers: int = 10
    best_sellers_cache_s: int = 0
    proxy: SquidSpec = field(default_factory=lambda: SquidSpec(cores=0.5, memory_limit_bytes=512 * MIB))
    application: TomcatSpec = field(
        default_factory=lambda: TomcatSpec(cores=0.5, memory_limit_bytes=768 * MIB, heap_bytes=256 * MIB)
    )
    database: MariadbSpec = field(default_factory=lambda: MariadbSpec(cores=0.5, memory_limit_bytes=1024 * MIB))

    def __post_init__(self) -> None:
        if not 0 <= self.best_sellers_cache_s <= _MOST_AGE_S:
            raise UsageError(f"best_sellers_cache_s = {self.best_sellers_cache_s}: 0 to {_MOST_AGE_S} are allowed")
        self.population()

    def population(self) -> Population:
        """Population of its database.

        Raises:
            UsageError: a number is out of its range.
        """
        return Population(self.items, self.browsers)


@dataclass(frozen=True)
class Shop:
    """A running shop.

    Args:
        spec: as asked for.
        proxy: its Squid.
        application: its Tomcat.
        database: its MariaDB.
    """

    spec: ShopSpec
    proxy: SquidTestbed
    application: TomcatTestbed
    database: MariadbTestbed

    @property
    def url(self) -> str:
        """The address to open."""
        return self.proxy.url("/shop/")

    @property
    def confinement(self) -> dict[str, str]:
        """The limits in force by tier, and those that could not be set."""
        return {name: bed.confinement for name, bed, _ in self.tiers}

    @property
    def tiers(self) -> tuple[tuple[str, SquidTestbed | TomcatTestbed | MariadbTestbed, str], ...]:
        """Name, server and plant of each tier, from the clients on."""
        return (
            ("proxy", self.proxy, "squid"),
            ("application", self.application, "tomcat"),
            ("database", self.database, "mariadb"),
        )


def stack_text(running: Shop, mix: str = "shopping") -> str:
    """The file with which `trimtab tune stack` finds the tiers.

    Args:
        running: the shop.
        mix: the browsers' mix of pages.
    """
    lines = [FIRST_LINE, ""]
    for name, bed, plant in running.tiers:
        lines += [f"[tiers.{name}]", f'plant = "{plant}"', f"pid = {bed.pid}"]
        # A reload of Debian's Squid closes its port for a moment; these clients are only ours.
        lines += ["accept-lost-connections = true", ""] if plant == "squid" else [""]
    spec = running.spec
    lines += ["[objective]", 'maximize = "client_page_rate_hz"', ""]
    lines += ["[clients]", f'url = "{running.url}"', 'workload = "tpcw"', f'mix = "{mix}"', f"items = {spec.items}"]
    lines += [f"browsers = {spec.browsers}", f"customers = {spec.population().customers}"]
    return "\n".join([*lines, f"time-scale = {TIME_SCALE}", ""])


@contextlib.contextmanager
def shop(
    spec: ShopSpec,
    say: Callable[[str], None] = lambda text: None,
    directory: Path | None = None,
) -> Iterator[Shop]:
    """A private shop while this lasts. It ends with the thread that starts it.

    Args:
        spec: the shop.
        say: told of each step.
        directory: where population and web application are kept; None for the usual place.

    Raises:
        UsageError: something that it needs is not installed.
        PlantError: a server did not start; the message carries what it said.
    """
    _require_installed(spec)
    where = directory or default_directory() / "shop"
    with usual_modes():
        where.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(_database(spec, where, say))
        application = stack.enter_context(_application(spec, where, database, say))
        say("starting Squid")
        proxy_spec = replace(spec.proxy, origin_port=application.port)
        proxy = stack.enter_context(SquidTestbed(proxy_spec, start_patience_s=_START_S))
        running = Shop(spec, proxy, application, database)
        _await_page(running)
        yield running


@contextlib.contextmanager
def _database(spec: ShopSpec, where: Path, say: Callable[[str], None]) -> Iterator[MariadbTestbed]:
    """MariaDB with a copy of the population."""
    from trimtab.testbed.bookstore import database

    population = spec.population()
    bed = _PopulatedMariadb(spec.database, start_patience_s=_START_S)
    name = f"population-{spec.items}-{spec.browsers}"
    version = webapp.version(database.sources(), population, _server_version())
    with (
        kept(where, name, version, lambda path: _populate(path, population, say)) as data,
        contextlib.ExitStack() as stack,
    ):
        say("starting MariaDB")
        bed.copied_from = data / "data"
        stack.enter_context(bed)
        ending = stack.pop_all()
    with ending:
        yield bed


@contextlib.contextmanager
def _application(
    spec: ShopSpec, where: Path, database: MariadbTestbed, say: Callable[[str], None]
) -> Iterator[TomcatTestbed]:
    """Tomcat with a copy of the bookstore."""

    def make(path: Path) -> None:
        say("compiling the bookstore and drawing its images")
        webapp.make(path, spec.items)

    jdbc = Jdbc(f"jdbc:mariadb://127.0.0.1:{database.port}/shop", database.spec.user, database.password_file)
    options = (*spec.application.java_options, f"-Dshop.bestSellersCacheS={spec.best_sellers_cache_s}")
    version = webapp.version(webapp.sources(), spec.items)
    with kept(where, f"web-{spec.items}", version, make) as application, contextlib.ExitStack() as stack:
        say("starting Tomcat")
        filled = replace(spec.application, webapp=application, context="/shop", jdbc=jdbc, java_options=options)
        bed = stack.enter_context(TomcatTestbed(filled, start_patience_s=_START_S))
        ending = stack.pop_all()
    with ending:
        yield bed


class _PopulatedMariadb(MariadbTestbed):
    """A MariaDB that begins with a copy of data."""

    copied_from: Path | None = None

    def furnish(self) -> None:
        """Copies the data before all else is made."""
        if self.copied_from is not None:
            copy = ["/bin/cp", "--archive", "--reflink=auto", "--", os.fspath(self.copied_from), os.fspath(self.data)]
            # in a group of its own: Ctrl-C is trimtab's to answer, and would leave half a copy and no reason
            made = subprocess.run(copy, capture_output=True, text=True, check=False, process_group=0)
            if made.returncode != 0:
                raise TrimtabError(f"the population could not be copied: {made.stderr.strip()}")
        super().furnish()


def _populate(path: Path, population: Population, say: Callable[[str], None]) -> None:
    """Makes the population's data in a directory."""
    import pymysql

    from trimtab.testbed.bookstore import database

    say(f"making the population: {population.items} items, {population.customers} customers (kept for later)")
    loader = MariadbSpec(directory=path / "data", buffer_pool_bytes=512 * MIB, more=_LOADER)
    with (
        _ending(MariadbTestbed(loader, start_patience_s=_START_S)) as bed,
        tempfile.TemporaryDirectory(dir=bed.directory) as scratch,
    ):
        Path(scratch).chmod(0o755)
        connection = pymysql.connect(
            unix_socket=os.fspath(bed.socket),
            user=pwd.getpwuid(os.geteuid()).pw_name,
            database="shop",
            charset="utf8mb4",
        )
        with connection:
            database.fill(connection, population, Path(scratch), say)
            with connection.cursor() as cursor:
                # All pages stand in their files when the server has ended: the copy needs no recovery.
                cursor.execute("SET GLOBAL innodb_fast_shutdown = 0")


@contextlib.contextmanager
def _ending(bed: MariadbTestbed) -> Iterator[MariadbTestbed]:
    """A MariaDB that gets the time to write all that it holds."""
    with bed:
        yield bed
        bed.stop(_FILL_S)


def _await_page(running: Shop) -> None:
    """Waits for the first page.

    Raises:
        PlantError: it does not come; the message carries what came instead.
    """
    deadline, said = time.monotonic() + _START_S, "nothing"
    while time.monotonic() < deadline:
        try:
            with DIRECT.open(running.proxy.url("/shop/home"), timeout=10) as answer:
                answer.read()
                return
        except urllib.error.HTTPError as error:
            said = f"status {error.code}"
        except OSError as error:
            said = str(error)
        time.sleep(0.2)
    raise PlantError(f"the shop's first page did not come in {_START_S:g} s: {said}")


def _server_version() -> str:
    program = own.program("mariadbd")
    assert program is not None
    said = subprocess.run([program, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
    return said.strip()


def _require_installed(spec: ShopSpec) -> None:
    """Makes sure that all is there before the long work begins.

    Raises:
        UsageError: something is not installed.
    """
    MariadbTestbed(spec.database).require_installed()
    TomcatTestbed(spec.application).require_installed()
    SquidTestbed(spec.proxy).require_installed()
    webapp.compiler()
    if importlib.util.find_spec("pymysql") is None:
        raise UsageError("the Python package pymysql is not installed; 'make setup-lab' installs it")
