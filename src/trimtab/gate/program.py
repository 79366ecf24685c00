"""Whether a server's program can be run under the shim, found out before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError

_ELF = struct.Struct("<16sHHIQQQIHHH")
_PROGRAM_HEADER_BYTES = 4
_PT_INTERP = 3
_LONGEST_SHEBANG = 256
_MOST_INTERPRETERS = 4
_NET_BIND_SERVICE = 10


def found(name: str) -> Path:
    """Path of a program, once it is known that the shim can be loaded into it.

    Args:
        name: a path, or a name that is looked for as `own.program` does.

    Raises:
        UsageError: there is none, or the loader would leave the shim out.
    """
    where = own.program(name)
    if where is None:
        place = "" if "/" in name else f" in {own.search_path()}"
        raise UsageError(f"no such program: {name!r} is not an executable file{place}")
    path = Path(where).absolute()
    _require_loadable(path, _MOST_INTERPRETERS)
    return path


def require_allowed(ports: Sequence[int], proc: Path = Path("/proc")) -> None:
    """Makes sure that this user may listen on some ports.

    Args:
        ports: the ports.
        proc: where /proc is.

    Raises:
        UsageError: one is privileged, and this user is not.
    """
    try:
        first = int((proc / "sys/net/ipv4/ip_unprivileged_port_start").read_text(encoding="ascii"))
        status = (proc / "self/status").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if capabilities is None or int(capabilities[1], 16) >> _NET_BIND_SERVICE & 1:
        return
    low = [port for port in ports if port < first]
    if low:
        raise UsageError(
            f"port {low[0]} is privileged (below {first}): run as root, or choose a port from {first} up"
        )


def _require_loadable(path: Path, depth: int) -> None:
    """Makes sure that the loader of a program obeys LD_PRELOAD; that of a script is its interpreter's."""
    try:
        with path.open("rb") as file:
            head = file.read(max(_ELF.size, _LONGEST_SHEBANG))
            status = os.fstat(file.fileno())
            if head.startswith(b"\x7fELF"):
                _require_dynamic(path, head, file.fileno())
    except PermissionError:
        return  # It may be run but not read, so its kind is not known.
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    user = status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid()
    group = status.st_mode & stat.S_ISGID and status.st_gid != os.getegid()
    if user or group:
        raise UsageError(f"{path} changes its user when it starts (setuid), so the loader leaves the shim out")
    if head.startswith(b"#!") and depth > 0:
        words = head[2:].split(b"\n", 1)[0].split()
        named = os.fsdecode(words[0]) if words else ""
        if os.path.basename(named) == "env" and len(words) > 1:
            named = shutil.which(os.fsdecode(words[1])) or ""
        if not os.access(named, os.X_OK):
            raise UsageError(f"{path} is a script for {named!r}, which is no program")
        _require_loadable(Path(named), depth - 1)


def _require_dynamic(path: Path, head: bytes, fd: int) -> None:
    """Refuses an ELF program that is linked statically or has capabilities of its own."""
    if len(head) < _ELF.size or head[4:6] != b"\x02\x01":
        raise UsageError(f"{path} is not a 64-bit little-endian program, as the shim is")
    *_, headers_at, _, _, _, size, number = _ELF.unpack_from(head)
    table = os.pread(fd, size * number, headers_at)
    kinds = [table[at : at + _PROGRAM_HEADER_BYTES] for at in range(0, len(table), max(1, size))]
    if struct.pack("<I", _PT_INTERP) not in kinds:
        raise UsageError(f"{path} is statically linked, so the shim cannot be loaded into it")
    try:
        os.getxattr(fd, "security.capability")
    except OSError:
        return
    if os.geteuid() != 0:
        raise UsageError(f"{path} has file capabilities, so the loader leaves the shim out: run as root")
