"""Send traffic to a server and say how it answered.

Sessions, a closed loop or open arrivals, as described by a workload; latency counts from the moment a request was due
as well as from the moment it was sent, so a server that stops is seen in full. Progress goes to standard
error, the result to standard output; --json gives one JSON line per interval and one for the whole run.

Before the run one connection is opened and closed, to tell a wrong address from a slow server. Redirects are counted,
and followed by the browsers of tpcw alone.

example: trimtab load http://127.0.0.1:8080/index.html --workload wagon --time-scale 30 --duration 60s
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from trimtab import codec, discovery
from trimtab.cli._load_table import progress, table
from trimtab.cli._plant import allowed_seed
from trimtab.cli._stop import exit_code, handling
from trimtab.clock import SystemClock
from trimtab.errors import TrimtabError, UsageError
from trimtab.load import LoadRun
from trimtab.load_reports import Summary
from trimtab.observer import Stop
from trimtab.options import Option, options_of
from trimtab.target import Target, parse_target
from trimtab.units import parse_duration_s
from trimtab.workloads._choice import ROOM, populations_in, workload
from trimtab.workloads._phases import Phases
from trimtab.workloads._population import LONGEST_S, SHORTEST_INTERVAL_S, required
from trimtab.workloads._traffic import Traffic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb, the options of every workload among them."""
    parser.add_argument(
        "url", metavar="URL", help="http URL of the server; its path is the page unless --url is given"
    )
    parser.add_argument("--workload", metavar="NAME", help="one of " + ", ".join(discovery.names(ROOM)))
    parser.add_argument("--populations", metavar="FILE", type=Path, help=_FILE_HELP)
    parser.add_argument(
        "--duration", help="length of the run (default 60s, or the parts of a workload that has some)"
    )
    parser.add_argument("--interval", default="1s", help="distance of the progress reports (default 1s)")
    parser.add_argument("--seed", type=int, default=1, help="source of all randomness (default 1)")
    parser.add_argument("--cpu", type=int, help="core to which the generator is pinned")
    parser.add_argument("--allow-remote", action="store_true", help="permit a server outside 127.0.0.0/8 and ::1")
    parser.add_argument("--json", action="store_true", help="one JSON line per interval and one for the whole run")
    _add_workload_options(parser)


def _add_workload_options(parser: argparse.ArgumentParser) -> None:
    """One group for the options of every workload, one for those of each; an option is added once."""
    members = {name: {option.flag for option in _options(name)} for name in discovery.names(ROOM)}
    groups = {name: parser.add_argument_group(f"options of {name}") for name in members}
    everywhere = parser.add_argument_group("options of every workload")
    for option in _all_options():
        users = [name for name, flags in members.items() if option.flag in flags]
        every = len(users) == len(members)
        first, *others = (next(o for o in _options(name) if o.flag == option.flag) for name in users)
        differing = "".join(_differing(name, one, first) for name, one in zip(users[1:], others, strict=True))
        also = f"(also {', '.join(users[1:])}) " if others and not (every or differing) else ""
        first.add_to(everywhere if every else groups[users[0]], differing or also)


def _differing(workload: str, one: Option, first: Option) -> str:
    """In what an option of a workload differs from the one of that name which is shown; empty where in nothing."""
    said = [one.help.removesuffix(".")] if one.help != first.help else []
    said += [f"default {one.shown}"] if one.default != first.default else []
    return f"(in {workload}: {', '.join(said)}) " if said else ""


_FILE_HELP = (
    "JSON list of several classes at once, each an object with its workload and the options of that workload "
    'without dashes, such as [{"workload": "wagon", "class": "gold", "time-scale": 30, "url": ["/a=2", "/b"]}]'
)


