"""The figures of stored runs as SVG text, one a file: pure functions of tracks.

A module names its figure in `PICTURE`, which declares what it needs; the page has those whose needs are met.
"""

from collections.abc import Sequence

from trimtab import discovery
from trimtab.report.sheet import Plot
from trimtab.report.style import Picture
from trimtab.report.track import Track


def drawn(tracks: Sequence[Track]) -> list[Plot]:
    """The figures that can be drawn of these runs, in their order; none without a run."""
    if not tracks:
        return []
    found: list[Picture] = [discovery.load(__name__, name).PICTURE for name in discovery.names(__name__)]
    able = sorted((one for one in found if one.drawable(tracks)), key=lambda one: one.position)
    return [Plot(one.title, one.caption, one.draw(tracks)) for one in able]
