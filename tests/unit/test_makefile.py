"""What the Makefile gives to all that it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shown(variable: str, **found: str) -> str:
    """A variable of the environment, as what the Makefile runs has it.

    Args:
        variable: its name.
        found: the environment that the Makefile finds, where it matters.
    """
    left_out = {"MFLAGS", variable} | {name for name in os.environ if "MAKE" in name}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    rule = f'shown: ; @echo "it is $${variable}"'
    made = subprocess.run(
        ["make", "--silent", "--eval", rule, "shown"],
        cwd=ROOT,
        env={**environment, **found},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return made.stdout.rstrip("\n")


def test_what_is_compiled_is_kept_though_the_environment_forbids_it() -> None:
    assert shown("PYTHONDONTWRITEBYTECODE", PYTHONDONTWRITEBYTECODE="1") == "it is "


def test_numpy_computes_in_one_thread_unless_the_user_wants_more() -> None:
    assert shown("OPENBLAS_NUM_THREADS") == "it is 1"
    assert shown("OPENBLAS_NUM_THREADS", OPENBLAS_NUM_THREADS="3") == "it is 3"
