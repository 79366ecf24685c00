"""What a local user without rights can do to the gate of root's server: nothing that others notice."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.clock import SystemClock
from trimtab.gate.link import Link

from . import _stranger
from ._under_gate import UnderGate, under_gate

pytestmark = [
    pytest.mark.server,
    pytest.mark.apache,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to attack its gate as somebody else"),
]

STRANGER = 65_531
"""A user id that nobody has."""


@pytest.fixture(scope="module")
def bed() -> Iterator[UnderGate]:
    with under_gate() as running:
        yield running


def test_a_local_user_finds_no_way_to_the_hand_off_socket(bed: UnderGate) -> None:
    with stranger("freeze", bed) as reached:
        link = Link(bed.place, SystemClock(), patience_s=_stranger.HOLD_S / 2)
        with contextlib.closing(link):
            link.apply({})
        assert reached == []


@contextlib.contextmanager
def stranger(what: str, bed: UnderGate) -> Iterator[list[str]]:
    """Somebody without rights who does something to the gate of a server; what he has reached."""
    source = Path(_stranger.__file__).read_text(encoding="utf-8")
    attack = subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", source, what, str(bed.place.directory)],
        stdout=subprocess.PIPE,
        text=True,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
    )
    assert attack.stdout is not None
    with attack.stdout:
        try:
            yield json.loads(attack.stdout.readline())
        finally:
            attack.kill()
            attack.wait()
