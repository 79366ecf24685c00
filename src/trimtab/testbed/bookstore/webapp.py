"""The bookstore's web application: compiled servlets, style sheet, images."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from trimtab import own
from trimtab.errors import TrimtabError, UsageError
from trimtab.testbed.bookstore import images

HERE = Path(__file__).parent
SERVLET_API = Path("/usr/share/java/tomcat10-servlet-api.jar")
_RELEASE = "17"


def version(files: Iterable[Path], *parts: object) -> str:
    """Digest of these files and values, as the version of a thing made from them.

    Args:
        files: files of this package.
        parts: the values.
    """
    digest = hashlib.sha256(repr(parts).encode())
    for path in sorted(files):
        digest.update(os.fsencode(path.relative_to(HERE)) + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def sources() -> list[Path]:
    """All files that the application is made from."""
    files = [path for part in ("java", "web") for path in (HERE / part).rglob("*") if path.is_file()]
    return [*files, HERE / "images.py", HERE / "webapp.py"]


def make(directory: Path, items: int) -> None:
    """Makes the application in an empty directory.

    Args:
        directory: target directory.
        items: how many books have images.

    Raises:
        UsageError: the Java compiler or Tomcat is not installed.
        TrimtabError: the compiler refused the sources; the message carries what it said.
    """
    shutil.copytree(HERE / "web", directory, dirs_exist_ok=True)
    compile_java(directory / "WEB-INF" / "classes")
    images.write(directory / "images", items)


def compiler() -> str:
    """The Java compiler.

    Raises:
        UsageError: it or Tomcat's servlet API is not installed.
    """
    found = own.required("default-jdk-headless", "javac")
    if not SERVLET_API.exists():
        raise UsageError(f"{SERVLET_API} is not there; install the package tomcat10")
    return found


def compile_java(classes: Path) -> None:
    """Compiles the servlets.

    Args:
        classes: the directory for what comes out.

    Raises:
        UsageError: the Java compiler or Tomcat is not installed.
        TrimtabError: the compiler refused the sources; the message carries what it said.
    """
    files = sorted(map(os.fspath, (HERE / "java").rglob("*.java")))
    options = ["-encoding", "UTF-8", "--release", _RELEASE, "-d", os.fspath(classes), "-cp", os.fspath(SERVLET_API)]
    environ = {"PATH": own.SYSTEM_PATH, "LC_ALL": "C.UTF-8"}
    command = [compiler(), *options, *files]
    made = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise TrimtabError(f"javac: {' '.join(made.stderr.split())[-500:]}")
