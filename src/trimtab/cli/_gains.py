"""Gains of a delay controller: given, designed from a model, or from one identified here."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab import codec
from trimtab.cli._leftovers import require_alone
from trimtab.cli._progress import say
from trimtab.cli.identify import shown
from trimtab.core import Plant, Role, by_label
from trimtab.design.pi import designed
from trimtab.design.specification import Specification
from trimtab.errors import UsageError
from trimtab.gate.spec import Guarantee, Spec
from trimtab.identification.experiment import Experiment
from trimtab.identification.model import Model, parse_model
from trimtab.identification.model_file import read_model
from trimtab.identification.result import analysed
from trimtab.identification.signals import Kind, Pair
from trimtab.identify import identify
from trimtab.observer import Stop
from trimtab.store import Store, default_path
from trimtab.units import parse_duration_s

SETTLING_PERIODS = 10.0
"""The wanted settling time in sampling periods: the paper's 5 min at 30 s."""
IDENTIFIED_PERIODS, WARM_PERIODS = 60.0, 4.0
"""Length of an identification run and of its warm-up in sampling periods: the paper's 30 min and 2 min at 30 s."""
CONTROLLER_OF = {
    Kind.RELATIVE: "relative-delay",
    Kind.LOGARITHMIC: "log-relative-delay",
    Kind.ABSOLUTE: "absolute-delay",
}
"""The controller of each kind of model."""


@dataclass(frozen=True)
class Gains:
    """A designed PI controller.

    Args:
        gain: g of Eq. (1) of lu2001.
        zero: r of it.
        source: where they come from, in words.
        model: the model that they are designed for; None when they were given.
    """

    gain: float
    zero: float
    source: str
    model: Model | None = None


