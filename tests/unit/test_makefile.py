"""What the Makefile gives to all that it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_compiled_is_kept_though_the_environment_forbids_it() -> None:
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    rule = 'shown: ; @echo "kept unless $$PYTHONDONTWRITEBYTECODE"'
    made = subprocess.run(
        ["make", "--silent", "--eval", rule, "shown"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert made.stdout == "kept unless \n"
