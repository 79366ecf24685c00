"""Our Java program (`Jmx.java`), and the Java that compiles and runs it: the system's, or the Tomcat's own."""

from __future__ import annotations

import functools
import io
import os
import re
import subprocess
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

from trimtab import own
from trimtab.errors import UsageError
from trimtab.plants._vetted import require_here
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.processes import maps
from trimtab.trust import printable, untrusted, untrusted_in

JVM = ("-Xmx64m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Java's options for a small program that lives as long as trimtab does."""
ATTACHES = "--add-opens=jdk.attach/sun.tools.attach=ALL-UNNAMED"
OPTIONS = (*JVM, ATTACHES, "--source", "11")
"""Those with which Java compiles the program and runs it."""
NEEDED = "Java must be of version 11 or newer, with its compiler (jdk.compiler), as default-jre-headless has it"
ENVIRONMENT = {"PATH": own.SYSTEM_PATH, "LANG": "C.UTF-8"}
_COMPILE_S = 60.0
_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_JAVAC = "jdk.compiler/com.sun.tools.javac.Main"
_COMPILER = (*JVM, "-m", _JAVAC, "-source", "11", "-target", "11", "-nowarn", "-proc:none")
_LIBRARY = re.compile(rb"[^/]*(/.*)/lib/(?:server|client|minimal)/libjvm\.so(?: \(deleted\))?", re.DOTALL)
"""A line of a process's maps with the library of its JVM, of Java 9 or newer."""


def source() -> str:
    """The Java program."""
    return resources.files("trimtab.plants.tomcat").joinpath("Jmx.java").read_text(encoding="utf-8")


@functools.cache
def compiled(java: str) -> bytes:
    """The Java program as a jar: compiled once, without a disk, it starts with a ninth of the CPU time of its text.

    Args:
        java: path of the Java that compiles it, which is trusted.

    Raises:
        OSError, SubprocessError: it did not compile.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-jmx-", dir=_IN_MEMORY) as name:
        Path(name, "Jmx.java").write_text(source(), encoding="utf-8")
        # The compiler takes what it finds in its working directory for parts of the program.
        command = [java, *_COMPILER, "Jmx.java"]
        subprocess.run(command, check=True, capture_output=True, timeout=_COMPILE_S, env=ENVIRONMENT, cwd=name)
        with zipfile.ZipFile(jar := io.BytesIO(), "w") as classes:
            for path in sorted(Path(name).glob("*.class")):
                classes.write(path, path.name)
    return jar.getvalue()


def java(process: TomcatProcess) -> str:
    """Path of the Java that runs it: the system's, or else the one on which a Tomcat runs, as one in /opt.

    Raises:
        UsageError: none can, or others could change it; the message says what is the matter with each.
        PlantGone: the Tomcat has ended.
    """
    why = list[str]()
    for path, look in ((own.program("java"), untrusted), (_theirs(process), _untrusted_home)):
        if path is None:
            continue
        if reason := look(path):
            why.append(f"{printable(path)} is not run: {reason}")
            continue
        try:
            compiled(path)
        except (OSError, subprocess.SubprocessError):
            why.append(f"{printable(path)} does not compile our program")
        else:
            return path
    raise UsageError(f"{process} is asked by JMX, and {'; '.join(why) or 'no java is here'}: {NEEDED}")


def _theirs(process: TomcatProcess) -> str | None:
    """The Java on which it runs, by its JVM's library: its own program may be another, as jsvc."""
    require_here(process)  # elsewhere the same path may lead to another one
    found = next(filter(None, map(_LIBRARY.fullmatch, maps(process.pid))), None)
    return None if found is None else f"{os.fsdecode(found[1])}/bin/java"


def _untrusted_home(java: str) -> str | None:
    """Reason why a Java is not trusted, or anything that it loads, which an archive's owner may own."""
    return untrusted(java) or next(untrusted_in(Path(java).parent.parent, files=True), None)
