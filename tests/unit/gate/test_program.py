"""Programs into which the shim cannot be loaded are refused before anything is started."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from pathlib import Path

import pytest

from trimtab import own
from trimtab.errors import UsageError
from trimtab.gate import program

ELF = struct.Struct("<16sHHIQQQIHHH")
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3


def elf(path: Path, *kinds: int, bits: int = 2) -> Path:
    """A program of nothing but its headers."""
    head = ELF.pack(b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9), 3, 62, 1, 0, ELF.size, 0, 0, 64, 56, len(kinds))
    path.write_bytes(head + b"".join(struct.pack("<I", kind) + bytes(52) for kind in kinds))
    path.chmod(0o755)
    return path


def linked(path: Path, *libraries: bytes, strings_at: int = 0x5000, bytes_more: int = 0) -> Path:
    """A program that is linked with these libraries, at another address than in the file."""
    strings, names = b"\0", list[int]()
    for library in libraries:
        names.append(len(strings))
        strings += library + b"\0"
    entries = [*((1, name) for name in names), (5, strings_at), (0, 0), (1, 0)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    at = ELF.size + 3 * 56
    segments = [
        (PT_INTERP, 0, 0, 0),
        (PT_LOAD, at + len(dynamic), 0x5000, len(strings)),
        (PT_DYNAMIC, at, 0, len(dynamic)),
    ]
    head = ELF.pack(b"\x7fELF" + bytes([2, 1, 1]) + bytes(9), 3, 62, 1, 0, ELF.size, 0, 0, 64, 56, len(segments))
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, start, start, length + bytes_more, length, 8)
        for kind, offset, start, length in segments
    )
    path.write_bytes(head + table + dynamic + strings)
    path.chmod(0o755)
    return path


def refused(name: object, gated: bool = False) -> str:
    with pytest.raises(UsageError) as error:
        program.found(str(name), gated)
    return str(error.value)


def test_a_dynamically_linked_program_is_found_in_path_and_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = elf(tmp_path / "server", PT_LOAD, PT_INTERP)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert program.found("server", gated=True) == program.found(str(made), gated=False) == made
    assert program.found(sys.executable, gated=True)


def test_what_is_not_there_or_not_executable_is_no_program(tmp_path: Path) -> None:
    unknown = f"no such program: 'no-such-server' is not an executable file in {own.search_path()}"
    assert refused("no-such-server") == unknown
    (tmp_path / "text").write_text("hello")
    assert refused(tmp_path / "text") == f"no such program: '{tmp_path}/text' is not an executable file"


def test_a_static_program_is_refused(tmp_path: Path) -> None:
    assert "is statically linked, so the shim cannot be loaded" in refused(elf(tmp_path / "static", PT_LOAD))


def test_a_program_of_32_bits_is_refused(tmp_path: Path) -> None:
    assert "is not a 64-bit" in refused(elf(tmp_path / "old", PT_INTERP, bits=1))


def test_a_program_whose_loader_cannot_load_the_shim_is_refused_before_it_fails_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded_by(loader: bytes) -> Path:
        made = tmp_path / "server"
        at = ELF.size + 56
        head = ELF.pack(b"\x7fELF" + bytes([2, 1, 1]) + bytes(9), 3, 62, 1, 0, ELF.size, 0, 0, 64, 56, 1)
        made.write_bytes(head + struct.pack("<IIQQQQQQ", PT_INTERP, 4, at, at, at, *[len(loader)] * 2, 1) + loader)
        made.chmod(0o755)
        return made

    loaders = {"musl": b"/lib/ld-musl-x86_64.so.1\0", "glibc": b"/lib64/ld-linux-x86-64.so.2\0"}
    for libc, other in (("glibc", "musl"), ("musl", "glibc")):
        monkeypatch.setattr(program, "_SHIM_LIBC", libc)
        made = loaded_by(loaders[libc])
        assert program.found(str(made), gated=True) == made
        said = refused(loaded_by(loaders[other]))
        assert said == f"{made} is linked with {other} and the shim with {libc}, so its loader cannot load that"


def test_a_script_is_judged_by_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "ctl"
    script.write_text(f"#!{sys.executable} -u\n")
    script.chmod(0o755)
    assert program.found(str(script), gated=False) == script
    script.write_text(f"#!{elf(tmp_path / 'static', PT_LOAD)}\n")
    assert "static is statically linked" in refused(script)
    script.write_text(f"#!/usr/bin/env -S MODE=web {sys.executable} -u\n")
    assert program.found(str(script), gated=False) == script
    script.write_text("#!/no/such/shell\n")
    assert "is a script for '/no/such/shell', which is no program" in refused(script)


def test_a_program_that_is_linked_with_liburing_is_refused_under_a_gate_alone(tmp_path: Path) -> None:
    made = linked(tmp_path / "server", b"libc.so.6", b"liburing.so.2", b"libm.so.6")
    said = refused(made, gated=True)
    assert said.startswith(
        f"{made} is linked with liburing, and a server that accepts by io_uring gets no connection"
    )
    assert "\n" not in said
    assert program.found(str(made), gated=False) == made
    script = tmp_path / "ctl"
    script.write_text(f"#!{made}\n")
    script.chmod(0o755)
    assert "linked with liburing" in refused(script, gated=True)
    other = linked(tmp_path / "other", b"libc.so.6", b"libur.so.1")
    assert program.found(str(other), gated=True) == other


@pytest.mark.parametrize("strings_at", [0, 0x4FFF, 0x5100, 2**64 - 1])
@pytest.mark.parametrize("bytes_more", [0, 2**62, 2**64 - 4096])
def test_what_a_program_says_of_itself_is_read_within_bounds(
    tmp_path: Path, strings_at: int, bytes_more: int
) -> None:
    made = linked(tmp_path / "server", b"liburing.so.2", strings_at=strings_at, bytes_more=bytes_more)
    made.write_bytes(made.read_bytes() + b"liburing" * 10_000)
    with contextlib.suppress(UsageError):
        assert program.found(str(made), gated=True) == made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program to another user")
def test_a_program_that_changes_its_user_is_refused(tmp_path: Path) -> None:
    made = elf(tmp_path / "server", PT_INTERP)
    os.chown(made, 65534, 65534)
    made.chmod(0o4755)
    assert "changes its user when it starts" in refused(made)


def test_a_privileged_port_needs_the_capability(tmp_path: Path) -> None:
    def proc(capabilities: int) -> Path:
        (tmp_path / "sys/net/ipv4").mkdir(parents=True, exist_ok=True)
        (tmp_path / "self").mkdir(exist_ok=True)
        (tmp_path / "sys/net/ipv4/ip_unprivileged_port_start").write_text("1024\n")
        (tmp_path / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\n")
        return tmp_path

    program.require_allowed([80], proc(1 << 10))
    program.require_allowed([1024, 8080], proc(0))
    with pytest.raises(UsageError, match=r"port 443 is privileged \(below 1024\): run as root"):
        program.require_allowed([8080, 443], proc(1 << 9))
