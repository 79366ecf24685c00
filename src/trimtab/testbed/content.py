"""Content of a private server: files with the sizes of WebStone, SURGE or SPECweb99, a dynamic page, a CGI page.

The static mix is the one of WebStone 2.5's standard file list, which liu2003 uses: 500 B 35 %, 5 KB 50 %,
50 KB 14 %, 500 KB 0.9 %, 5 MB 0.1 % of the requests.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from trimtab.workloads._specweb99_files import File, SpecFileSet
from trimtab.workloads._surge_files import FileSet

WEBSTONE: tuple[File, ...] = (
    File("/file500.html", 500, 0.35),
    File("/file5k.html", 5_000, 0.50),
    File("/file50k.html", 50_000, 0.14),
    File("/file500k.html", 500_000, 0.009),
    File("/file5m.html", 5_000_000, 0.001),
)


def surge(files: int) -> tuple[File, ...]:
    """The files that the workload `surge` asks for, the most popular first: the same on every machine.

    Args:
        files: how many; 0 for none. A thousand take 51 MB.
    """
    if files == 0:
        return ()
    chosen = FileSet(files)
    return tuple(File(u.path, size, u.weight) for u, size in zip(chosen.urls, chosen.sizes_bytes, strict=True))


def specweb99(directories: int) -> tuple[File, ...]:
    """The files that the workload `specweb99` asks for, by the weights of its standard mix.

    Args:
        directories: how many; 0 for none. One takes 5 MB.
    """
    if directories == 0:
        return ()
    return tuple(SpecFileSet(directories).files())


CGI_PATH = "/cgi-bin/service.cgi"
DYNAMIC_PATH = "/dynamic.php"


def dynamic_url(cpu_us: int, memory_kb: int, wait_us: int = 0, lock_percent: int = 0, cold_kb: int = 0) -> str:
    """The dynamic page that uses this much.

    Args:
        cpu_us: CPU time in microseconds, beside what filling the memory takes.
        memory_kb: memory written to, in KiB; it stays resident in the worker after the request.
        wait_us: time that it waits with its memory held, as for a database, in microseconds.
        lock_percent: share of both under a lock that one worker holds at a time.
        cold_kb: memory that a worker takes with its first page and touches no more, in KiB; needs PHP's ffi.enable.
    """
    more = {"wait_us": wait_us, "lock_percent": lock_percent, "cold_kb": cold_kb}
    rest = "".join(f"&{name}={value}" for name, value in more.items() if value)
    return f"{DYNAMIC_PATH}?cpu_us={cpu_us}&memory_kb={memory_kb}{rest}"


def cgi_url(service_ms: int, size_bytes: int = 100) -> str:
    """The CGI page that takes this long, whatever the load.

    Args:
        service_ms: time the script sleeps before it answers, in milliseconds.
        size_bytes: length of the reply's body.
    """
    return f"{CGI_PATH}?service_ms={service_ms}&bytes={size_bytes}"


def body(file: File) -> bytes:
    """The file's bytes: the same on every machine, and as compressible as text in hexadecimal."""
    block = "".join(hashlib.sha256(f"{file.path} {n}".encode()).hexdigest() + "\n" for n in range(64)).encode()
    return (block * (file.size_bytes // len(block) + 1))[: file.size_bytes]


def write(directory: Path, more: Iterable[File] = ()) -> None:
    """Makes `htdocs` and `cgi-bin`, readable by everybody.

    Args:
        directory: target directory, which exists.
        more: files beside WebStone's. They stay in the page cache at the writer's charge, because flushing a thousand
            files one by one takes ten seconds.
    """
    documents, scripts = directory / "htdocs", directory / "cgi-bin"
    for made in (documents, scripts):
        made.mkdir(mode=0o755)
    for file in WEBSTONE:
        _write(documents / file.path.lstrip("/"), body(file), 0o644)
    for file in more:
        made = documents / file.path.lstrip("/")
        _directories(made.parent)
        made.write_bytes(body(file))
        made.chmod(0o644)
    for source, target, mode in (
        ("dynamic.php", documents / "dynamic.php", 0o644),
        ("service.cgi", scripts / "service.cgi", 0o755),
    ):
        _write(target, (resources.files(__package__) / "pages" / source).read_bytes(), mode)


def _directories(directory: Path) -> None:
    """Makes a directory and those that it is in, readable by everybody whatever the umask."""
    if not directory.exists():
        _directories(directory.parent)
        directory.mkdir()
        directory.chmod(0o755)


def _write(path: Path, text: bytes, mode: int) -> None:
    with path.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        # The server, not the owner of the testbed, is to be charged for the page cache.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    path.chmod(mode)
