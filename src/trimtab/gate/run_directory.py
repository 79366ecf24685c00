"""Run directory of a server under trimtab: the files that its processes share, one directory for each name.

| file         | mode | what                                                                          |
|--------------|------|-------------------------------------------------------------------------------|
| shared       | 0600 | mapped file of counters and slots                                             |
| handoff-...  | 0666 | where the server's processes meet the gate; its name follows from `shared`      |
| control.sock | 0600 | where a controller gives orders                                               |
| gate.json    | 0600 | the gate's start line                                                         |
| tuning.sqlite | 0600 | what the controller of the keep-alive time did of late, when `trimtab run` keeps one going |
| tuning.log   | 0600 | what that controller complained of                                            |
| *.old        | 0600 | what these two held before they grew too large                                |
| pid          | 0644 | process id of `trimtab run` and its start time, which tells it from a later one |

Everyone may enter the directory, because the server's workers have given up their rights when they meet the gate; its
owner alone may list it, so that others do not find the socket where they do. Root's is under /run: workers may not
enter a login session's directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trimtab import codec
from trimtab.errors import TrimtabError, UsageError
from trimtab.files import write_whole
from trimtab.gate.start import Start
from trimtab.locks import locked
from trimtab.processes import Process, identify
from trimtab.trust import require_trusted, untrusted

DEFAULT_NAME = "default"
SHARED_VARIABLE = "TRIMTAB_SHARED"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_LONGEST_SOCKET = 107
"""Bytes of a Unix socket's path (sun_path of unix(7), without the final zero)."""
_SOCKET_NAME = len("/handoff-0123456789abcdef")
"""Bytes of the longest name of a socket there, made in native/wire/src/handoff.rs."""


@dataclass(frozen=True)
class RunDirectory:
    """The run directory of one name.

    Args:
        name: the name.
        directory: the directory; it need not exist.
    """

    name: str
    directory: Path

    @property
    def shared(self) -> Path:
        """The mapped file."""
        return self.directory / "shared"

    @property
    def control(self) -> Path:
        """The socket of controllers."""
        return self.directory / "control.sock"

    @property
    def tuning_store(self) -> Path:
        """The store of the controller of the keep-alive time."""
        return self.directory / "tuning.sqlite"

    @property
    def tuning_log(self) -> Path:
        """Log of the controller that learns the keep-alive time."""
        return self.directory / "tuning.log"

    @property
    def pid_file(self) -> Path:
        """File with the id of the process that runs it."""
        return self.directory / "pid"

    def start_line(self) -> Start | None:
        """The start line of its gate; None when it runs without one.

        Raises:
            UsageError: it may not be read.
            TrimtabError: it is not one.
        """
        path = self.directory / "gate.json"
        try:
            return codec.decode(path.read_text(encoding="utf-8"), Start)
        except FileNotFoundError:
            return None
        except PermissionError:
            raise UsageError(f"no permission to read {path}: run as its owner or as root") from None
        except ValueError as error:
            raise TrimtabError(f"{path} is not a start line: {error}") from None

    def write_start_line(self, line: Start) -> None:
        """Keeps the start line of its gate."""
        write_whole(self.directory / "gate.json", codec.encode(line), 0o600)

    def owner(self) -> Process | None:
        """The `trimtab run` that it belongs to, if that still runs."""
        try:
            pid, ticks = self.pid_file.read_text(encoding="ascii").split()
            process = Process(int(pid), int(ticks))
        except (OSError, ValueError):
            return None
        return process if process.alive() else None

    def gated(self) -> bool:
        """Whether a gate answers there."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(1.0)
            try:
                control.connect(os.fspath(self.control))
            except OSError:
                return False
        return True

    def release(self) -> None:
        """Removes the directory; may be called twice."""
        shutil.rmtree(self.directory, ignore_errors=True)


def base() -> Path:
    """Where this user's run directories are."""
    if os.geteuid() == 0 and Path("/run").is_dir():
        return Path("/run/trimtab")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "trimtab"
    return Path(tempfile.gettempdir()) / f"trimtab-{os.geteuid()}"


def named(name: str) -> RunDirectory:
    """The run directory of a name.

    Raises:
        UsageError: the name is not allowed, or its sockets' paths would be too long.
    """
    if not _NAME.fullmatch(name):
        allowed = "1 to 32 letters, digits, - and _, of which the first is a letter or digit"
        raise UsageError(f"--name {name!r} is not allowed: write {allowed}")
    found = RunDirectory(name, base() / name)
    if len(os.fsencode(found.directory)) > _LONGEST_SOCKET - _SOCKET_NAME:
        most = _LONGEST_SOCKET - _SOCKET_NAME
        raise UsageError(f"{found.directory} is too long for sockets in it: at most {most} bytes are allowed")
    return found


def known() -> list[RunDirectory]:
    """The runs of this user that have a directory, dead ones too, by name; none where others could have made it."""
    try:
        entries = sorted(entry.name for entry in os.scandir(base()) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [] if untrusted(base()) else [RunDirectory(name, base() / name) for name in entries]


def running() -> list[RunDirectory]:
    """The runs of this user that are alive, by name."""
    return [one for one in known() if one.owner() is not None or one.gated()]


def chosen(name: str | None) -> RunDirectory:
    """The run that is meant.

    Args:
        name: its name; None when only one is alive.

    Raises:
        UsageError: there is no such run, or several and none was named.
    """
    alive = running()
    listed = ", ".join(one.name for one in alive)
    if name is not None:
        wanted = named(name)
        for one in alive:
            if one == wanted:
                return one
        there = f"; there is {listed}" if alive else ""
        raise UsageError(f"no run is named {name!r}{there}: start the server with 'trimtab run --name {name} -- ...'")
    if not alive:
        raise UsageError("no server runs under trimtab: start it with 'trimtab run ... -- SERVER ...'")
    if len(alive) > 1:
        raise UsageError(f"several servers run under trimtab, choose one with --name: {listed}")
    return alive[0]


def claim(name: str) -> RunDirectory:
    """The directory of a name, empty and ours; remains of a dead run are removed.

    Raises:
        UsageError: the name is not allowed or in use, or the directory may not be made.
    """
    mine = named(name)
    with _locked(mine.directory.parent):
        owner = mine.owner()
        if owner is not None:
            raise UsageError(f"--name {name!r} is in use by pid {owner.pid}: choose another name")
        if mine.gated():
            raise UsageError(f"--name {name!r} is in use: its gate still serves the server of a run that was killed")
        mine.release()
        try:
            mine.directory.mkdir(mode=0o711)
        except OSError as error:
            raise UsageError(f"{mine.directory} cannot be made: {error.strerror}") from None
        mine.directory.chmod(0o711)
        me = identify(os.getpid())
        assert me is not None
        write_whole(mine.pid_file, f"{me.pid} {me.start_ticks}\n", 0o644)
    return mine


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Holds the lock of all names of this user, in a directory that nobody else can write.

    Raises:
        UsageError: it cannot be made, or others can change it.
    """
    try:
        directory.mkdir(mode=0o711, exist_ok=True)
        require_trusted(directory)
        directory.chmod(0o711)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{directory} cannot be used: {error.strerror}") from None
    try:
        if not locked(fd):
            raise UsageError(f"{directory} is locked by another process, so no run can begin in it")
        yield
    finally:
        os.close(fd)
