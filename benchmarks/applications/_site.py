"""What the applications have in common: what their visitors ask for, and a look at the first page."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.errors import TrimtabError
from trimtab.testbed._private import DIRECT
from trimtab.testbed.apache import ApacheTestbed
from trimtab.testbed.nginx import NginxTestbed
from trimtab.workloads._population import Url

MIB = 1 << 20
FIRST_S = 60.0
"""Time for the first page, which fills the application's caches."""


@dataclass(frozen=True)
class Site:
    """An application as its visitors know it.

    Args:
        pages: its pages, by how often they are asked for.
        objects: the files of a page.
    """

    pages: tuple[Url, ...]
    objects: tuple[Url, ...]


def checked(bed: ApacheTestbed | NginxTestbed, page: Url, text: str) -> None:
    """Makes sure that visitors will get the page, not an error page.

    Args:
        bed: the server.
        page: the page.
        text: a text that it has.

    Raises:
        TrimtabError: they would not.
    """
    try:
        with DIRECT.open(bed.url(page.path), timeout=FIRST_S) as reply:
            found = reply.read(1 << 20).decode(errors="replace")
    except OSError as error:
        raise TrimtabError(f"{page.path} does not come: {error}") from error
    if text not in found:
        raise TrimtabError(f"{page.path} is another page than was asked for: {found[:200]!r}")
