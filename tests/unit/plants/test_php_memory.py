"""What PHP keeps in shared memory is said to be lost in a reload, of whatever server runs it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trimtab import processes
from trimtab.plants._php import forgotten

LINE = b"7f00-7f01 r-xp 00000000 08:01 42 "


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        ([LINE + b"/usr/lib/php/20220829/apcu.so", b""], True),
        ([LINE + b"/usr/lib/php/20220829/apcu.so (deleted)", b""], True),
        ([LINE + b"/usr/lib/php/20220829/opcache.so", b"7f02-7f03 rw-p 00000000 00:00 0 ", b""], False),
        ([], False),
    ],
)
def test_apcu_is_told_by_its_file(monkeypatch: pytest.MonkeyPatch, maps: Sequence[bytes], said: bool) -> None:
    monkeypatch.setattr(processes, "maps", lambda pid: maps)
    assert any("APCu is loaded" in note for note in forgotten(1)) is said
