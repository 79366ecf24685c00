"""Which Java runs our program beside a Tomcat: the system's, or the Tomcat's own where that can be trusted."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plants.test_tomcat_change import of_this_process
from trimtab import own
from trimtab.errors import UsageError
from trimtab.plants.tomcat import process
from trimtab.plants.tomcat.java import compiled, java

NONE = "exit 1"
SYSTEMS = "/usr/bin/java"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home of the JVM that this process seems to run, as in /opt."""
    home = tmp_path / "opt" / "java"
    library = home / "lib" / "server" / "libjvm.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x" * mmap.PAGESIZE)
    (home / "bin").mkdir()
    (home / "bin" / "java").touch(0o755)
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        yield home


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Says which programs have a compiler."""

    def only(*programs: object) -> None:
        def run(command: list[str], **options: Any) -> None:
            if command[0] not in map(str, programs):
                raise subprocess.CalledProcessError(1, command)
            Path(options["cwd"], "Jmx.class").write_bytes(b"compiled")

        monkeypatch.setattr(subprocess, "run", run)

    compiled.cache_clear()
    yield only
    compiled.cache_clear()


def systems(monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    """What the system's directories have."""
    monkeypatch.setattr(own, "program", lambda name: found)


def test_where_the_system_has_none_the_one_on_which_tomcat_runs_does(
    monkeypatch: pytest.MonkeyPatch, home: Path, compiles: Callable[..., None]
) -> None:
    systems(monkeypatch, None)
    compiles(home / "bin" / "java")
    assert java(of_this_process()) == str(home / "bin" / "java")


def test_where_the_systems_is_too_old_or_has_no_compiler_tomcats_own_is_taken(
    monkeypatch: pytest.MonkeyPatch, home: Path, compiles: Callable[..., None]
) -> None:
    systems(monkeypatch, SYSTEMS)
    compiles(SYSTEMS, home / "bin" / "java")
    assert java(of_this_process()) == SYSTEMS
    compiled.cache_clear()
    compiles(home / "bin" / "java")
    assert java(of_this_process()) == str(home / "bin" / "java")


def test_what_others_could_change_in_it_is_named_and_nothing_of_it_is_run(
    monkeypatch: pytest.MonkeyPatch, home: Path, compiles: Callable[..., None]
) -> None:
    systems(monkeypatch, None)
    compiles(home / "bin" / "java")
    (home / "lib" / "modules").touch()
    (home / "lib" / "modules").chmod(0o666)
    said = f"{home}/bin/java is not run: {home}/lib/modules can be written by everybody: chmod o-w .*jdk.compiler"
    with pytest.raises(UsageError, match=said):
        java(of_this_process())


def test_what_is_the_matter_with_each_is_said(
    monkeypatch: pytest.MonkeyPatch, home: Path, compiles: Callable[..., None]
) -> None:
    systems(monkeypatch, SYSTEMS)
    compiles()
    with pytest.raises(UsageError, match=f"{SYSTEMS} does not compile .*{home}/bin/java does not .*: Java must be"):
        java(of_this_process())


def test_where_there_is_none_at_all_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    systems(monkeypatch, None)
    with pytest.raises(UsageError, match=r"no java is here: Java must .* default-jre-headless has it"):
        java(of_this_process())


def test_the_program_is_compiled_without_a_disk_which_may_be_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiles: Callable[..., None]
) -> None:
    compiles(SYSTEMS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with zipfile.ZipFile(io.BytesIO(compiled(SYSTEMS))) as jar:
        assert jar.read("Jmx.class") == b"compiled"


@pytest.mark.parametrize("name", ["java", "jsvc"])
def test_a_tomcat_is_found_by_its_library_whether_java_or_jsvc_started_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(process, "program_of", lambda pid: Path("/usr/bin", name) if pid == os.getpid() else None)
    with contextlib.closing((tmp_path / "catalina.jar").open("w")):
        assert [one.pid for one in process.TomcatProcess.running()] == [os.getpid()]
