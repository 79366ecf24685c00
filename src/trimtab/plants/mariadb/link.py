"""A conversation with one MariaDB over its Unix socket.

PyMySQL speaks the protocol; the socket is ours, so that it is known who is at the other end before a word is said. A
server is sent no password in clear whatever it asks for, and no file.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from trimtab.errors import NotMeasured, PlantError, PlantGone, UsageError
from trimtab.plants._vetted import vet
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.trust import printable

_DENIED, _DENIED_PLUGIN, _TOO_MANY = 1045, 1698, 1040
_ENDED = (1053, 1927)
"""It shuts down, and the connection was killed."""
_SILENT = "timed out"
_CLEAR = ("mysql_clear_password", "dialog", "sha256_password", "caching_sha2_password")
"""Authentication plugins that may send a password in clear, none of them MariaDB's default."""


class Rejected(PlantError):
    """MariaDB refused a statement."""


class _Refusing:
    """Placeholder of an authentication plugin that is not used here."""

    def __init__(self, connection: object) -> None:
        pass

    def authenticate(self, packet: object) -> object:
        raise UsageError("MariaDB asks for a password in clear: give trimtab an account with unix_socket or ed25519")


class Link:
    """A conversation; it begins with the first question, and anew where the server has ended it.

    Args:
        server: the running MariaDB.
        credentials: our account.
        patience_s: how long one answer may take, in seconds.
    """

    def __init__(self, server: MariadbServer, credentials: Credentials, patience_s: float) -> None:
        self.server = server
        self.credentials = credentials
        self._patience_s = patience_s
        self._connection: Any = None

    def ask(self, statement: str, values: Sequence[object] = ()) -> tuple[tuple[Any, ...], ...]:
        """The rows that a statement gives.

        Args:
            statement: in SQL, with %s for each value.
            values: the values.

        Raises:
            Rejected: MariaDB refuses it, in its words.
            UsageError: we may not connect, or may not do that.
            NotMeasured: it did not answer in time.
            PlantGone: it has ended.
        """
        driver = _driver()
        self.server.check()
        kept = self._connection is not None and self._connection.open
        try:
            return self._asked(driver, statement, values)
        except (driver.err.InternalError, driver.err.OperationalError, driver.err.InterfaceError, OSError) as error:
            said = self._said(error)
            if not (kept and self._connection is None and isinstance(said, NotMeasured)) or _SILENT in str(error):
                raise said from None
        except driver.err.MySQLError as error:
            raise Rejected(_words(error)) from None
        return self.ask(statement, values)  # it had ended the conversation, as it does with one that idles for hours

    def follow(self, server: MariadbServer) -> None:
        """Talks to another server from now on: the one that a restart has put in its place."""
        self.close()
        self.server = server

    def close(self) -> None:
        """Ends the conversation; may be called twice."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            if connection.open:
                connection.close()

    def _asked(self, driver: Any, statement: str, values: Sequence[object]) -> tuple[tuple[Any, ...], ...]:
        """The rows that a statement gives, in PyMySQL's errors."""
        if self._connection is None or not self._connection.open:
            self._connection = self._connected(driver)
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(values) or None)
            return tuple(cursor.fetchall())

    def _connected(self, driver: Any) -> Any:
        """A connection of PyMySQL's on a socket whose other end is this server."""
        vet(self.server)
        patience = self._patience_s
        connection = driver.connect(
            user=self.credentials.user,
            password=self.credentials.password,
            charset="utf8mb4",
            autocommit=True,
            defer_connect=True,
            local_infile=False,
            ssl_disabled=True,
            read_timeout=patience,
            write_timeout=patience,
            auth_plugin_map=dict.fromkeys(_CLEAR, _Refusing),
            program_name="trimtab",
        )
        connection.connect(self.server.connect(patience))
        return connection

    def _said(self, error: Exception) -> Exception:
        """Exception for an error of the conversation; a broken one begins anew with the next question."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        broken = code in _ENDED or not 1000 <= code < 2000 or self._connection is None
        if broken:
            if self._connection is not None:
                self._connection._force_close()
            self._connection = None
            try:
                self.server.check()
            except PlantGone as gone:
                return gone
        if code in (_DENIED, _DENIED_PLUGIN):
            name = self.credentials.user
            return UsageError(
                f"{self.server} does not let account {name} in: CREATE USER {name}@localhost IDENTIFIED VIA "
                f"unix_socket; GRANT SUPER ON *.* TO {name}@localhost; or name another by --defaults-file"
            )
        if code == _TOO_MANY:
            return NotMeasured(f"{self.server} takes no more connections (max_connections)")
        if broken:
            return NotMeasured(f"{self.server} did not answer: {_words(error)}")
        return Rejected(_words(error))


def _driver() -> Any:
    """PyMySQL.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module("pymysql")
    except ImportError:
        raise UsageError("PyMySQL is not installed: pip install 'trimtab[lab]'") from None


def _words(error: Exception) -> str:
    """Text of an error, in one line."""
    return printable(" ".join(str(error.args[-1] if error.args else error).split()))
