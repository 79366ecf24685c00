"""Clients of our own: the traffic that trimtab drives while it tunes, so that the objective is the clients' own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab import discovery
from trimtab.core import Clock, Readings
from trimtab.errors import NotMeasured, TrimtabError, UsageError
from trimtab.load import LoadRun
from trimtab.options import options_of
from trimtab.plants.stack import keys
from trimtab.sensors.load_generator import LoadGenerator
from trimtab.target import Target, parse_target
from trimtab.units import parse_duration_s
from trimtab.workloads._choice import ROOM, workload
from trimtab.workloads._population import Population

_LONGEST_S = 30 * 86400.0
"""The generator wants an end; a run is stopped long before."""
WHERE = "[clients]"


@dataclass(frozen=True)
class Traffic:
    """Traffic of the clients.

    Args:
        target: the server.
        populations: the clients.
        seed: source of their randomness.
        warm_up_s: time from their start until measuring begins.
        allow_remote: whether the server may be another machine.
    """

    target: Target
    populations: tuple[Population, ...]
    seed: int
    warm_up_s: float
    allow_remote: bool


def traffic(given: Mapping[str, Any], base: Path, seed: int) -> Traffic:
    """The traffic that the table describes.

    Args:
        given: its keys.
        base: the directory from which relative paths start.
        seed: source of the clients' randomness.

    Raises:
        UsageError: a key, the workload, one of its options or the URL is wrong.
    """
    name = given.get("workload")
    if not isinstance(name, str):
        raise UsageError(
            f"{WHERE} names no workload: write workload = ..., one of {', '.join(discovery.names(ROOM))}"
        )
    options = options_of(discovery.load(ROOM, name).WORKLOAD)

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--url", required=True)
        parser.add_argument("--workload")
        parser.add_argument("--warm-up", default="10s")
        parser.add_argument("--allow-remote", action="store_true")
        for option in options:
            if option.flag == "--url":  # here it is the server's; the pages have an option of their own
                parser.add_argument("--page", action="append")
            else:
                option.add_to(parser)

    found = keys.parsed(add, given, WHERE, base)
    try:
        target, warm_up_s = parse_target(found.url, found.allow_remote), parse_duration_s(found.warm_up, "warm-up")
        texts: dict[str, Any] = {o.name: getattr(found, o.name) for o in options if o.name in vars(found)}
        if "urls" in {o.name for o in options}:
            if found.page and target.path not in ("", "/"):
                raise UsageError(f"the path {target.path} and page exclude each other: name every page with page")
            pages = found.page or ([f"{target.path}=1"] if target.path else [])
            texts |= {"urls": pages} if pages else {}
        return Traffic(target, workload(name, texts).populations(), seed, warm_up_s, found.allow_remote)
    except UsageError as error:
        raise UsageError(f"{WHERE}: {error}") from None


class Clients(LoadGenerator):
    """The sensor of clients that begin with the run and end with it.

    Args:
        traffic: their traffic.
        clock: the clock on which their reports are dated.
    """

    def __init__(self, traffic: Traffic, clock: Clock) -> None:
        self._traffic, self._clock = traffic, clock
        self._load: LoadRun | None = None
        self._began_s = clock.now_s()

    def require_reachable(self) -> None:
        """Makes sure that somebody accepts where they are to connect.

        Raises:
            UsageError: nobody does.
        """
        try:
            self._traffic.target.require_reachable()
        except TrimtabError as error:
            raise UsageError(f"{WHERE}: {error}") from None

    def start(self) -> float:
        """Starts them; returns the seconds until measuring begins."""
        if self._load is None:
            one = self._traffic
            self._run = self._load = LoadRun(
                one.target.endpoint,
                one.populations,
                _LONGEST_S,
                self._clock,
                seed=one.seed,
                host=one.target.host,
                allow_remote=one.allow_remote,
            )
        return self._traffic.warm_up_s

    def read(self) -> Readings:
        """The clients' readings since `begin`.

        Raises:
            NotMeasured: they have not begun, no interval has ended yet, or the generator has failed.
        """
        if self._load is None:
            raise NotMeasured("the clients have not begun")
        return super().read()

    def close(self) -> None:
        """Ends them; may be called twice."""
        if self._load is not None:
            self._load.close()
            self._load = None
