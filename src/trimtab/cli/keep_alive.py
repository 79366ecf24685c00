"""Set the keep-alive time of a running server, or show what is in force and what it does.

set    400ms, or another time from 1ms to 1h: idle connections are ended after it;
       auto: 'trimtab run' learns it from the traffic and follows it; server: gives control back
show   what is in force, and what became of idle connections since the server was started

The server has been started with 'trimtab run'. A change is in force at once, without a reload, and stays when
trimtab ends. After 'server' (and without --keep-alive of 'trimtab run') connections are not followed: those
that are open when a time is set keep the server's own, on prefork and worker up to their next request.
'trimtab observe keep-alive' shows the request intervals live.

example: trimtab keep-alive set 400ms
example: trimtab keep-alive show --json
"""

from __future__ import annotations

import argparse

from trimtab import codec
from trimtab.errors import TrimtabError, UsageError
from trimtab.gate.keep_alive import TRIAL_EVERY, InCharge, KeepAliveTime, Setting, parse_setting, trial_ms
from trimtab.gate.run_directory import RunDirectory
from trimtab.gate.server import steerable
from trimtab.units import format_duration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each thing that can be done with the time."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (("set", "set the time, or say who decides it"), ("show", "what is in force")):
        action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        action.add_argument("--name", help="name of the run, as given to 'trimtab run', when several are alive")
        if name == "set":
            action.add_argument("wanted", metavar="TIME|auto|server", help="a time such as 400ms, auto or server")
        else:
            action.add_argument("--json", action="store_true", help="one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Sets or shows.

    Raises:
        UsageError: the time is not allowed, or no run or several are meant, or it cannot be changed from here.
        TrimtabError: the change did not take.
    """
    wanted = parse_setting(args.wanted) if args.action == "set" else None
    run_dir = steerable(args.name)
    time = KeepAliveTime(run_dir.shared)
    try:
        if wanted is None:
            _show(run_dir, time, args.json)
        else:
            _set(run_dir, time, wanted)
    finally:
        time.close()
    return 0


def _set(run_dir: RunDirectory, time: KeepAliveTime, wanted: Setting) -> None:
    """Changes the setting.

    Raises:
        UsageError: it shall be learned, and 'trimtab run' is no more.
        TrimtabError: it did not take.
    """
    with time.alone():
        before = time.setting()
        if wanted.in_charge is InCharge.AUTO:
            if run_dir.owner() is None:
                raise UsageError(f"the 'trimtab run' of {run_dir.name!r} was killed: only it could learn the time")
            wanted = Setting(InCharge.AUTO, before.time_ms)
        after = time.write(wanted)
    if after != wanted:
        raise TrimtabError(f"the keep-alive time of {run_dir.name!r} is {after}, not {wanted}")
    print(f"{run_dir.name}: {after} (was {before})")
    if before.in_charge is InCharge.SERVER and wanted.in_charge is not InCharge.SERVER:
        print(
            "connections that are open already keep the server's own time: on prefork and worker up to their next "
            "request, elsewhere to their end"
        )


def _show(run_dir: RunDirectory, time: KeepAliveTime, as_json: bool) -> None:
    """Prints the time in force and the counts."""
    setting, own_ms, seen = time.setting(), time.server_ms(), time.counted()
    if as_json:
        body = {"name": run_dir.name, "in_charge": str(setting.in_charge), "time_ms": setting.time_ms}
        print(codec.encode_strict({**body, **codec.builtins(seen), "server_ms": own_ms}))
        return
    print(f"{run_dir.name}: {setting}")
    if setting.time_ms is not None:
        longer = format_duration(trial_ms(setting.time_ms) / 1000)
        print(f"trials: one idle connection in {TRIAL_EVERY} is given {longer}, to see what lies beyond the time")
    print(f"the server's own time: {'not seen' if own_ms is None else format_duration(own_ms / 1000)}")
    mean = f", {seen.interval_ns / seen.intervals / 1e6:.0f} ms on average" if seen.intervals else ""
    print(f"request intervals since the start: {seen.intervals:,}{mean}")
    print(
        f"idle connections ended: {seen.cut:,} at the time, {seen.expired:,} by the server, {seen.left:,} by clients"
    )
    print(f"kept past the time because a request might be in progress: {seen.spared:,}")
