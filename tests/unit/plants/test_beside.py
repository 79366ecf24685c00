"""A directory that another server of the kind reads too is no place for a file of ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _beside
from trimtab.plants._beside import require_alone
from trimtab.plants._master import Master


@dataclass(frozen=True)
class Server(Master):
    """One of some that run."""

    there: ClassVar[list[Server]] = []

    @classmethod
    def running(cls) -> list[Server]:
        return cls.there


OURS = Server(10, 1, Path("/bin/true"), ("server",), os.geteuid())
OTHER, STRANGERS = replace(OURS, pid=11), replace(OURS, pid=12, user=os.geteuid() + 1)


def asked(of: Callable[[Server], Iterable[Path]], monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(_beside, "vet", lambda master: None)
    monkeypatch.setattr(Server, "there", [OURS, OTHER, STRANGERS])
    require_alone(OURS, path, of)


def test_one_that_another_server_of_this_users_reads_too_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "link").symlink_to("conf.d")
    ours, looked_at = tmp_path / "conf.d" / "zz.conf", list[Server]()

    def included(other: Server) -> list[Path]:
        looked_at.append(other)
        return [tmp_path / "other", tmp_path / "link"]

    said = rf"the server \(pid 11\) reads {ours.parent} too, .* have the server \(pid 10\) alone"
    with pytest.raises(UsageError, match=said):
        asked(included, monkeypatch, ours)
    assert looked_at == [OTHER]
    asked(lambda other: [tmp_path / "other"], monkeypatch, ours)
    ours.write_text("")
    asked(included, monkeypatch, ours)  # an undo is not to be hindered


def test_what_cannot_be_told_of_another_server_hinders_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = list[Server]()
    for error in (UsageError("belongs to a stranger"), PlantGone("it has ended"), PermissionError()):

        def included(other: Server, error: Exception = error) -> list[Path]:
            looked_at.append(other)
            raise error

        asked(included, monkeypatch, tmp_path / "zz.conf")
    assert looked_at == 3 * [OTHER]
