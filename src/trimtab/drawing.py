"""matplotlib as trimtab uses it, loaded so that no file of the working directory or of another's home has a say.

matplotlib reads `matplotlibrc` from the working directory before all others, keeps what it finds out of fonts below
HOME, and asks a program of PATH for them. Figures shall look the same wherever they are made, too.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

from trimtab import own

_NAMED = ("MATPLOTLIBRC", "MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")


@contextlib.contextmanager
def _at_home() -> Iterator[None]:
    """Lets no other directory be seen meanwhile: for root none that his environment names, for all no working one."""
    before = dict(os.environ)
    here = None
    with contextlib.suppress(PermissionError):  # sudo may have left this user where he may not enter, nor read a file
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if here is not None:
            os.chdir("/")
        if os.geteuid() == 0:
            for name in _NAMED:
                os.environ.pop(name, None)
            os.environ |= {"HOME": os.fspath(own.home()), "PATH": own.SYSTEM_PATH}
        yield
    finally:
        if here is not None:
            os.fchdir(here)
            os.close(here)
        for name in {*_NAMED, "HOME", "PATH"}:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


logging.getLogger("matplotlib").setLevel(logging.ERROR)  # not of the fonts' cache, which takes a slow machine seconds
with _at_home():
    import matplotlib
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    matplotlib.rcdefaults()

__all__ = ["Figure", "FuncFormatter", "LogLocator", "rc_context"]
