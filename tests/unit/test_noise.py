"""What is rerun: a named test whose two measurements differ, and nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
from tests._noise import agree, noisy

tries = {"times": 0, "count": 0}

@noisy("the first try is spoilt")
def test_times():
    tries["times"] += 1
    agree(2.0 if tries["times"] == 1 else 1.0, 1.0, 0.1, "time")

@noisy("would be well at the second try")
def test_count():
    tries["count"] += 1
    assert tries["count"] == 2
"""


def test_a_difference_of_measurements_is_rerun_and_named_and_a_failed_count_is_not(tmp_path: Path) -> None:
    (tmp_path / "test_of_noise.py").write_text(TESTS, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-raR",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(ROOT), str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed, 1 rerun" in done.stdout, done.stdout
    assert re.search(r"^RERUN .*test_times", done.stdout, re.MULTILINE)
    assert re.search(r"test_times: the first try is spoilt\n +.*Noise: time: 2.0 against 1.0", done.stdout)
    assert re.search(r"^FAILED .*test_count", done.stdout, re.MULTILINE)
    assert "would be well" not in done.stdout.partition("rerun, since")[2]


def test_no_module_is_rerun_as_a_whole_and_nothing_but_by_this_mark() -> None:
    others = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in ("_noise.py", "test_noise.py")]
    assert others
    for path in others:
        text = path.read_text(encoding="utf-8")
        assert not marks_its_module(text), path
        assert not re.search(r"mark\.(flaky|noisy)", text), path


def marks_its_module(text: str) -> bool:
    """Whether a module gives all its tests the mark, on however many lines."""
    given = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
    )
    return any("pytestmark" in ast.unparse(node) and "noisy" in ast.unparse(node) for node in given)


def test_a_mark_of_a_whole_module_is_seen_on_several_lines_too() -> None:
    assert marks_its_module("pytestmark = [\n    server,\n    noisy('all of it'),\n]\n")
    assert not marks_its_module("pytestmark = server\n\n\n@noisy('one')\ndef test_one() -> None: ...\n")
