"""The command line: one file per verb, found by discovery.

A verb's module has a docstring (its first line is the verb's help, the rest its description, with an example),
`add_arguments(parser)` and `run(args) -> int`. It may have `refine(parser, args)`, called once with what could be
understood so far, to add the arguments that depend on other arguments.

A plant's module takes part with `add_arguments(parser)` and `from_arguments(args, clock) -> Plant`, and any room's
member with `probe() -> tuple[Finding, ...]`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.util
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from trimtab import __version__, discovery
from trimtab.errors import TrimtabError, UsageError
from trimtab.trust import printable

ROOM = "trimtab.cli"
BROKEN_PIPE = 141
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raises the error as a UsageError."""
        raise UsageError(f"{message} (see '{self.prog} --help')")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb.

    Args:
        argv: the arguments; those of this process when None.

    Returns:
        the exit code: 0 done, 1 could not, 2 used wrongly, 128 + n after signal n.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    _have_numpy_start_no_threads()
    _hear_of_children()
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence()
        return BROKEN_PIPE
    except Exception as error:
        if "--verbose" in _ours(arguments):
            print("\n".join(map(printable, traceback.format_exc().splitlines())), file=sys.stderr)
        known = isinstance(error, TrimtabError | OSError)
        text = printable(" ".join(str(error).split()))
        print(f"trimtab: {text if known else f'internal error: {type(error).__name__}: {text}'}", file=sys.stderr)
        return error.exit_code if isinstance(error, TrimtabError) else 1


def silence() -> None:
    """Has standard output lead nowhere: it cannot be written, and what is left in it would fail again."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _prepare_streams() -> None:
    """Lets no standard stream end a run: one may be closed, or have no code for a character.

    What was closed leads nowhere: else the store would be opened in its place.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: the one that was closed
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _have_numpy_start_no_threads() -> None:
    """Has OpenBLAS compute in the thread that asks, where the user wants nothing else.

    By itself it starts one for each further CPU when it is loaded, numpy's and scipy's one each: in a server's
    container with a limit of processes (`pids.max`) these are then missing to the server, and where they cannot be
    started it raises SIGINT. What is computed here is too small for them. `os.environ` stays as it was, so the
    servers of `trimtab run` do not have it.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.putenv("OPENBLAS_NUM_THREADS", "1")


def _hear_of_children() -> None:
    """Has the exit codes of children known, also where whoever started this ignores SIGCHLD, which exec passes on.

    Then no child can be waited for, and Python gives 0 for each: a configuration test that failed would have passed.
    """
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def parser_of(verb: str, arguments: Sequence[str] = ()) -> tuple[ModuleType, Parser]:
    """A verb's module and its parser.

    Args:
        verb: its name.
        arguments: those that decide which further arguments there are.

    Raises:
        UsageError: there is no such verb.
    """
    module = importlib.import_module(f"{ROOM}.{discovery.known(ROOM, verb, 'verb')}")
    parser = Parser(
        prog=f"trimtab {verb}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.add_argument("--verbose", action="store_true", help="after an error, show where it came from")
    refine = getattr(module, "refine", None)
    if refine is not None:
        refine(parser, parser.parse_known_args(arguments)[0])
    parser.add_argument("-h", "--help", action="help", help="show this help and exit")
    return module, parser


def _dispatch(arguments: list[str]) -> int:
    """Runs the verb that the arguments name."""
    ours = _ours(arguments)
    rest = [a for a in ours if a != "--verbose"] + arguments[len(ours) :]
    if not rest or rest[0] in ("-h", "--help"):
        print(_help())
        return 0
    if rest[0] == "--version":
        print(f"trimtab {__version__}")
        return 0
    module, args = parsed(rest)
    code: int = module.run(args)
    return code


def _ours(arguments: Sequence[str]) -> list[str]:
    """The arguments before `--`: what follows belongs to another program."""
    return list(itertools.takewhile(lambda argument: argument != "--", arguments))


def parsed(command: Sequence[str]) -> tuple[ModuleType, argparse.Namespace]:
    """A verb's module and its parsed arguments, which keep the command line as `command`.

    Raises:
        UsageError: the command line is wrong.
    """
    module, parser = parser_of(command[0], command[1:])
    args = parser.parse_args(command[1:])
    args.command = tuple(command)
    return module, args


def _help() -> str:
    """Text of `trimtab` alone; reads the verbs' first lines without importing them."""
    lines = [
        "trimtab keeps a web server at its best operating point, online.",
        "",
        "usage: trimtab VERB [ARGUMENTS]   (trimtab VERB --help says more)",
        "",
    ]
    for verb in discovery.names(ROOM):
        spec = importlib.util.find_spec(f"{ROOM}.{verb.replace('-', '_')}")
        assert spec is not None and spec.origin is not None
        doc = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
        lines.append(f"  {verb:<10} {doc.partition(chr(10))[0]}")
    lines += ["", "options: --version, --verbose, --help", "example: trimtab tune simulated --duration 10m"]
    return "\n".join(lines)
