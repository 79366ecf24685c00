"""What another server of the kind reads too is no place for a file of ours, and is not edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from trimtab.errors import PlantGone, UsageError
from trimtab.plants import _beside
from trimtab.plants._beside import require_alone, require_unshared
from trimtab.plants._master import Master
from trimtab.plants.nginx import plant as nginx_plant
from trimtab.plants.nginx.configuration import Configuration
from trimtab.plants.nginx.locations import NAME, Location
from trimtab.plants.nginx.plant import Nginx


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


def test_a_file_that_another_server_of_this_users_reads_is_not_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_beside, "vet", lambda master: None)
    monkeypatch.setattr(Server, "there", [OURS, STRANGERS, OTHER])
    theirs = tmp_path / "main.conf"
    theirs.write_text("")
    (tmp_path / "link").symlink_to("main.conf")
    said = rf"the server \(pid 11\) reads {theirs} too, .* that the server \(pid 10\) alone reads"
    with pytest.raises(UsageError, match=said):
        require_unshared(OURS, theirs, lambda other: [tmp_path / "other", tmp_path / "link"])
    require_unshared(OURS, theirs, lambda other: [tmp_path / "other"])
    monkeypatch.setattr(Server, "there", [OURS, STRANGERS])
    require_unshared(OURS, theirs, lambda other: [theirs])


def test_another_nginx_is_read_once_for_all_knobs_and_hinders_only_what_a_change_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared, read = tmp_path / "own.conf", tmp_path / "shared.conf", list[object]()
    places = {"a": tmp_path / "conf.d" / NAME, "b": tmp_path / "modules" / NAME, "c": own, "d": shared}
    nginx = object.__new__(Nginx)
    locations = {knob: Location(path, None) for knob, path in places.items()}
    for name, value in (("_server", SimpleNamespace(master=OURS)), ("_ledger", SimpleNamespace(locations=locations))):
        monkeypatch.setattr(nginx, name, value, raising=False)

    def configuration_of(other: Server) -> Configuration:
        read.append(other)
        return Configuration(texts={shared: ""})

    monkeypatch.setattr(_beside, "vet", lambda master: None)
    monkeypatch.setattr(Server, "there", [OURS, OTHER])
    monkeypatch.setattr(nginx_plant, "configuration_of", configuration_of)
    nginx.check_alone("abc")
    assert read == [OTHER]
    with pytest.raises(UsageError, match=f"reads {shared} too"):
        nginx.check_alone("ad")
