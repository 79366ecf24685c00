"""Design a controller from a model and a specification, or judge a given one.

From a model, the wanted settling time and overshoot to the gain and the zero of a PI controller: the one that meets
them with the largest stability margin. 'trimtab design poles' says what a given gain and zero do with the model. A
response has settled when it stays within 2 % of the reference. Nothing is changed and no server is asked.

example: trimtab design --model 0.74,-0.37,0.95,-0.12 --settling 300s --period 30s --plot design.html
         trimtab design poles --model 0.74,-0.37,0.95,-0.12 --gain 0.3 --zero 0.05 --json
"""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

from trimtab import codec
from trimtab.cli._plant import writable
from trimtab.design.pi import Design, designed, failing, judged
from trimtab.design.specification import BAND_RATIO, Specification
from trimtab.errors import UsageError
from trimtab.files import write_whole
from trimtab.identification.model import Model, parse_model
from trimtab.identification.model_file import read_model
from trimtab.units import format_duration, parse_duration_s

_STANDARD = Specification()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model, the specification and where the figures go."""
    # A model may begin with a minus, as in `--model -0.08,-0.2,-0.2,-0.05`; argparse would take it for an option.
    parser._negative_number_matcher = re.compile(r"^-[\d.][\d.,eE+-]*$")
    parser.add_argument(
        "action",
        metavar="poles",
        nargs="?",
        choices=["poles"],
        help="judge the controller that --gain and --zero say",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", metavar="A1,..,B1,..", help="the parameters of Eq. (2) of lu2001, a before b")
    source.add_argument("--model-file", type=Path, metavar="FILE", help="a model that 'trimtab identify' wrote")
    parser.add_argument("--gain", type=float, help="with poles: the controller gain g")
    parser.add_argument("--zero", type=float, help="with poles: the controller zero r")
    parser.add_argument(
        "--settling", help=f"the longest settling time allowed (default {format_duration(_STANDARD.settling_s)})"
    )
    parser.add_argument("--period", help="the sampling period (default: the model file's, or 30s)")
    parser.add_argument("--overshoot", type=float, help="the greatest overshoot allowed, of the reference (any)")
    parser.add_argument(
        "--steady-state-error",
        type=float,
        default=_STANDARD.steady_state_error_ratio,
        help="the greatest error allowed in the end, of the reference (default 0.1)",
    )
    parser.add_argument(
        "--band", type=float, default=BAND_RATIO, help="settled is within this of the reference (default 0.02)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="root locus and step response, as .svg or .html")
    parser.add_argument("--json", action="store_true", help="one JSON object, step response included")


def run(args: argparse.Namespace) -> int:
    """Designs or judges.

    Raises:
        UsageError: an argument is wrong, the model cannot be controlled, or no controller meets the specification.
    """
    model, period_s = _model(args)
    settling_s = _STANDARD.settling_s if args.settling is None else parse_duration_s(args.settling, "--settling")
    specification = Specification(settling_s, period_s, args.steady_state_error, args.overshoot, args.band)
    plot = _plottable(args.plot)
    if args.action == "poles":
        if args.gain is None or args.zero is None:
            raise UsageError("design poles needs --gain and --zero")
        design = judged(model.usable(), args.gain, args.zero, specification)
    elif args.gain is not None or args.zero is not None:
        raise UsageError("--gain and --zero are what is designed: 'trimtab design poles' judges given ones")
    else:
        design = designed(model, specification)
    told = facts(design, specification)
    if plot is not None:
        report = importlib.import_module("trimtab.report.design")
        picture = report.picture(design, specification)
        write_whole(plot, picture if plot.suffix == ".svg" else report.page(design, picture, told))
    if args.json:
        print(codec.encode_strict({**design.body(), "meets": not failing(design, specification)}))
    else:
        print("\n".join(f"{name:<12}{text}" for name, text in told))
        if plot is not None:
            print(f"figures: {plot}")
    return 0


def facts(design: Design, specification: Specification) -> list[tuple[str, str]]:
    """Names and texts of a design's properties."""
    poles = ", ".join(pole_text(pole) for pole in design.poles if pole.imag >= 0)
    settled = "does not settle" if design.settling_s is None else f"settles in {design.settling_s:g} s"
    error = design.steady_state_error_ratio
    left = "" if error is None else f", error in the end {error:.1%}"
    wrong = failing(design, specification)
    margin = "any factor" if design.gain_margin > 1e3 else f"a factor of {design.gain_margin:.2f}"
    return [
        ("model", str(design.model)),
        ("controller", f"gain {design.gain:g}, zero {design.zero:g}"),
        ("poles", f"{poles} ({'stable' if design.stable else 'not stable'})"),
        ("step", f"{settled}, overshoots by {design.overshoot_ratio:.1%}{left}"),
        ("margin", f"{design.margin:.2f} of 1; the gain may be wrong by {margin}"),
        ("wanted", f"{specification}: " + (f"not met, {wrong}" if wrong else "met")),
    ]


def pole_text(pole: complex) -> str:
    """A pole, or a pair of them by the one with the positive imaginary part."""
    return f"{pole.real:.3f}" if abs(pole.imag) < 1e-9 else f"{pole.real:.3f} ± {pole.imag:.3f}i"


def _model(args: argparse.Namespace) -> tuple[Model, float]:
    """The model and its sampling period in seconds.

    Raises:
        UsageError: it is none, or the period is not the one that the model was identified with.
    """
    period_s = None if args.period is None else parse_duration_s(args.period, "--period")
    if args.model_file is None:
        return parse_model(args.model), _STANDARD.period_s if period_s is None else period_s
    known = read_model(args.model_file)
    if period_s is not None and period_s != known.period_s:
        raise UsageError(
            f"--period {args.period}: the model of {args.model_file} holds for {known.period_s:g} s; "
            "identify again with the other period"
        )
    return known.model, known.period_s


def _plottable(path: Path | None) -> Path | None:
    """The file of the figures, once it is known that it can be written.

    Raises:
        UsageError: it cannot.
    """
    if path is not None and path.suffix not in (".svg", ".html"):
        raise UsageError(f"--plot {path}: write a name that ends in .svg or .html")
    return writable(path, "the plot")