def add_gains(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the gains."""
    parser.add_argument("--gain", type=float, help="controller gain g; with --zero")
    parser.add_argument("--zero", type=float, help="controller zero r; with --gain")
    parser.add_argument(
        "--model",
        metavar="A1,..,B1,..",
        help="design the controller from this model; hybrid: of its relative mode, on logarithms",
    )
    parser.add_argument("--model-file", type=Path, metavar="FILE", help="or from one that 'trimtab identify' wrote")
    for name in ("gain", "zero"):
        parser.add_argument(f"--absolute-{name}", type=float, help=f"hybrid: the {name} of its absolute mode")
    parser.add_argument("--absolute-model", metavar="A1,..,B1,..", help="hybrid: the model of its absolute mode")
    parser.add_argument("--settling", help="wanted settling time of a design (default: 10 sampling periods)")
    parser.add_argument(
        "--identify", metavar="DURATION", help="length of each of the two identification runs (default: 60 periods)"
    )


def kinds(args: argparse.Namespace, spec: Spec) -> tuple[Kind, ...]:
    """The kinds of controllers that are needed; the options without a prefix are the first one's.

    A gain or a model that is typed for a relative guarantee is the paper's kind, a model file says its own, and what
    is identified here is logarithmic, because its model holds for more than one load.
    """
    if spec.guarantee is Guarantee.HYBRID:
        return Kind.LOGARITHMIC, Kind.ABSOLUTE
    if spec.guarantee is Guarantee.ABSOLUTE:
        return (Kind.ABSOLUTE,)
    named = {name: kind for kind, name in CONTROLLER_OF.items()}.get(args.controller)
    if named is not None:
        return (named,)
    if args.model_file is not None:
        known = read_model(args.model_file).pair.kind
        return (known if known.rising else Kind.RELATIVE,)
    return (Kind.LOGARITHMIC if args.gain is None and args.model is None else Kind.RELATIVE,)


def specification(args: argparse.Namespace, spec: Spec) -> Specification:
    """Specification of the loop to design.

    Raises:
        UsageError: the settling time is not a duration, or shorter than a period.
    """
    settling_s = SETTLING_PERIODS * spec.period_s
    if args.settling is not None:
        settling_s = parse_duration_s(args.settling, "--settling")
    return Specification(settling_s, spec.period_s)


def given_gains(args: argparse.Namespace, spec: Spec) -> dict[Kind, Gains]:
    """The gains that the arguments give or the design from a model that they give.

    Raises:
        UsageError: they contradict one another or the SPEC, or no controller meets the specification.
    """
    found: dict[Kind, Gains] = {}
    needed = kinds(args, spec)
    if len(needed) == 1 and any(v is not None for v in (args.absolute_gain, args.absolute_zero, args.absolute_model)):
        raise UsageError(f"--absolute-gain, --absolute-zero and --absolute-model are for hybrid, not {needed[0]}")
    plain = (args.gain, args.zero, _model(args, spec, needed[0]))
    absolute = None if args.absolute_model is None else parse_model(args.absolute_model)
    sources = {needed[0]: ("", plain), needed[-1]: ("", plain)}
    if len(needed) == 2:
        sources[needed[1]] = ("absolute-", (args.absolute_gain, args.absolute_zero, absolute))
    for kind, (prefix, (gain, zero, model)) in sources.items():
        if (gain is None) != (zero is None):
            raise UsageError(f"--{prefix}gain and --{prefix}zero belong together: give both or none")
        if gain is not None and model is not None:
            raise UsageError(f"--{prefix}gain and --{prefix}model are two ways to say the same: give one of them")
        if gain is not None and zero is not None:
            found[kind] = Gains(gain, zero, "as given")
        elif model is not None:
            found[kind] = _designed(kind, model, specification(args, spec), "given")
    if found and len(found) < len(needed):
        raise UsageError("the hybrid guarantee needs two controllers: give those of both modes, or none")
    return found


def identified_gains(args: argparse.Namespace, spec: Spec, plant: Plant, stop: Stop) -> dict[Kind, Gains] | None:
    """Excites the plant, estimates its models and designs from them; None when it was stopped.

    Raises:
        UsageError: there is one class only, another run moves the budgets, a model cannot be used, or no controller
            meets the specification.
        TrimtabError: the plant ended or refused.
    """
    if len(spec.classes) < 2:
        raise UsageError(
            "identification moves processes between two classes, and there is one: give --gain and --zero"
        )
    needed, upper, lower = kinds(args, spec), spec.classes[0], spec.classes[1]
    pairs = [Pair(kind, upper.name, lower.name, upper.delay_metric.partition("@")[0]) for kind in needed]
    period_s = spec.period_s
    length_s = IDENTIFIED_PERIODS * period_s
    if args.identify is not None:
        length_s = parse_duration_s(args.identify, "--identify")
    experiment = Experiment(
        pairs[0], period_s, length_s, WARM_PERIODS * period_s, seed=args.seed + 1, validate_seed=args.seed + 2
    )
    with contextlib.closing(Store(args.store or default_path())) as store:
        require_alone(store, plant)
        if not args.json:
            say("no controller is given: identifying the server first")
        with shown(args.json, plant, experiment, stop) as tell:
            first = identify(plant, experiment, store, stop, tell, args.command)
        if first is None:
            return None
        runs = tuple(first.facts["runs"])
        models, budgets = {first.pair.kind: first.model}, by_label(plant.knobs(), Role.PROCESS_BUDGET)
        for pair in pairs[1:]:
            seen = [[w for w in store.windows(run) if w.index >= experiment.warm] for run in runs]
            found = analysed(pair, budgets, period_s, seen[0], seen[1], experiment.orders, first.facts)
            models[pair.kind] = found.model
    wanted = specification(args, spec)
    said = f"identified by runs {runs[0]} and {runs[1]}"
    return {kind: _designed(kind, model, wanted, said) for kind, model in models.items()}


def tell_gains(gains: Mapping[Kind, Gains], as_json: bool) -> None:
    """Prints the gains in use and their source."""
    for kind, one in gains.items():
        if as_json:
            body = {"type": "gains", "kind": kind, "gain": one.gain, "zero": one.zero, "source": one.source}
            print(codec.encode_strict(body), flush=True)
        else:
            print(f"{kind} controller: gain {one.gain:g}, zero {one.zero:g}, {one.source}", flush=True)


def _designed(kind: Kind, model: Model, wanted: Specification, source: str) -> Gains:
    """The gains for a model, with the closed loop's properties.

    Raises:
        UsageError: the model is of no use, or no controller meets the specification.
    """
    design = designed(model, wanted)
    if (design.gain > 0) is not kind.rising:
        sign = "raise" if kind is Kind.ABSOLUTE else "lower"
        raise UsageError(f"the model {model} cannot be used for a {kind} guarantee: more processes {sign} the output")
    settled = f"settles in {design.settling_s:g} s, margin {design.margin:.2f}"
    return Gains(design.gain, design.zero, f"designed for the model {model} ({source}): {settled}", model)


def _model(args: argparse.Namespace, spec: Spec, kind: Kind) -> Model | None:
    """The model that the arguments name for the first kind of controller; None for none.

    Raises:
        UsageError: it is none, or of another kind or period.
    """
    if args.model is not None and args.model_file is not None:
        raise UsageError("--model and --model-file are two ways to say the same: give one of them")
    if args.model_file is None:
        return None if args.model is None else parse_model(args.model)
    known = read_model(args.model_file)
    if known.pair.kind is not kind:
        raise UsageError(
            f"--model-file {args.model_file}: it is a model for {known.pair.kind} delays, wanted is {kind}"
        )
    if known.period_s != spec.period_s:
        period = f"{known.period_s:g} s, the SPEC's period is {spec.period_s:g} s"
        raise UsageError(f"--model-file {args.model_file}: it holds for samples of {period}: identify again")
    return known.model
