"""`memory.py` in a virtual machine, where this one does not permit the descriptors that 100,000 connections need.

    python benchmarks/gate/memory_vm.py --kernel VMLINUZ --out benchmarks/results/DATE-gate-memory-vm

The machine boots a Linux kernel with what the benchmark needs of this machine's files in memory, has no network but
its loopback, and powers off when it is done or after an hour. What is measured there are bytes, not times, so a
processor that is emulated will do: about half an hour. Needs the Debian packages cpio, git and qemu-system-x86, those
of `run.py`, and any kernel image of Debian's linux-image-cloud-amd64 (unpacked, not installed).
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import tty
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv"
PROGRAMS = ("apache2", "haproxy", "nginx", "git", "nice", "sh")
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ALSO = (
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/mime.types",
    "/usr/lib/apache2/modules",
)
LINKS = ("/bin", "/sbin", "/lib", "/lib64")
LEFT_OUT = {"__pycache__", "test", "target", "results", "node_modules"}
DESCRIPTORS = 210_000
MEMORY_MIB = 8192
PATIENCE_S = 3600
RESULTS = "/tmp/results"
POWER_OFF = 0x4321FEDC


def files(top: Path) -> Iterator[Path]:
    """All below a directory, without what the benchmark does not read."""
    for directory, names, found in os.walk(top):
        names[:] = [name for name in names if name not in LEFT_OUT]
        yield from (Path(directory) / name for name in (*found, *names))


def libraries(of: Iterable[Path]) -> set[Path]:
    """The shared libraries that programs and libraries load."""
    done = subprocess.run(["ldd", *map(str, of)], capture_output=True, text=True, check=False)
    words = (word for line in done.stdout.splitlines() if line.startswith("\t") for word in line.split())
    return {Path(word) for word in words if word.startswith("/")}


def links(path: Path) -> Iterator[Path]:
    """A path as the directories really are, and all that it leads to."""
    while True:
        path = Path(os.path.realpath(path.parent)) / path.name
        yield path
        if not path.is_symlink():
            return
        path = path.parent / os.readlink(path)


def wanted() -> list[Path]:
    """Every path that the machine gets: parents before what they hold, links with what they lead to."""
    named = [shutil.which(name, path=SEARCH) for name in PROGRAMS]
    if None in named:
        raise SystemExit(f"not all of these are installed: {', '.join(PROGRAMS)}")
    python, base = Path(sys.executable).resolve(), Path(sys.base_prefix)
    stdlib = base / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = {python, *(Path(name) for name in named if name), *map(Path, (*LINKS, *ALSO))}
    for top in (*map(Path, ALSO), ROOT, stdlib):
        found |= {path for path in files(top) if not path.is_relative_to(stdlib / "site-packages")}
    loaded = {path for path in found if path.is_file() and (path.suffix == ".so" or os.access(path, os.X_OK))}
    found |= libraries(loaded) | libraries(path for path in found if ".so." in path.name)
    found = {link for path in found for link in links(path)}
    found |= {parent for path in found for parent in path.parents}
    return sorted(found)


def boot(kernel: Path, out: Path) -> None:
    """Runs the machine and brings the results home.

    Raises:
        SystemExit: it did not give any.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-benchmark-") as name:
        archive, results = Path(name) / "files", Path(name) / "results.tar"
        paths = "\0".join(os.path.relpath(path, "/") for path in wanted())
        with archive.open("wb") as written:
            pack = ["cpio", "--null", "--create", "--format=newc", "--quiet", "-D", "/"]
            subprocess.run(pack, input=paths.encode(), stdout=written, check=True)
        start = f"rdinit={Path(sys.executable).resolve()} -- {Path(__file__).resolve()} --inside"
        command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2"]
        command += ["-m", str(MEMORY_MIB), "-nic", "none", "-display", "none", "-no-reboot"]
        command += ["-kernel", str(kernel), "-initrd", str(archive), "-serial", "stdio", "-serial", f"file:{results}"]
        command += ["-append", f"console=ttyS0 quiet panic=-1 {start}"]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
        if not results.exists() or not results.stat().st_size:
            raise SystemExit("the machine ended without results")
        with tarfile.open(results) as brought:
            brought.extractall(out, filter="data")


def inside() -> None:
    """The first and only process that the machine starts by itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, where in (
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
    ):
        os.makedirs(where, exist_ok=True)
        if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None):
            raise OSError(ctypes.get_errno(), where)
    os.makedirs("/dev/shm", exist_ok=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh14x", b"lo", 0x41)  # IFF_UP and IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    environment = {"PATH": SEARCH, "HOME": "/root", "LANG": "C.UTF-8"}
    command = [ENVIRONMENT / "bin" / "python", "benchmarks/gate/memory.py", "--out", RESULTS]
    subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False)
    with open("/dev/ttyS1", "wb", buffering=0) as line:
        tty.setraw(line.fileno())
        with tarfile.open(fileobj=line, mode="w|") as brought:
            brought.add(RESULTS, arcname=".")
        fcntl.ioctl(line, 0x5409, 1)  # TCSBRK: until all is sent
    os.sync()
    libc.reboot(POWER_OFF)


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        inside()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", type=Path, required=True, help="a Linux kernel image for this architecture")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; it must not exist")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=False)
    boot(args.kernel, args.out)
