"""A conversation with one MariaDB over its Unix socket.

PyMySQL speaks the protocol; the socket is ours, so that it is known who is at the other end before a word is said. A
server is sent no password in clear whatever it asks for, and no file.

The other end may all the same be a MariaDB that was broken into. Its answers end in time and have a size (`bounded`),
and whatever PyMySQL makes of them is numbers and texts, or an error of ours.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from trimtab.core import Clock
from trimtab.errors import NotMeasured, PlantError, PlantGone, TrimtabError, UsageError
from trimtab.plants._vetted import vet
from trimtab.plants.mariadb.bounded import Bounded
from trimtab.plants.mariadb.credentials import Credentials
from trimtab.plants.mariadb.process import MariadbServer
from trimtab.trust import printable

_DENIED, _DENIED_PLUGIN, _TOO_MANY = 1045, 1698, 1040
_ENDED = (1053, 1927)
"""It shuts down, and the connection was killed."""
_SILENT = "timed out"
_CLEAR = ("mysql_clear_password", "dialog", "sha256_password", "caching_sha2_password")
"""Authentication plugins that may send a password in clear, none of them MariaDB's default."""
_OWN_SETTINGS = ("max_statement_time = 0", "sql_select_limit = 18446744073709551615", "wsrep_sync_wait = 0")
"""Of our conversation, in place of the operator's defaults for all: with those a way back that takes seconds is cut
short, an answer has fewer rows than there are, and no question is answered while a Galera cluster stalls."""
_SHOWN = 300
"""Characters of an error that are shown."""
Rows = tuple[tuple[Any, ...], ...]


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
        clock: for that time.

    Attributes:
        begun: how many conversations it has begun so far.
    """

    _socket: Bounded
    """That of the connection."""

    def __init__(self, server: MariadbServer, credentials: Credentials, patience_s: float, clock: Clock) -> None:
        self.server = server
        self.credentials = credentials
        self._patience_s = patience_s
        self._clock = clock
        self._connection: Any = None
        self.begun = 0

    def ask(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """The rows that a statement gives: numbers, texts and None.

        Args:
            statement: in SQL, with %s for each value.
            values: the values.

        Raises:
            Rejected: MariaDB refuses it, in its words.
            UsageError: we may not connect, or may not do that.
            NotMeasured: it did not answer in time, or not as MariaDB does.
            PlantGone: it has ended.
        """
        return self._ask(_driver(), statement, values, self._deadline_s())

    def silent(self, patience_s: float) -> bool:
        """Whether it does not answer the least question.

        Args:
            patience_s: how long to wait, in seconds.
        """
        try:
            self._ask(_driver(), "SELECT 1", (), self._clock.now_s() + patience_s)
        except NotMeasured:
            return True
        except TrimtabError:
            return False
        return False

    def _ask(self, driver: Any, statement: str, values: Sequence[object], deadline_s: float) -> Rows:
        """The rows that a statement gives until a time, also where MariaDB has ended an earlier conversation."""
        self.server.check()
        kept = self._connection is not None and self._connection.open
        try:
            return self._asked(driver, statement, values, deadline_s)
        except (driver.err.InternalError, driver.err.OperationalError, driver.err.InterfaceError, OSError) as error:
            said = self._said(error)
            if not (kept and self._connection is None and isinstance(said, NotMeasured)) or _SILENT in str(error):
                raise said from None
        except driver.err.MySQLError as error:
            raise Rejected(_words(error)) from None
        except TrimtabError:
            raise
        except Exception as error:  # PyMySQL believes what comes, and fails at what makes no sense in many ways
            self._drop()
            what = f"{type(error).__name__}: {_words(error)}"
            raise NotMeasured(f"{self.server} does not answer as MariaDB does: {what}") from None
        # It had ended the conversation, as it does with one that idles for hours.
        return self._ask(driver, statement, values, deadline_s)

    def follow(self, server: MariadbServer) -> None:
        """Talks to another server from now on: the one that a restart has put in its place."""
        self.close()
        self.server = server

    def close(self) -> None:
        """Ends the conversation; may be called twice."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            if connection.open:
                self._socket.begin(self._deadline_s())  # for the goodbye, without which MariaDB counts it as broken
                connection.close()

    def _deadline_s(self) -> float:
        """When an answer to what is asked now must have come, on the clock."""
        return self._clock.now_s() + self._patience_s

    def _asked(self, driver: Any, statement: str, values: Sequence[object], deadline_s: float) -> Rows:
        """The rows that a statement gives, in PyMySQL's errors."""
        if self._connection is None or not self._connection.open:
            self._connection = self._connected(driver, deadline_s)
        self._socket.begin(deadline_s)
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(values) or None)
            rows = tuple(cursor.fetchall())
        if strange := [value for row in rows for value in row if not _plain(value)]:
            raise ValueError(f"a {type(strange[0]).__name__} where a number or a text was expected")
        return rows

    def _connected(self, driver: Any, deadline_s: float) -> Any:
        """A connection of PyMySQL's on a socket whose other end is this server."""
        vet(self.server)
        connection = driver.connect(
            user=self.credentials.user,
            password=self.credentials.password,
            charset="utf8mb4",
            autocommit=True,
            defer_connect=True,
            local_infile=False,
            ssl_disabled=True,
            auth_plugin_map=dict.fromkeys(_CLEAR, _Refusing),
            program_name="trimtab",
        )
        if (left_s := deadline_s - self._clock.now_s()) <= 0:
            raise TimeoutError("timed out")
        self._socket = Bounded(self.server.connect(left_s), self._clock, deadline_s)
        try:
            connection.connect(self._socket)
        except Exception:
            self._require_mariadb(connection)
            raise
        self._require_mariadb(connection)
        for setting in _OWN_SETTINGS:
            try:
                connection.query(f"SET SESSION {setting}")
            except driver.err.MySQLError as error:
                if not _refusal(error):  # not every MariaDB has each
                    raise
        self.begun += 1
        return connection

    def _require_mariadb(self, connection: Any) -> None:
        """Makes sure that a server that has greeted is a MariaDB, whether it lets us in or not.

        Raises:
            UsageError: it is another one, as MySQL.
        """
        said = getattr(connection, "server_version", "")
        if said and "MariaDB" not in said:
            connection._force_close()
            shown = printable(said[:_SHOWN])
            raise UsageError(f"{self.server} says that it is {shown!r}, not MariaDB: trimtab tunes only that")

    def _drop(self) -> None:
        """Ends a conversation in which nothing can be told any more; the next question begins another."""
        if self._connection is not None:
            self._connection._force_close()
        self._connection = None

    def _said(self, error: Exception) -> Exception:
        """Exception for an error of the conversation; a broken one begins anew with the next question."""
        code = _code(error)
        broken = not _refusal(error) or self._connection is None
        if broken:
            self._drop()
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
        raise UsageError(f"PyMySQL is not installed: {sys.executable} -m pip install pymysql") from None


def shaped(rows: Rows, columns: int, count: int | None = None) -> Rows:
    """An answer that has as many columns as were asked for.

    Args:
        rows: the answer.
        columns: the columns.
        count: how many rows it must have; None for any number.

    Raises:
        NotMeasured: it has others.
    """
    if any(len(row) != columns for row in rows) or count not in (None, len(rows)):
        many = "any number of" if count is None else count
        raise NotMeasured(f"MariaDB answers {len(rows)} rows where {many} of {columns} values were expected")
    return rows


def _plain(value: object) -> bool:
    """Whether a value is one of those that our questions are answered by."""
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 64
    return isinstance(value, float | str | None)


def _code(error: Exception) -> int:
    """The number of an error; 0 for none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _refusal(error: Exception) -> bool:
    """Whether an error is MariaDB's answer to a statement, and the conversation goes on."""
    return 1000 <= _code(error) < 2000 and _code(error) not in _ENDED


def _words(error: Exception) -> str:
    """Text of an error, in one line."""
    return printable(" ".join(str(error.args[-1] if error.args else error).split())[:_SHOWN])
