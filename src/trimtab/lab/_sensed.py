"""A private, unmodified server with the shim in it and no gate, as `trimtab run --ports` starts one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping

from trimtab import native
from trimtab.clock import SystemClock
from trimtab.gate import place as places
from trimtab.gate.keep_alive import InCharge, KeepAliveTime, Setting
from trimtab.gate.launch import loadable, preloaded
from trimtab.gate.place import Place
from trimtab.plants.keep_alive import KeepAlive
from trimtab.sensors import _shared_file
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.apache_config import ApacheSpec
from trimtab.testbed.nginx import NginxTestbed
from trimtab.testbed.nginx_config import NginxSpec

Testbed = ApacheTestbed | NginxTestbed


@contextlib.contextmanager
def sensed(spec: ApacheSpec | NginxSpec) -> Iterator[tuple[Testbed, KeepAlive, Place]]:
    """Starts a server and ends it: the server, its keep-alive time as a plant, and where they share what they share.

    Raises:
        UsageError: something is not installed.
        TrimtabError: the server did not start.
    """
    shim = loadable(native.shim_path())
    place = places.claim(f"lab-{os.getpid()}")

    def environment(port: int) -> Mapping[str, str]:
        return preloaded({}, shim, place, (port,), gated=False)

    try:
        _shared_file.create(place.shared)
        _take_charge(place)
        with _testbed(spec, environment) as bed, contextlib.closing(KeepAlive(SystemClock(), place)) as plant:
            yield bed, plant, place
    finally:
        place.release()


def _take_charge(place: Place) -> None:
    """As `trimtab run --keep-alive` does: so what is set later reaches every connection."""
    with contextlib.closing(KeepAliveTime(place.shared)) as time:
        time.write(Setting(InCharge.FIXED, None))


def _testbed(spec: ApacheSpec | NginxSpec, environment: Callable[[int], Mapping[str, str]]) -> Testbed:
    if isinstance(spec, NginxSpec):
        return NginxTestbed(spec, environment=environment)
    return ApacheTestbed(spec, environment=environment)
