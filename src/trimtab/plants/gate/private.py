"""A gate and a mapped file without a server, for tests such as the conformance kit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from trimtab.clock import SystemClock
from trimtab.gate import run_directory
from trimtab.gate.pair import Pair
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.spec import parse
from trimtab.sensors import _shared_file

_SPEC = """
listen = [8080]
workers = 100
guarantee = "relative"
[[class]]
name = "premium"
match = [{ source = "127.0.1.0/24" }]
desired = 1
[[class]]
name = "basic"
desired = 3
"""


@contextlib.contextmanager
def keep_alive() -> Iterator[tuple[str, ...]]:
    """The mapped file of a run, and the words with which the command line names it."""
    with _run("keep-alive") as run_dir:
        yield ("--name", run_dir.name)


@contextlib.contextmanager
def gate() -> Iterator[tuple[str, ...]]:
    """A gate, and the words with which the command line names it."""
    with _run("gate") as run_dir:
        line = parse(_SPEC).start(run_dir.directory)
        run_dir.write_start_line(line)
        pair = Pair(run_dir, line, SystemClock(), lambda _: None)
        try:
            yield ("--name", run_dir.name)
        finally:
            pair.stop()


@contextlib.contextmanager
def _run(what: str) -> Iterator[RunDirectory]:
    run_dir = run_directory.claim(f"testbed-{what}-{os.getpid()}")
    try:
        _shared_file.create(run_dir.shared)
        yield run_dir
    finally:
        run_dir.release()
