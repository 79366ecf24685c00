"""A private Apache for whoever needs any Apache, such as the conformance kit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from trimtab.testbed.apache import ApacheSpec, ApacheTestbed


@contextlib.contextmanager
def testbed() -> Iterator[tuple[str, ...]]:
    """A small prefork, and the words with which the command line names it."""
    spec = ApacheSpec("prefork", max_request_workers=8, server_limit=16, keep_alive_timeout_ms=300)
    with ApacheTestbed(spec) as bed:
        yield ("--pid", str(bed.pid), "--status-url", bed.status_url)
