"""Guarantee delays to classes of clients on a running server, by feedback on their process budgets.

SPEC is the file of 'trimtab run --gate': classes, desired delays or their ratios, sampling period. At every sampling
instant the delays are compared with the desired ones and the budgets follow (lu2001). Without --gain or a model the
server is identified first, under its own load, and the controller is designed for it. A guarantee that cannot be met
is reported, with the number of processes that would meet it. Ctrl-C ends the run; the budgets stay until the gate's
controller_timeout has passed, when it opens: who came first is served first. With --on-exit restore those of before
are put back, and hold.

example: trimtab guarantee classes.toml --duration 30m --report classes.html
         trimtab guarantee classes.toml --model 0.74,-0.37,0.95,-0.12
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from pathlib import Path

from trimtab import discovery
from trimtab.cli._gains import (
    CONTROLLER_OF,
    Gains,
    add_gains,
    given_gains,
    identified_gains,
    kinds,
    specification,
    tell_gains,
)
from trimtab.cli._leftovers import attached_as_found
from trimtab.cli._plant import (
    CONTROLLERS,
    PLANTS,
    add_report,
    add_store,
    allowed_seed,
    refine,
    stored_controller,
    stored_method,
    writable,
)
from trimtab.cli._run import RunRequest, execute, finish
from trimtab.cli._stop import exit_code, stopping
from trimtab.cli.identify import like_spec
from trimtab.controllers.static import Static
from trimtab.core import Controller, Knob, Objective, Plant, Role, by_label
from trimtab.errors import UsageError
from trimtab.gate.spec import Guarantee, Spec, load
from trimtab.guarantee import of_spec
from trimtab.identification.signals import Kind
from trimtab.records import Run
from trimtab.settings import Settings
from trimtab.units import parse_duration_s

__all__ = ["add_arguments", "refine", "run"]

STATIC, SELF_TUNING, HYBRID = "static", "self-tuning", "hybrid-delay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb; `refine` adds those of the plant."""
    # A model may begin with a minus, as in `--model -0.08,-0.2,-0.2,-0.05`; argparse would take it for an option.
    parser._negative_number_matcher = re.compile(r"^-[\d.][\d.,eE+-]*$")
    there = ", ".join(discovery.names(PLANTS))
    parser.add_argument("spec", metavar="SPEC", type=Path, nargs="?", help="the TOML file of the gate")
    # The default of an option, no decision: whoever gives a SPEC has a gate.
    parser.add_argument("--plant", default="gate", metavar="PLANT", help=f"one of {there} (default gate)")
    parser.add_argument(
        "--controller",
        metavar="NAME",
        type=lambda text: text.replace("_", "-"),
        help="the guarantee's own (the default: for relative delays log-relative-delay, or relative-delay, as in "
        "the paper, for a gain or a model that is given); self-tuning, which goes on identifying and redesigns when "
        "the server has changed; or static for budgets that stay: open loop",
    )
    add_gains(parser)
    parser.add_argument("--duration", help="length of the run (default: until stopped)")
    parser.add_argument(
        "--on-exit", choices=["keep", "restore"], default="keep", help="what to leave in force (default keep)"
    )
    parser.add_argument("--seed", type=int, default=0, help="source of all randomness (default 0)")
    parser.add_argument("--json", action="store_true", help="one line of JSON per window, move and note")
    add_store(parser)
    add_report(parser)


def run(args: argparse.Namespace, killed: Run | None = None) -> int:
    """Starts a run, or goes on with one that was killed, with its own gains.

    Raises:
        UsageError: the SPEC, a model or an argument is wrong; nothing was changed.
        TrimtabError: it could not be done.
    """
    if args.spec is None:
        raise UsageError("no SPEC: name the TOML file that 'trimtab run --gate' was given")
    spec = load(args.spec)
    gains: Mapping[Kind, Gains] = {}
    if killed is None:
        name, settings = _controller_name(args, spec), _settings(args, spec)
        gains = {} if name == STATIC else given_gains(args, spec)
        _require_used(args, name, bool(gains))
    else:
        name, controller, settings = stored_method(killed.plan)
    writable(args.report, "the report")
    like_spec(args, spec)
    with stopping() as stop, attached_as_found(args, settings.mode, killed is not None) as plant:
        knobs = _budgets(plant, spec)
        plant.check_permissions()
        if killed is None:
            if name != STATIC and not gains:
                found = identified_gains(args, spec, plant, stop)
                if found is None:
                    return exit_code(stop.reason)
                gains = found
            tell_gains(gains, args.json)
            controller = _controller(args, name, settings.objective, spec, gains)
        controller.start(knobs, settings.seed)
        facts = {f"{kind} controller": one.source for kind, one in gains.items()}
        lease_s = spec.controller_timeout_s
        job = RunRequest(name, controller, knobs, settings, of_spec(spec), facts, lease_s=lease_s)
        ended = execute(args, plant, job, stop, killed)
    return finish(args, ended, stop)


