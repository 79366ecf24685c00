"""Starting a server with the shim preloaded: the environment, and the proof that the shim works there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.errors import TrimtabError, UsageError
from trimtab.gate.run_directory import SHARED_VARIABLE, RunDirectory
from trimtab.sensors import _shared_file

_LOADER_SEPARATORS = " :"
_PROBE = "print(open('/proc/self/maps').read())"
_PROBE_PATIENCE_S = 20.0


def loadable(shim: Path) -> str:
    """The shim's path, as LD_PRELOAD can name it.

    Raises:
        TrimtabError: it has a character at which the loader would part it.
    """
    text = os.fspath(shim)
    if any(separator in text for separator in _LOADER_SEPARATORS):
        raise TrimtabError(f"the loader cannot read a path with a space or a colon: {text}")
    return text


def preloaded(
    environment: Mapping[str, str], shim: str, run_dir: RunDirectory, ports: Sequence[int], gated: bool
) -> dict[str, str]:
    """The environment of a server with the shim.

    Args:
        environment: the server's environment without it.
        shim: path of the library.
        run_dir: the run directory.
        ports: ports that are gated, or whose connections are measured; none for all that the server listens on.
        gated: whether there is a gate.
    """
    ours = {SHARED_VARIABLE: os.fspath(run_dir.shared), "TRIMTAB_PORTS": ",".join(map(str, ports)) or "*"}
    if gated:
        ours["TRIMTAB_HANDOFF"] = os.fspath(run_dir.directory)
    others = {name: value for name, value in environment.items() if not name.startswith("TRIMTAB_")}
    preload = " ".join(filter(None, (shim, environment.get("LD_PRELOAD"))))
    return {**others, **ours, "LD_PRELOAD": preload}


def require_active(environment: Mapping[str, str]) -> None:
    """Makes sure that the shim takes up its work where it is loaded: it then has the mapped file in its memory.

    A shim of another version, or for another machine, leaves everything to libc and says nothing.

    Args:
        environment: from `preloaded`, with the mapped file made.

    Raises:
        UsageError: it does not, or did not answer in time.
    """
    # Python, because it is known to be there and to be linked dynamically.
    command = [sys.executable, "-I", "-S", "-c", _PROBE]
    patience_s = _PROBE_PATIENCE_S
    try:
        said = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired:
        text = f"a program with the shim did not end within {patience_s:g} s, so it is not known whether it works"
        raise UsageError(f"{text}: try again when the machine is less busy") from None
    if environment[SHARED_VARIABLE] in said.stdout:
        return
    shim = environment["LD_PRELOAD"].split()[0]
    why = " ".join(said.stderr.split()) or f"its mapped file is not of version {_shared_file.VERSION}"
    raise UsageError(f"the shim {shim} does not work with this trimtab ({why}): build both anew with 'make setup'")
