"""The options that every workload has: the mix of URLs, the connection policy, when it runs and under which name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from trimtab.errors import UsageError
from trimtab.load_reports import Summary
from trimtab.units import parse_duration_s
from trimtab.workloads._phases import Judged, Phases
from trimtab.workloads._population import ROOT, Connection, Population, Step, Url, required, zipf


def parse_url(text: str) -> Url:
    """A URL of a mix, as `PATH` or `PATH=WEIGHT`.

    What follows the last `=` is the weight; but the first `=` of a query's last parameter is that parameter's own, so
    that `/?p=12` is a URL by itself, and `/?p=12=3` the same with weight 3.

    Raises:
        UsageError: the weight is no number.
    """
    path, equals, weight = text.rpartition("=")
    of_query = "?" in path and "=" not in path.rpartition("&")[2].rpartition("?")[2]
    if not equals or of_query:
        return Url(text)
    try:
        return Url(path, float(weight))
    except ValueError:
        raise UsageError(f"--url {text!r}: {weight!r} after the last '=' is not a weight") from None


def parse_step(text: str) -> Step:
    """A step of the schedule, as `TIME=FACTOR`, such as `870s=2.0`.

    Raises:
        UsageError: it is not one.
    """
    at, equals, factor = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return Step(parse_duration_s(at), float(factor))
    except ValueError:
        raise UsageError(f"--step {text!r} is not a step: write TIME=FACTOR, such as 870s=2.0") from None


@dataclass(frozen=True, kw_only=True)
class Traffic(ABC):
    """The base of every workload, with the options that all have; its module names the class in `WORKLOAD`.

    Args:
        class_name: name under which this traffic is reported.
        urls: a URL of the mix as PATH or PATH=WEIGHT; may be repeated.
        objects: a URL of the embedded objects as PATH or PATH=WEIGHT; may be repeated; none: the mix of the pages.
        zipf: exponent of Zipf popularity over the URLs in the order given, in place of their weights; 0 keeps the
            weights.
        connection: when the client closes: until-server-closes, per-page or per-request.
        timeout_s: time after which a request without a complete reply has failed.
        schedule: a change of intensity as TIME=FACTOR from the start of the run, such as 870s=2.0; may be repeated.
        source: source address in 127.0.0.0/8; none lets the kernel choose.
    """

    class_name: str = field(default="all", metadata={"flag": "--class"})
    urls: tuple[Url, ...] = field(default=ROOT, metadata={"flag": "--url", "parse": parse_url, "repeated": True})
    objects: tuple[Url, ...] = field(default=(), metadata={"flag": "--object", "parse": parse_url, "repeated": True})
    zipf: float = 0.0
    connection: Connection = Connection.UNTIL_SERVER_CLOSES
    timeout_s: float = 30.0
    schedule: tuple[Step, ...] = field(default=(), metadata={"flag": "--step", "parse": parse_step, "repeated": True})
    source: str | None = None

    def __post_init__(self) -> None:
        required(not self.zipf or len(self.urls) > 1, "zipf", f"{self.zipf:g}", "0 with a single URL")
        zipf(self.urls, self.zipf)
        self.check()
        self.populations()

    def check(self) -> None:
        """Refuses what no population can be made of.

        Raises:
            UsageError: an option is outside what is allowed, or they do not fit together.
        """
        return

    @abstractmethod
    def population(self) -> Population:
        """The traffic."""

    def populations(self) -> tuple[Population, ...]:
        """The traffic, as one of several that there may be at once."""
        return (self.population(),)

    def phases(self) -> Phases | None:
        """The parts of a run, where this traffic decides on them."""
        return None

    def judged(self, summary: Summary) -> Judged | None:
        """Verdict of this traffic's own rules on a run; None where it has none.

        Args:
            summary: the whole run.
        """
        return None

    def shared(self) -> dict[str, Any]:
        """The fields of a population that follow from these options."""
        return {
            "class_name": self.class_name,
            "pages": zipf(self.urls, self.zipf) if self.zipf else self.urls,
            "objects": self.objects,
            "connection": self.connection,
            "timeout_s": self.timeout_s,
            "schedule": self.schedule,
            "source": self.source,
        }
