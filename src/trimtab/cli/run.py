"""Start an unmodified server with the shim in it, and with --gate under a gate that schedules its connections.

The server's program and arguments follow after --; it runs in the foreground, gets the signals that this process
gets, and its exit code is this one's. Without --gate the shim only measures: accept-queue delays, service times and
request intervals, for 'trimtab tune apache' and 'trimtab observe apache|keep-alive'. With --gate the SPEC says which
ports are gated, who belongs to which class and what each may use; 'trimtab tune gate' and 'trimtab guarantee' steer
it live. A server that goes to the background is followed until its last process has ended.

With --keep-alive the time after which idle connections are ended is set (400ms), or learned from the traffic and
followed (auto); 'trimtab keep-alive' changes it while the server runs, 'trimtab observe keep-alive' shows what it
does. Only idle connections of plain HTTP/1 are ended, and only while nothing is under way on them.

Debian's apache2 needs what /etc/apache2/envvars sets: set -a; . /etc/apache2/envvars; set +a

example: trimtab run --gate classes.toml -- apache2 -DFOREGROUND
example: trimtab run --keep-alive auto -- apache2 -DFOREGROUND
example: trimtab run --ports 8080 -- nginx -g 'daemon off;'
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from pathlib import Path

from trimtab import native
from trimtab.clock import SystemClock
from trimtab.errors import TrimtabError, UsageError
from trimtab.gate import program, run_directory, spec, user
from trimtab.gate.auto import Auto
from trimtab.gate.keep_alive import parse_setting
from trimtab.gate.launch import loadable, preloaded, require_active
from trimtab.gate.pair import Pair
from trimtab.gate.run_directory import DEFAULT_NAME, RunDirectory, claim
from trimtab.gate.server import processes_of
from trimtab.gate.spawn import ended, spawn
from trimtab.gate.unfollowed import Unfollowed
from trimtab.installation import require_trusted_as_root
from trimtab.processes import Process, identify
from trimtab.sensors import _shared_file
from trimtab.sensors._tcp_listeners import listeners

PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT),
)
TICK_S = 0.5
_FROM_KERNEL = 0x80
"""si_code of a signal that the kernel sends, as when a terminal has another size."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb."""
    parser.add_argument("--name", default=DEFAULT_NAME, help=f"name of this run (default {DEFAULT_NAME})")
    parser.add_argument("--gate", type=Path, metavar="SPEC", help="classes and budgets, a TOML file")
    parser.add_argument(
        "--ports", metavar="PORT,...", help="without --gate: only connections to these ports (default: to all)"
    )
    parser.add_argument(
        "--keep-alive",
        default="server",
        metavar="TIME|auto|server",
        help="when idle connections end (default server)",
    )
    parser.add_argument(
        "--gate-user",
        metavar="NAME",
        help="with --gate, as root: whom the gate becomes (default trimtab, or an id that nobody has)",
    )
    parser.add_argument("server", nargs="*", metavar="-- SERVER ARGS", help="the server's program and its arguments")


