"""A page of our own in mod_php, which is small, and visitors who are 100 ms away.

What they wait for a connection is no time of the server's: with a shorter keep-alive time they open more of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from _site import MIB, Site, checked

from trimtab.testbed import far
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.testbed.content import dynamic_url
from trimtab.workloads._population import Url

SHIPPED, MARK = Path("/usr/lib/apache2/modules"), "test"
MEMORY_BYTES = 224 * MIB
ADDRESS, DELAY_S = far.SERVER, 0.05
PAGE_CPU_S, PAGE_BYTES = 0.008, 4 * MIB
PAGE_S = 0.012
"""CPU of a page with its files, as one visitor had it: for one so far away it is too little to be told each time."""


@contextlib.contextmanager
def serving(spec: ApacheSpec, behind_cores: float) -> Iterator[tuple[ApacheTestbed, Site]]:
    """Starts it.

    Args:
        spec: its Apache.
        behind_cores: of no account: nothing is behind it.
    """
    with ApacheTestbed(replace(spec, php=True)) as bed:
        page = Url(dynamic_url(round(PAGE_CPU_S * 1e6), PAGE_BYTES // 1024))
        checked(bed, page, " pieces</p>")
        yield bed, Site((page,), (Url("/file500.html"),))
