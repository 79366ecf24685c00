"""Facts of this machine that a result depends on; nothing that names it."""

from __future__ import annotations

import os
import platform

from trimtab import __version__


def facts() -> dict[str, str | int | float]:
    """Kernel, architecture, cores, memory in bytes, versions of Python and trimtab."""
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "trimtab": __version__,
    }
