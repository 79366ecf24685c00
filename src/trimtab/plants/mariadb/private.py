"""A private MariaDB in a temporary directory, with Debian's settings, confined where this machine allows it.

Root starts it as the user `mysql`, others as themselves. It listens on a Unix socket and on loopback. Its first
account is the user who runs trimtab, by the socket alone; the account of the application has a password, which is
made anew at every start and stands in a file that only this user can read.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab import own
from trimtab.errors import PlantError, UsageError
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.cgroup import Limits
from trimtab.testbed.registry import Registry

_ACCOUNT = "mysql"
_START_PATIENCE_S = 90.0
"""It writes a redo log of 96 MiB before it listens, and may first have to recover its data."""
_WRITE_S, _END_S = 30.0, 5.0
"""How long it may take to end: where it writes its data, and where they are removed with it."""
_DEBIAN = ("character-set-server = utf8mb4", "collation-server = utf8mb4_general_ci", "expire_logs_days = 10")
"""Settings of Debian's 50-server.cnf beside paths and addresses."""
_OF_2004 = (
    "binlog_cache_size = 32768",
    "delayed_insert_limit = 100",
    "max_connections = 100",
    "delayed_queue_size = 1000",
    "join_buffer_size = 8388600",
    "net_buffer_length = 16384",
    "table_open_cache = 64",
)
"""The start of Chung and Hollingsworth (2004), as far as MariaDB takes it; it would not take their thread_stack."""


@dataclass(frozen=True)
class MariadbSpec(Limits):
    """A private MariaDB and its limits. The settings are Debian's, except where said.

    Args:
        directory: its data, which are kept when it ends; made where it does not exist, in a directory that its user
            can reach. None for data that are removed with it.
        buffer_pool_bytes: innodb_buffer_pool_size.
        database: a database for the application; made where it does not exist.
        user: the application's account, which may do everything in that database.
        debian: whether it starts with Debian's settings; else with those that were Table 3's defaults in 2004.
        more: further lines of its configuration, such as "thread_handling = pool-of-threads".

    Raises:
        UsageError: a name is not one of letters, digits and underscores.
    """

    directory: Path | None = None
    buffer_pool_bytes: int = 128 << 20
    database: str = "shop"
    user: str = "shop"
    debian: bool = True
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.database, self.user):
            if not (name.isascii() and name.isidentifier()):
                raise UsageError(f"{name!r} is not a name of letters, digits and underscores")


