"""What another local user tries against trimtab as root, with `trimtab` as it is installed."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from tests._stranger import STRANGER, needs_root
from tests.servers._under_gate import PATIENCE_S, a_name, trimtab_run
from trimtab.gate import run_directory

pytestmark = [pytest.mark.server, pytest.mark.root, needs_root]


@contextlib.contextmanager
def strangers_process(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of his that has this environment, and waits."""
    with subprocess.Popen(["/bin/cat"], stdin=-1, stdout=-1, env=environment, user=STRANGER, cwd="/") as process:
        yield process


def test_a_process_that_names_the_mapped_file_neither_keeps_trimtab_run_nor_gets_its_signals() -> None:
    name = a_name()
    with strangers_process(TRIMTAB_SHARED=str(run_directory.named(name).shared)) as stranger:
        process = trimtab_run("--name", name, "--", "/bin/sh", "-c", "exit 3")
        try:
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        assert (process.returncode, said) == (3, "")
        assert stranger.poll() is None
