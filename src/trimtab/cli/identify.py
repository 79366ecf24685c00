"""Identify how a server's delays follow its process budgets, by exciting it while it runs.

Two classes' budgets are switched between two configurations by white noise, and a difference equation is fitted to
the delays that follow (lu2001). A second run with another seed judges the model and chooses its order. The server
must be loaded so that connections wait; afterwards the budgets are as they were. With SPEC, the file of 'trimtab run
--gate', its classes, guarantee and sampling period are taken.

example: trimtab identify classes.toml --duration 30m --model-file classes.json --report classes.html
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path

from trimtab import codec, discovery
from trimtab.cli._leftovers import attached_as_found, require_alone
from trimtab.cli._plant import PLANTS, add_store, allowed_seed, refine, writable
from trimtab.cli._progress import rows_of, say, showing
from trimtab.cli._stop import exit_code, stopping
from trimtab.core import Plant
from trimtab.errors import UsageError
from trimtab.events import Event
from trimtab.files import write_whole
from trimtab.gate.spec import Guarantee, Spec, load
from trimtab.identification.experiment import Experiment, classes_of
from trimtab.identification.result import Identified
from trimtab.identification.signals import DELAY, Kind, Pair
from trimtab.identify import identify
from trimtab.observer import Stop
from trimtab.settings import Mode
from trimtab.store import Store, default_path
from trimtab.units import format_duration, parse_duration_s

__all__ = ["add_arguments", "refine", "run"]

_STANDARD = Experiment(Pair(Kind.RELATIVE, "", ""))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of this verb; `refine` adds those of the plant."""
    there = ", ".join(discovery.names(PLANTS))
    parser.add_argument("spec", metavar="SPEC", type=Path, nargs="?", help="the TOML file of the gate (default none)")
    # The default of an option, no decision: whoever gives a SPEC has a gate.
    parser.add_argument(
        "--plant", default="gate", metavar="PLANT", help=f"what to excite: one of {there} (default gate)"
    )
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in Kind],
        help="delay ratio, its logarithm, or delay (default: what 'trimtab guarantee' identifies for the SPEC, "
        "logarithmic for its ratios; without a SPEC relative)",
    )
    parser.add_argument(
        "--classes",
        dest="pair",
        metavar="A,B",
        help="the two classes, the higher priority first (default: the first)",
    )
    parser.add_argument("--low", type=int, default=0, help="lesser budget of A (default: half of what A and B have)")
    parser.add_argument("--high", type=int, default=0, help="greater budget of A (default: three quarters)")
    parser.add_argument("--period", help="sampling period (default: the SPEC's, or 30s)")
    parser.add_argument(
        "--duration",
        default=format_duration(_STANDARD.duration_s),
        help="length of each of the two runs (default 30m)",
    )
    parser.add_argument(
        "--warm", default=format_duration(_STANDARD.warm_s), help="what of it is not used at its start (default 2m)"
    )
    parser.add_argument("--orders", default="1,2,3", help="orders of the model to compare (default 1,2,3)")
    parser.add_argument("--seed", type=int, default=1, help="white noise of the first run (default 1)")
    parser.add_argument("--validate-seed", type=int, default=2, help="white noise of the second run (default 2)")
    parser.add_argument("--model-file", type=Path, metavar="FILE", help="write the model there, as JSON")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the figures there, as HTML")
    parser.add_argument("--json", action="store_true", help="one line of JSON per window and move, then the model")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Identifies.

    Raises:
        UsageError: an argument is wrong, or the model is unstable or cannot be identified.
        TrimtabError: it could not be done.
    """
    spec = None if args.spec is None else load(args.spec)
    writable(args.model_file, "the model")
    writable(args.report, "the report")
    allowed_seed(args.seed)
    allowed_seed(args.validate_seed, "--validate-seed")
    if spec is not None:
        like_spec(args, spec)
    with stopping() as stop, attached_as_found(args, Mode.AUTONOMOUS, resumed=False) as plant:
        experiment = _experiment(args, plant, spec)
        with contextlib.closing(Store(args.store or default_path())) as store:
            require_alone(store, plant)
            with shown(args.json, plant, experiment, stop) as tell:
                found = identify(plant, experiment, store, stop, tell, args.command)
        simulated = plant.simulated
    if found is None:
        return exit_code(stop.reason)
    if args.model_file is not None:
        found.file().write(args.model_file)
    if args.report is not None:
        # The library that draws takes longer to load than all else together.
        page = importlib.import_module("trimtab.report.identification")
        write_whole(args.report, page.render(found, simulated))
    _tell(args, found)
    return 0


def like_spec(args: argparse.Namespace, spec: Spec) -> None:
    """Gives a plant that is made for this run the SPEC's settings of the server; one that runs has its own."""
    adopt = getattr(discovery.load(PLANTS, args.plant), "adopt", None)
    if adopt is not None:
        adopt(args, {one.name: one.budget for one in spec.classes}, spec.workers)


