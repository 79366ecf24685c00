"""What is imported to find the tests that `-m` asks for: all files that have some, and few others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GIVEN_BY, has_none_of

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "one": "import pytest\n\n@pytest.mark.alone\ndef test_one():\n    pass\n",
    "other": "from tests._noise import noisy\n\n@noisy('a reason')\ndef test_other():\n    pass\n",
    "neither": "print('imported for nothing')\n\ndef test_neither():\n    pass\n",
}


def collected(directory: Path, asked: str) -> str:
    """What pytest says of the tests that it finds in these files."""
    for name, text in FILES.items():
        (directory / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "--collect-only", "-p", "tests.conftest", "-m", asked]
    command += ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("asked", "found"), [("alone", "one"), ("not server and quiet", "other")])
def test_a_file_that_can_have_none_of_them_is_not_imported(tmp_path: Path, asked: str, found: str) -> None:
    said = collected(tmp_path, asked)
    assert re.findall(r"::test_(\w+)", said) == [found]
    assert "imported for nothing" not in said


@pytest.mark.parametrize(
    ("asked", "left_out"),
    [
        ("server and not alone and not quiet", {"one", "other", "neither"}),
        ("not server", set()),
        ("alone or quiet", set()),
        ("(alone or quiet) and not server", set()),
        ("", set()),
    ],
)
def test_only_what_each_test_has_to_have_leaves_a_file_out(asked: str, left_out: set[str]) -> None:
    assert {name for name, text in FILES.items() if has_none_of(asked, text)} == left_out


def test_no_mark_is_given_in_a_way_that_is_not_looked_for() -> None:
    """As by a helper, of whose mark the files that use it say nothing."""
    given = re.compile(rf"\bmark\.({'|'.join(GIVEN_BY)})\b|\.add_marker\(")
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    helpers = [path.name for path, text in texts.items() if not path.name.startswith("test_") and given.search(text)]
    assert helpers == ["_noise.py"]
    assert not [path for path, text in texts.items() if re.search(r"(?m)^from pytest import .*\bmark\b", text)]