class MariadbTestbed(SwappedServer[MariadbSpec]):
    """A private MariaDB; it answers when it greets a client on its socket."""

    program_name = "mariadb"
    _program = _install = ""

    def __init__(
        self, spec: MariadbSpec, registry: Registry | None = None, start_patience_s: float = _START_PATIENCE_S
    ) -> None:
        super().__init__(spec, registry, start_patience_s)

    @property
    def words(self) -> tuple[str, ...]:
        """How trimtab's command line names it."""
        return ("--pid", str(self.pid))

    @property
    def socket(self) -> Path:
        """Path of its socket for clients of this machine."""
        return self.directory / "run" / "mariadb.sock"

    @property
    def password_file(self) -> Path:
        """The password of the application's account, in one line; only this user can read it."""
        return self.directory / "password"

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.spec.directory or self.directory / "data"

    @property
    def snippet_directory(self) -> Path:
        """`*.cnf` in here are included last."""
        return self.directory / "conf.d"

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "my.cnf"

    def password(self) -> str:
        """The password of the application's account."""
        return self.password_file.read_text(encoding="ascii").strip()

    def stop(self, patience_s: float | None = None) -> None:
        """Ends it, where its data are kept with the time to write them; may be called twice.

        One that has only begun to start does not hear the signal to end.

        Args:
            patience_s: how long it may take; None for as long as its data are worth.

        Raises:
            TrimtabError: something could not be removed; the next testbed tries again.
        """
        usual = _WRITE_S if self.spec.directory is not None else _END_S
        super().stop(usual if patience_s is None else patience_s)

    def require_installed(self) -> None:
        """Finds its programs.

        Raises:
            UsageError: MariaDB is not installed.
        """
        self._program, self._install = (own.required("mariadb-server", n) for n in ("mariadbd", "mariadb-install-db"))

    def furnish(self) -> None:
        """Makes its directories, its data and its accounts.

        Raises:
            UsageError: its user cannot reach its data.
            PlantError: the data could not be made; the message carries what was said.
        """
        for name in ("logs", "conf.d"):
            (self.directory / name).mkdir(mode=0o755)
        for name in ("run", "tmp"):
            _give(self.directory / name)
        if not (self.data / "mysql").exists():
            self._make_data()
        self._require_reachable()
        password = secrets.token_urlsafe(24)
        _write_private(self.password_file, f"{password}\n")
        _write_private(self.directory / "init.sql", self._accounts(password), given=True)

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration, and gives its command."""
        lines = [
            "[mariadbd]",
            f"datadir = {self.data}",
            f"socket = {self.socket}",
            f"pid-file = {self.directory}/run/mariadb.pid",
            f"tmpdir = {self.directory}/tmp",  # one that starts removes temporary tables there, also another's
            f"init-file = {self.directory}/init.sql",
            "bind-address = 127.0.0.1",
            f"port = {ports[0]}",
            f"innodb_buffer_pool_size = {self.spec.buffer_pool_bytes}",
            *_DEBIAN,
            *(() if self.spec.debian else _OF_2004),
            *self.spec.more,
            f"!includedir {self.snippet_directory}",
        ]
        self.config_file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return [*_as_its_user(), self._program, f"--defaults-file={self.config_file}"]

    def answers(self) -> bool:
        """Whether it greets a client.

        Raises:
            OSError: nobody listens yet.
        """
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(os.fspath(self.socket))
            return bool(client.recv(1))

    def _make_data(self) -> None:
        """Has MariaDB's own program make its system tables.

        Raises:
            PlantError: it could not; the message carries what it said.
        """
        if not self.data.exists():
            _give(self.data)
        elif any(self.data.iterdir()):
            raise UsageError(f"{self.data} holds something else than the data of a MariaDB: name an empty directory")
        self._require_reachable()
        command = [
            self._install,
            "--no-defaults",
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={_me()}",
            f"--datadir={self.data}",
            *((f"--user={_ACCOUNT}",) if os.geteuid() == 0 else ()),
        ]
        environ = {"PATH": own.SYSTEM_PATH, "LC_ALL": "C", "TMPDIR": os.fspath(self.directory / "tmp")}
        made = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False)
        if made.returncode != 0:
            if self.spec.directory is None:
                shutil.rmtree(self.data, ignore_errors=True)
            said = " ".join(f"{made.stdout} {made.stderr}".split())
            raise PlantError(f"mariadb-install-db: {said[-500:] or 'it said nothing'}")

    def _require_reachable(self) -> None:
        """Makes sure that its user can get at its data.

        Raises:
            UsageError: it cannot.
        """
        reached = subprocess.run([*_as_its_user(), "test", "-w", self.data], cwd="/", check=False).returncode == 0
        if not reached:
            raise UsageError(f"user {_ACCOUNT} cannot write in {self.data}: name a directory that it can reach")

    def _accounts(self, password: str) -> str:
        """Statements for its start, one a line."""
        name, base = self.spec.user, self.spec.database
        lines = [f"CREATE DATABASE IF NOT EXISTS {base};"]
        for host in ("localhost", "127.0.0.1"):
            account = f"'{name}'@'{host}'"
            lines.append(f"CREATE OR REPLACE USER {account} IDENTIFIED BY '{password}';")
            lines.append(f"GRANT ALL ON {base}.* TO {account};")
        return "\n".join([*lines, ""])


def _me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _as_its_user() -> list[str]:
    """Command prefix that runs a command as the server's user, and ends it with this thread."""
    if os.geteuid() != 0:
        return []
    setpriv = own.required("util-linux", "setpriv")
    # A change of user clears the launcher's request to the kernel that it end with its owner.
    return [setpriv, f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--init-groups", "--pdeathsig=TERM", "--"]


def _give(directory: Path) -> None:
    """Makes a directory of the server's user."""
    directory.mkdir(mode=0o755, parents=True)
    if os.geteuid() == 0:
        shutil.chown(directory, _ACCOUNT, _ACCOUNT)


def _write_private(path: Path, text: str, given: bool = False) -> None:
    """Writes a file that only this user, or only the server's, can read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        if given and os.geteuid() == 0:
            there = pwd.getpwnam(_ACCOUNT)
            os.fchown(fd, there.pw_uid, there.pw_gid)
        file.write(text)