def run(args: argparse.Namespace) -> int:
    """Sends the traffic and prints the result.

    Raises:
        UsageError: an option, a URL or a file is wrong; nothing was sent.
        TrimtabError: the server cannot be reached, or no request succeeded.
    """
    target = parse_target(args.url, args.allow_remote)
    chosen = _workload(args, target)
    populations = chosen.populations() if chosen else populations_in(args.populations)
    phases = chosen.phases() if chosen else None
    duration_s, interval_s = _duration_s(args, phases), parse_duration_s(args.interval, "--interval")
    required(duration_s <= LONGEST_S, "duration", f"{duration_s:g} s", f"at most {LONGEST_S:g} s")
    if not SHORTEST_INTERVAL_S <= interval_s <= duration_s:
        allowed = f"at least {SHORTEST_INTERVAL_S * 1e3:g}ms and at most the duration, {duration_s:g} s"
        raise UsageError(f"interval {args.interval} is not allowed: it must be {allowed}")
    allowed_seed(args.seed)
    target.require_reachable()
    with LoadRun(
        target.endpoint,
        populations,
        duration_s,
        SystemClock(),
        interval_s=interval_s,
        seed=args.seed,
        host=target.host,
        allow_remote=args.allow_remote,
        cpu=args.cpu,
        measured=phases.measured if phases else None,
    ) as load_run:
        summary, stop = _follow(load_run, args.json)
        remarks = load_run.remarks
    print(codec.encode_strict(summary) if args.json else table(summary), flush=True)
    if chosen and (judged := chosen.judged(summary)):
        print(
            codec.encode_strict({"type": args.workload, **codec.builtins(judged)}) if args.json else judged.table(),
            flush=True,
        )
    if remarks:
        print(remarks, file=sys.stderr)
    _require_answers(summary)
    return exit_code(stop.reason)


def _follow(load_run: LoadRun, as_json: bool) -> tuple[Summary, Stop]:
    """Shows the intervals until the run is over; Ctrl-C or another signal to stop ends it early, with its summary."""
    stop = Stop()

    def interrupt(number: int, frame: FrameType | None) -> None:
        stop.reason = signal.Signals(number).name
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt), handling(interrupt, (signal.SIGTERM, signal.SIGHUP)):
        for interval in load_run.follow():
            if as_json:
                print(codec.encode_strict(interval), flush=True)
            else:
                print(progress(interval), file=sys.stderr, flush=True)
    return load_run.stop(), stop


def _duration_s(args: argparse.Namespace, phases: Phases | None) -> float:
    if phases is None:
        return parse_duration_s(args.duration or "60s", "--duration")
    if args.duration is not None:
        raise UsageError(
            f"--duration {args.duration} is not for {args.workload}: give --ramp-up, --measure and --ramp-down"
        )
    return phases.duration_s


def _workload(args: argparse.Namespace, target: Target) -> Traffic | None:
    """The workload that was asked for; None where a file has the populations."""
    given: dict[str, Any] = {o.name: getattr(args, o.name) for o in _all_options() if o.name in vars(args)}
    if args.populations is not None:
        if given or args.workload is not None or target.path not in ("", "/"):
            raise UsageError(
                "--populations brings its own workloads: give it without a path and other workload options"
            )
        return None
    if target.path:
        if "urls" in given and target.path != "/":
            raise UsageError(f"the path {target.path} and --url exclude each other: name every URL with --url")
        given.setdefault("urls", [f"{target.path}=1"])
    if args.workload is None:
        raise UsageError(f"no workload: give --workload, one of {', '.join(discovery.names(ROOM))}, or --populations")
    return workload(args.workload, given)


def _require_answers(summary: Summary) -> None:
    if any(one.requests for one in summary.classes):
        return
    failed = [f"{kind} {count}" for one in summary.classes for kind, count in one.errors.items() if count]
    failed += [f"still waiting {one.outstanding}" for one in summary.classes if one.outstanding]
    if failed:
        raise TrimtabError(f"no request succeeded: {', '.join(failed)}")


def _options(name: str) -> tuple[Option, ...]:
    return options_of(discovery.load(ROOM, name).WORKLOAD)


def _all_options() -> list[Option]:
    return list({o.flag: o for name in discovery.names(ROOM) for o in _options(name)}.values())
