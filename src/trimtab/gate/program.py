"""Whether a server's program can be run under the shim, found out before anything is started."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError
from trimtab.processes import capable

_ELF = struct.Struct("<16sHHIQQQIHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DYNAMIC = struct.Struct("<qQ")
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5
_MOST_BYTES = 64 * 1024
"""Longest table that is read: the kernel runs no program with more program headers."""
_IO_URING = b"liburing"
_MUSL = b"/ld-musl-"
_LONGEST_LOADER = 4096
_SHIM_LIBC = "musl" if "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")) else "glibc"
"""That of this Python, beside which the shim was built."""
_LONGEST_SHEBANG = 256
_MOST_INTERPRETERS = 4
_NET_BIND_SERVICE = 10


def found(name: str, gated: bool) -> Path:
    """Path of a program, once it is known that the shim can be loaded into it.

    Args:
        name: a path, or a name that is looked for as `own.program` does.
        gated: whether it is to take its connections from a gate.

    Raises:
        UsageError: there is none, the loader would leave the shim out, or it could take none from the gate.
    """
    where = own.program(name)
    if where is None:
        place = "" if "/" in name else f" in {own.search_path()}"
        raise UsageError(f"no such program: {name!r} is not an executable file{place}")
    path = Path(where).absolute()
    _require_loadable(path, gated, _MOST_INTERPRETERS)
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
        if capable(_NET_BIND_SERVICE, proc):
            return
    except (OSError, ValueError):
        return
    low = [port for port in ports if port < first]
    if low:
        raise UsageError(
            f"port {low[0]} is privileged (below {first}): run as root, or choose a port from {first} up"
        )


def _require_loadable(path: Path, gated: bool, depth: int) -> None:
    """Makes sure that the shim can do its work in a program; in a script that is its interpreter."""
    try:
        with path.open("rb") as file:
            head = file.read(max(_ELF.size, _LONGEST_SHEBANG))
            status = os.fstat(file.fileno())
            if head.startswith(b"\x7fELF"):
                _require_dynamic(path, head, file.fileno(), gated)
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
        if os.path.basename(named) == "env":
            # Its options (-S splits what follows) and variables come before the program.
            after = (word for word in words[1:] if not word.startswith(b"-") and b"=" not in word)
            named = shutil.which(os.fsdecode(next(after, b""))) or ""
        if not os.access(named, os.X_OK):
            raise UsageError(f"{path} is a script for {named!r}, which is no program")
        _require_loadable(Path(named), gated, depth - 1)


def _require_dynamic(path: Path, head: bytes, fd: int, gated: bool) -> None:
    """Refuses an ELF program that is static, of another libc, has capabilities or, under a gate, has io_uring."""
    if len(head) < _ELF.size or head[4:6] != b"\x02\x01":
        raise UsageError(f"{path} is not a 64-bit little-endian program, as the shim is")
    *_, headers_at, _, _, _, _, number = _ELF.unpack_from(head)
    headers = list(_table(fd, _PROGRAM_HEADER, number * _PROGRAM_HEADER.size, headers_at))
    loaders = [header for header in headers if header[0] == _PT_INTERP]
    if not loaders:
        raise UsageError(f"{path} is statically linked, so the shim cannot be loaded into it")
    is_musl = any(_MUSL in _read(fd, min(length, _LONGEST_LOADER), at) for _, _, at, _, _, length, *_ in loaders)
    libc = "musl" if is_musl else "glibc"
    if libc != _SHIM_LIBC:
        raise UsageError(
            f"{path} is linked with {libc} and the shim with {_SHIM_LIBC}, so its loader cannot load that"
        )
    if gated and any(name.startswith(_IO_URING) for name in _libraries(fd, headers)):
        raise UsageError(
            f"{path} is linked with liburing, and a server that accepts by io_uring gets no connection from a gate: "
            "run it without --gate"
        )
    try:
        os.getxattr(fd, "security.capability")
    except OSError:
        return
    if os.geteuid() != 0:
        raise UsageError(f"{path} has file capabilities, so the loader leaves the shim out: run as root")


def _libraries(fd: int, headers: Sequence[tuple[int, ...]]) -> Iterator[bytes]:
    """Names of the libraries that an ELF program is linked with (DT_NEEDED)."""
    names, strings_at = list[int](), None
    for kind, _, offset, _, _, length, *_ in headers:
        if kind != _PT_DYNAMIC:
            continue
        for tag, value in _table(fd, _DYNAMIC, length, offset):
            if tag == _DT_NULL:
                break
            if tag == _DT_NEEDED:
                names.append(value)
            elif tag == _DT_STRTAB:
                strings_at = _offset(value, headers)
    if strings_at is not None:
        for name in names:
            yield _read(fd, len(_IO_URING), strings_at + name)


def _offset(address: int, headers: Sequence[tuple[int, ...]]) -> int | None:
    """Where in the file lies what an ELF program has at an address; None when it has nothing there."""
    for kind, _, offset, start, _, length, *_ in headers:
        if kind == _PT_LOAD and start <= address < start + length:
            return offset + address - start
    return None


def _table(fd: int, entry: struct.Struct, length: int, at: int) -> Iterator[tuple[int, ...]]:
    """The whole entries of a table in a file."""
    table = _read(fd, length, at)
    return entry.iter_unpack(table[: len(table) // entry.size * entry.size])


def _read(fd: int, length: int, at: int) -> bytes:
    """Bytes of a file, no more than a sane program has there; none where no file goes."""
    return os.pread(fd, min(length, _MOST_BYTES), at) if at < 1 << 62 else b""