def _require_used(args: argparse.Namespace, name: str, given: bool) -> None:
    """Makes sure that no option is passed over in silence.

    Args:
        args: the command line.
        name: the controller's registered name.
        given: whether it says the gains.

    Raises:
        UsageError: one would be.
    """
    models = ("model", "model_file", "absolute_model")
    of_gains = ("gain", "zero", "absolute_gain", "absolute_zero", *models, "settling")
    useless: tuple[str, ...] = ("identify",) if given else ()
    why = "a gain or a model"
    if name == STATIC:
        useless, why = (*of_gains, "identify"), f"--controller {STATIC}"
    elif given and all(getattr(args, option) is None for option in models):
        useless, why = ("identify", "settling"), "a gain"
    for option in useless:
        if getattr(args, option) is not None:
            raise UsageError(f"--{option.replace('_', '-')} has no meaning with {why}")


def _controller_name(args: argparse.Namespace, spec: Spec) -> str:
    """The controller's registered name.

    Raises:
        UsageError: the SPEC guarantees nothing, or the controller is not for its guarantee.
    """
    if spec.guarantee is Guarantee.NONE:
        raise UsageError(f'SPEC {args.spec} guarantees nothing: give it guarantee = "relative" and desired values')
    if spec.guarantee is Guarantee.HYBRID:
        own = HYBRID
        allowed: tuple[str, ...] = (HYBRID, STATIC)
    else:
        own = CONTROLLER_OF[kinds(args, spec)[0]]
        both = (Kind.RELATIVE, Kind.LOGARITHMIC)
        able = both if spec.guarantee is Guarantee.RELATIVE else (Kind.ABSOLUTE,)
        allowed = (*(CONTROLLER_OF[kind] for kind in able), SELF_TUNING, STATIC)
    chosen = own if args.controller is None else args.controller
    if chosen not in allowed:
        discovery.load(CONTROLLERS, chosen)
        raise UsageError(f"--controller {chosen}: SPEC {args.spec} can have {', '.join(allowed)}")
    if chosen == SELF_TUNING and args.gain is not None:
        raise UsageError(f"--gain: {SELF_TUNING} begins with a model: give --model, or none to identify one")
    return chosen


def _settings(args: argparse.Namespace, spec: Spec) -> Settings:
    """How the run goes: a window is a sampling period, and budgets are in force at once.

    Raises:
        UsageError: the duration is not one, or shorter than a period, or the seed is wrong.
    """
    return Settings(
        window_s=spec.period_s,
        duration_s=math.inf if args.duration is None else parse_duration_s(args.duration, "--duration"),
        objective=Objective(spec.classes[0].delay_metric),
        settle_s=0.0,
        early=0.0,
        restore=args.on_exit == "restore",
        seed=allowed_seed(args.seed),
    )


def _budgets(plant: Plant, spec: Spec) -> tuple[Knob, ...]:
    """The process budgets of the classes, in order of priority.

    Raises:
        UsageError: the plant has other classes than the SPEC.
    """
    there = by_label(plant.knobs(), Role.PROCESS_BUDGET)
    for one in spec.classes:
        if one.name not in there:
            known = ", ".join(there) or "none"
            raise UsageError(f"class {one.name!r} of the SPEC is unknown to the {plant.name} plant, it has {known}")
    return tuple(there[one.name] for one in spec.classes)


def _controller(
    args: argparse.Namespace, name: str, objective: Objective, spec: Spec, gains: Mapping[Kind, Gains]
) -> Controller:
    """The controller for a SPEC with these gains.

    Raises:
        UsageError: a gain or a zero has a value that cannot be used.
    """
    if name == STATIC:
        return Static(objective)
    options: dict[str, object] = {
        "classes": [one.name for one in spec.classes],
        "desired": [one.desired for one in spec.classes],
        "minimum": [one.minimum for one in spec.classes],
        "metrics": [one.delay_metric.partition("@")[0] for one in spec.classes],
    }
    for kind, one in gains.items():
        prefix = "absolute_" if kind is Kind.ABSOLUTE and spec.guarantee is Guarantee.HYBRID else ""
        options |= {f"{prefix}gain": one.gain, f"{prefix}zero": one.zero}
        if name == SELF_TUNING and one.model is not None:
            options |= {"guarantee": kind.value, "model": ",".join(map(repr, one.model.theta))}
            options |= {"period_s": spec.period_s, "settling_s": specification(args, spec).settling_s}
    if spec.guarantee is Guarantee.HYBRID:
        options["hysteresis_s"] = spec.hysteresis_s
    return stored_controller(name, objective, options)
