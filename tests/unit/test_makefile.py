"""What the Makefile gives to all that it runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shown(variable: str, **found: str) -> str:
    """A variable of the environment, as what the Makefile runs has it.

    Args:
        variable: its name.
        found: the environment that the Makefile finds, where it matters.
    """
    environment = {name: value for name, value in os.environ.items() if name != variable}
    rule = f'shown: ; @echo "it is $${variable}"'
    return made({**environment, **found}, "--silent", "--eval", rule, "shown").rstrip("\n")


def made(environment: Mapping[str, str], *arguments: str) -> str:
    """What make says; another make that runs this test has no part in it."""
    apart = {name: value for name, value in environment.items() if name != "MFLAGS" and "MAKE" not in name}
    command = ["make", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=apart, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def test_what_is_compiled_is_kept_though_the_environment_forbids_it() -> None:
    assert shown("PYTHONDONTWRITEBYTECODE", PYTHONDONTWRITEBYTECODE="1") == "it is "


def test_numpy_computes_in_one_thread_unless_the_user_wants_more() -> None:
    assert shown("OPENBLAS_NUM_THREADS") == "it is 1"
    assert shown("OPENBLAS_NUM_THREADS", OPENBLAS_NUM_THREADS="3") == "it is 3"


def test_the_native_tests_are_built_by_the_linter_and_any_warning_fails_them() -> None:
    """Linted by itself all of it is compiled a third time."""
    planned = made(os.environ, "--dry-run", "native").splitlines()
    built, run = (line for line in planned if "cargo test" in line)
    assert built == f"{run} --no-run"
    assert run.startswith("RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings cargo test ")
    assert "cargo clippy" not in made(os.environ, "--dry-run", "lint-rust")