def run(args: argparse.Namespace) -> int:
    """Runs a server and gives its exit code.

    Raises:
        UsageError: an argument is wrong, the name is in use, or the shim cannot be loaded or, as root, be trusted;
            nothing was started.
        TrimtabError: the gate did not start.
    """
    if not args.server:
        raise UsageError("no server: write its program and arguments after --, such as -- apache2 -DFOREGROUND")
    if args.gate is not None and args.ports is not None:
        raise UsageError("--ports has no meaning with --gate: the SPEC's listen names the ports")
    if args.gate is None and args.gate_user is not None:
        raise UsageError("--gate-user has no meaning without --gate")
    run_directory.named(args.name)
    keep_alive = parse_setting(args.keep_alive)
    wanted = None if args.gate is None else spec.load(args.gate)
    whom = None if wanted is None else user.chosen(args.gate_user, args.name)
    ports = _ports(args.ports) if wanted is None else wanted.listen
    server = [os.fspath(program.found(args.server[0], gated=wanted is not None)), *args.server[1:]]
    program.require_allowed(ports)
    shim = loadable(require_trusted_as_root(native.shim_path(), "the shim"))
    if wanted is not None:
        require_trusted_as_root(native.program(), "the native program")
    _require_ended(args.name)
    run_dir, pair, auto = claim(args.name), None, None
    signals = {*PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        _shared_file.create(run_dir.shared)
        environment = preloaded(os.environ, shim, run_dir, ports, gated=wanted is not None)
        require_active(environment)
        if wanted is not None:
            line = wanted.start(run_dir.directory, whom)
            run_dir.write_start_line(line)
            pair = Pair(run_dir, line, SystemClock(), _say)
        auto = Auto(run_dir, SystemClock(), _say)
        auto.begin(keep_alive)
        pid = _started(server, environment)
        unfollowed = Unfollowed(run_dir, pid, ports, SystemClock(), _say)
        return _serve(run_dir, pid, (pair, auto, unfollowed), signals)
    finally:
        if auto is not None:
            auto.stop()
        if pair is not None:
            pair.stop()
        run_dir.release()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _require_ended(name: str) -> None:
    """Makes sure that the server of a run of this name that was killed serves no more.

    It goes on with the keep-alive time that was set last, and without its run directory nobody could set another.

    Raises:
        UsageError: it does.
    """
    left = run_directory.named(name)
    known = left.owner() is not None or left.gated()  # `claim` says so
    serving = [] if known else [one.pid for one in processes_of(left) if listeners(one.pid)]
    if serving:
        said = f"pid {serving[0]}, the server of a run that was killed, still serves"
        raise UsageError(f"--name {name!r} is in use: {said}: end it first, or choose another name")


def _started(server: list[str], environment: dict[str, str]) -> int:
    """The process id of the server.

    Raises:
        TrimtabError: it cannot be started.
    """
    try:
        # In a group of its own: Apache in the foreground ends its whole process group when it ends.
        return spawn(_activated(server, environment), environment)
    except OSError as error:
        raise TrimtabError(f"{server[0]} cannot be started: {os.strerror(error.errno or 0)}") from None


def _activated(server: list[str], environment: dict[str, str]) -> list[str]:
    """The command line, by which a server takes the listeners that systemd has given to this process for its own.

    They are meant for the process that LISTEN_PID names (sd_listen_fds(3)), and LISTEN_PIDFDID of a newer systemd; it
    knows its number only when it runs.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return server
    return ["/bin/sh", "-c", 'unset LISTEN_PIDFDID; export LISTEN_PID=$$; exec "$@"', "sh", *server]


def _serve(
    run_dir: RunDirectory, server: int, watched: tuple[Pair | None, Auto, Unfollowed], signals: set[signal.Signals]
) -> int:
    """Waits until the server has ended, and gives its exit code."""
    code: int | None = None
    first, left = identify(server), list[Process]()
    while True:
        got = signal.sigtimedwait(signals, TICK_S)
        for one in watched:
            if one is not None:
                one.watch()
        if code is None:
            code = ended(server)
            if code is None:
                _pass_on(got, first)
                continue
            left = processes_of(run_dir)
            if left:
                _say(f"the server went to the background; following its process {left[0].pid}")
        left = [one for one in left if one.alive()] or processes_of(run_dir)
        if not left:
            return code
        _pass_on(got, left[0])


def _pass_on(got: signal.struct_siginfo | None, to: Process | None) -> None:
    """Gives a signal to the server, but not that a terminal has another size, at which Apache ends."""
    if got is None or got.si_signo == signal.SIGCHLD:
        return
    if got.si_signo == signal.SIGWINCH and got.si_code == _FROM_KERNEL:
        return
    if to is not None:
        to.send(got.si_signo)


def _ports(text: str | None) -> tuple[int, ...]:
    """The ports of `--ports`; none for all.

    Raises:
        UsageError: they are none.
    """
    if text is None:
        return ()
    ports = tuple(int(part) if part.isdecimal() else 0 for part in text.split(","))
    if not all(0 < port < 65_536 for port in ports) or len(set(ports)) < len(ports):
        raise UsageError(f"--ports {text!r}: write different ports of 1 to 65535 with commas, such as 8080,8443")
    return ports


def _say(text: str) -> None:
    """One line on standard error; where nobody can be told, the server is looked after all the same."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"trimtab run: {text}\n".encode(errors="backslashreplace"))
