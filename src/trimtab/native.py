"""Starts the native program and speaks newline-delimited JSON with it, and knows where the shim is.

`TRIMTAB_NATIVE` and `TRIMTAB_SHIM` in the environment name another build of the program and of the shim.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trimtab import own
from trimtab.errors import NativeError

PROGRAM = "trimtab-native"
SHIM = "libtrimtab_shim"


def program() -> Path:
    """Path of the native program: beside the Python interpreter, where the wheel puts it, else on PATH.

    Raises:
        NativeError: it is in neither place.
    """
    if named := os.environ.get("TRIMTAB_NATIVE"):
        return _named("TRIMTAB_NATIVE", named)
    beside = Path(sys.executable).parent / PROGRAM
    found = str(beside) if beside.exists() else own.program(PROGRAM)
    if not found:
        raise NativeError(f"{PROGRAM} is not installed beside {sys.executable}; run 'make setup'")
    return Path(found)


def shim_path() -> Path:
    """Path of the library that is loaded into servers: in this package, where the wheel puts it.

    Raises:
        NativeError: it is not there.
    """
    if named := os.environ.get("TRIMTAB_SHIM"):
        return _named("TRIMTAB_SHIM", named)
    here = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if (here / f"{SHIM}{suffix}").exists():
            return here / f"{SHIM}{suffix}"
    raise NativeError(f"{SHIM} is not installed in {here}; run 'make setup'")


def _named(variable: str, path: str) -> Path:
    """The file that a variable of the environment names.

    Raises:
        NativeError: there is none.
    """
    if not Path(path).is_file():
        raise NativeError(f"{variable} is {path!r}, and there is no such file")
    return Path(path).absolute()


class Native:
    """One running native subcommand; ends with `close`, or when its standard input does.

    Args:
        verb: the subcommand, such as "load".
        prefix: arguments before the program, such as ("taskset", "-c", "1").
    """

    def __init__(self, verb: str, prefix: tuple[str, ...] = ()) -> None:
        self._verb = verb
        self._process = subprocess.Popen(
            [*prefix, os.fspath(program()), verb],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            # Its own group, so that Ctrl-C in a terminal reaches trimtab alone, which then asks for the summary.
            process_group=0,
        )

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one message.

        Raises:
            NativeError: the program has ended; the message carries its standard error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._broken() from None

    def receive(self) -> dict[str, Any]:
        """Reads one message.

        Raises:
            NativeError: the program has ended or did not send JSON.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._broken()
        try:
            # Not by the codec: the simulator answers so often that to look at every value again would take longer.
            message = json.loads(line)
        except json.JSONDecodeError as error:
            raise NativeError(f"{PROGRAM} {self._verb} sent what is not JSON: {error}") from None
        if not isinstance(message, dict):
            raise NativeError(f"{PROGRAM} {self._verb} sent {line.strip()[:80]!r}, not an object")
        return message

    def __iter__(self) -> Iterator[str]:
        """The messages, one a line, until the program ends well.

        Raises:
            NativeError: it ended badly.
        """
        assert self._process.stdout is not None
        yield from self._process.stdout
        if self._process.wait() != 0:
            raise self._broken()

    def close(self, patience_s: float = 5.0) -> None:
        """Ends the program by closing its input, then by signal when it does not listen; may be called twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def remarks(self) -> str:
        """Standard error of the program, once it has ended; read once."""
        assert self._process.stderr is not None
        self._process.wait()
        return "" if self._process.stderr.closed else self._process.stderr.read().strip()

    def _broken(self) -> NativeError:
        """Error for a program that has ended."""
        code, said = self._process.wait(), self.remarks()
        return NativeError(f"{PROGRAM} {self._verb} ended with {code}: {said or 'it said nothing'}")
