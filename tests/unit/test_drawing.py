"""matplotlib is loaded without a look at the working directory, nor as root at another user's home."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.font_manager import FontManager

from tests._stranger import STRANGER, his_directory, needs_root, plant_modules
from trimtab import drawing

SETTINGS = "text.usetex: True\nbackend: module://evil\nno.such.setting: 1\n"
LOADED = """
import os
import trimtab.report.figures
from trimtab.design.poles import Loop
from trimtab.identification.model import Model
Loop(Model((0.5,), (0.5,)), 0.1, 0.5).poles()
import matplotlib
print(os.getcwd(), matplotlib.rcParams["text.usetex"], matplotlib.get_configdir())
"""


def plant_settings(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "matplotlibrc").write_text(SETTINGS)


def loaded(where: Path, **environment: str) -> list[str]:
    """The working directory afterwards, whether TeX would be run, and matplotlib's own directory."""
    command = [sys.executable, "-I", "-c", LOADED]
    environ = {**os.environ, **environment}
    done = subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_settings_of_the_working_directory_are_not_read(tmp_path: Path) -> None:
    plant_settings(tmp_path)
    assert loaded(tmp_path)[:2] == [os.fspath(tmp_path), "False"]


def test_fonts_that_take_long_are_no_line_beside_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert drawing.Figure()
    monkeypatch.setattr(threading, "Timer", lambda _, says: SimpleNamespace(start=says, cancel=lambda: None))
    FontManager()
    assert not caplog.records


@needs_root
def test_root_reads_no_settings_of_another_user() -> None:
    """All at once: any of these variables that were left would name his directory by itself."""
    named = ("HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "MATPLOTLIBRC")
    with his_directory() as his:
        marker = plant_modules(his)
        for below in (".", ".config/matplotlib", "matplotlib"):
            plant_settings(his / below)
        for path in his.rglob("*"):
            os.chown(path, STRANGER, STRANGER)
        _, usetex, directory = loaded(Path("/"), **dict.fromkeys(named, os.fspath(his)))
        assert usetex == "False"
        assert not Path(directory).is_relative_to(his)
        assert not marker.exists()


@needs_root
def test_a_user_whom_sudo_has_left_in_a_directory_that_he_may_not_enter_gets_his_figures(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    child = os.fork()  # no program of ours needs to be one that he may run
    if child == 0:
        code = 1
        try:
            os.chdir(tmp_path)
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            with drawing._at_home():
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
