"""This user's own programs, home and state, whatever environment and working directory trimtab was started with.

sudo may keep another user's HOME and PATH, and a shell may stand in anybody's directory. Root looks for programs in
the system's directories alone, and has his own home.
"""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.trust import untrusted

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TRIMTAB = (sys.executable, "-I" if os.geteuid() == 0 else "-P", "-m", "trimtab")
"""trimtab itself as a child. Python looks for nothing in the working directory; for root not where PYTHONPATH or a
home's own packages are either, which an ordinary user may have it from."""


def program(name: str) -> str | None:
    """Path of a program; None when there is none.

    Args:
        name: a path, or a name, which is looked for in PATH and then in the system's directories: an ordinary user's
            PATH lacks /usr/sbin. Root's PATH is not asked.
    """
    return shutil.which(name, path=search_path())


def required(package: str, *names: str) -> str:
    """Path of a program, by the first of its names that there is.

    Args:
        package: the package that has it.
        names: its names.

    Raises:
        UsageError: it is not installed.
    """
    found = next(filter(None, map(program, names)), None)
    if found is None:
        raise UsageError(f"{names[0]} is not installed; install the package {package}")
    return found


def search_path() -> str:
    """The directories in which programs are looked for."""
    theirs = [] if os.geteuid() == 0 else [os.environ.get("PATH", "")]
    return os.pathsep.join((*filter(None, theirs), SYSTEM_PATH))


def home() -> Path:
    """The home directory that HOME names; root's own where others could change that one.

    Raises:
        UsageError: HOME names none, and this user is unknown here, as in a container that runs as any number.
    """
    named, me = os.environ.get("HOME"), os.geteuid()
    if named and (me != 0 or untrusted(named) is None):
        return Path(named)
    try:
        return Path(pwd.getpwuid(me).pw_dir)
    except KeyError:
        raise UsageError(f"uid {me} has no home directory here: set HOME, or name the store by --store") from None


def working_directory() -> str:
    """The working directory; / where it was removed, as no relative path leads anywhere then."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def state() -> Path:
    """Directory of this user's own records between runs: `trimtab` in the XDG state directory."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else home() / ".local" / "state") / "trimtab"


def transient(name: str) -> Path:
    """Directory of this user's own records of one kind, emptied by a reboot, such as /run/trimtab-NAME for root."""
    if os.geteuid() == 0 and Path("/run").is_dir():
        return Path(f"/run/trimtab-{name}")
    return Path(tempfile.gettempdir()) / f"trimtab-{name}-{os.geteuid()}"
