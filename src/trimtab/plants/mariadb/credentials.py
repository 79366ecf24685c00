"""trimtab's account of MariaDB: one that is the user's own by the socket, or one with a password from a file.

A password is read only from a file that nobody but this user can read, as MariaDB's own programs take it by
`--defaults-file`; it stands in no argument, no log and no store.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import read_text
from trimtab.trust import open_trusted, printable

_GROUPS = ("client", "client-server", "client-mariadb")
_PASSED_OVER = ("host", "socket", "port", "protocol", "default-character-set")
"""Settings of a client on where to connect, which is found otherwise."""
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\"}


@dataclass(frozen=True)
class Credentials:
    """An account.

    Args:
        user: its name.
        password: its password; empty where the socket says who we are.
        file: where they were read; None where they were not.
    """

    user: str
    password: str = field(default="", repr=False)
    file: Path | None = None

    @staticmethod
    def chosen(account: str | None, file: Path | None) -> Credentials:
        """Account that the command line names; else this user's own.

        Raises:
            UsageError: both are named, the file cannot be used, or this user has no name, as in a container that runs
                as any number.
        """
        if account is not None and file is not None:
            raise UsageError("--account and --defaults-file both name an account: give one of them")
        if file is not None:
            return read(file)
        try:
            return Credentials(account or pwd.getpwuid(os.geteuid()).pw_name)
        except KeyError:
            me = f"uid {os.geteuid()} has no name here, and so no account of its own"
            raise UsageError(f"{me}: give --account or --defaults-file") from None


def read(path: Path) -> Credentials:
    """The account in a file of MariaDB's own form: `user` and `password` in its group [client].

    Raises:
        UsageError: others can read or change it, or it says something else.
    """
    try:
        fd = open_trusted(path)
        mode = os.fstat(fd).st_mode
        text = read_text(fd, path)
    except OSError as error:
        raise UsageError(f"cannot read {printable(str(path))}: {error.strerror}") from None
    if mode & 0o077:
        raise UsageError(f"{path} can be read by others, and holds a password: chmod 600 {path}")
    found: dict[str, str] = {}
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif line and line[0] not in "#;" and group in _GROUPS:
            key, _, value = (part.strip() for part in line.partition("="))
            if key in ("user", "password"):
                found[key] = _unquoted(value)
            elif key not in _PASSED_OVER:
                raise UsageError(f"{path}: unknown setting {printable(key)!r} in [{group}]: there are user, password")
    if "user" not in found:
        raise UsageError(f"{path} names no account: write 'user = NAME' under [client]")
    return Credentials(found["user"], found.get("password", ""), path)


def _unquoted(value: str) -> str:
    """A value of an option file, without its quotes and with its escapes."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    parts = iter(value)
    return "".join(_ESCAPES.get(after := next(parts, "\\"), f"\\{after}") if one == "\\" else one for one in parts)