def _experiment(args: argparse.Namespace, plant: Plant, spec: Spec | None) -> Experiment:
    """Plan of the experiment on this plant.

    Raises:
        UsageError: an argument is wrong, or the plant has not two classes.
    """
    there = classes_of(plant)
    chosen = tuple(args.pair.split(",")) if args.pair else there[:2]
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        known = f"{plant.name} has {', '.join(there) or 'none'}"
        raise UsageError(f"identification needs two classes, such as --classes A,B: {known}")
    try:
        orders = tuple(int(part) for part in args.orders.split(","))
    except ValueError:
        raise UsageError(f"--orders {args.orders!r}: write whole numbers with commas, such as 1,2,3") from None
    known_period_s = _STANDARD.period_s if spec is None else spec.period_s
    return Experiment(
        pair=Pair(_kind(args, spec), chosen[0], chosen[1], _delay(spec, chosen[0])),
        period_s=known_period_s if args.period is None else parse_duration_s(args.period, "--period"),
        duration_s=parse_duration_s(args.duration, "--duration"),
        warm_s=parse_duration_s(args.warm, "--warm"),
        low=args.low,
        high=args.high,
        orders=orders,
        seed=args.seed,
        validate_seed=args.validate_seed,
    )


def _kind(args: argparse.Namespace, spec: Spec | None) -> Kind:
    """Which delay is modelled: the one for which a guarantee without a model would identify the server.

    Raises:
        UsageError: the SPEC asks for both.
    """
    if args.kind is not None:
        return Kind(args.kind)
    if spec is None:
        return Kind.RELATIVE
    if spec.guarantee is Guarantee.HYBRID:
        raise UsageError("the hybrid guarantee has two models: name one with --kind logarithmic or --kind absolute")
    return Kind.ABSOLUTE if spec.guarantee is Guarantee.ABSOLUTE else Kind.LOGARITHMIC


def _delay(spec: Spec | None, name: str) -> str:
    """The reading that counts as a class's delay, without the class."""
    metrics = {one.name: one.delay_metric.partition("@")[0] for one in spec.classes} if spec is not None else {}
    return metrics.get(name, DELAY)


def shown(
    as_json: bool, plant: Plant, experiment: Experiment, stop: Stop
) -> contextlib.AbstractContextManager[Callable[[Event], None]]:
    """Announces an identification, and shows its two runs while they go."""
    pair, settings, knobs = experiment.pair, experiment.settings(experiment.seed), experiment.knobs(plant)
    if not as_json:
        both = format_duration(2 * experiment.duration_s)
        say(f"exciting {pair.upper} and {pair.lower} twice, {both} in all; the budgets are put back at the end")
    rows = rows_of([knob.name for knob in knobs], settings.objective, knobs)
    return showing(as_json, rows, settings, stop, knobs=knobs)


def _tell(args: argparse.Namespace, found: Identified) -> None:
    """Prints the result."""
    if args.json:
        print(codec.encode_strict({"type": "model", **found.file().body()}))
        return
    for one in found.candidates:
        chosen = "  <- chosen" if one is found.chosen else ""
        fit = f"error {one.rms:.3g}, fit {one.fit_ratio:.0%} on seed {args.validate_seed}"
        print(f"order {one.model.order}: {one.model}  {fit}{chosen}")
    print(f"model: {found.model}   (trimtab design --model={found.model} --period {format_duration(found.period_s)})")
    for what, path in (("model file", args.model_file), ("report", args.report)):
        if path is not None:
            print(f"{what}: {path}")
