"""Directories in which nginx looks for included files: those too that wildcards name are nobody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests._stranger import STRANGER, needs_root
from trimtab.errors import UsageError
from trimtab.plants.nginx import configuration
from trimtab.plants.nginx.configuration import Configuration, evaluate
from trimtab.plants.nginx.program import Program


def read(directory: Path, include: str) -> Configuration:
    """The configuration whose main file includes this pattern of the directory."""
    main = directory / "nginx.conf"
    main.write_text(f"events {{}} http {{ include {include}; }}")
    return evaluate(Program(Path("/usr/sbin/nginx"), directory, main, directory / "pid", (), ""))


def test_files_in_directories_that_wildcards_name_are_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "sites" / name).mkdir(parents=True)
    (tmp_path / "sites" / "b" / "nginx.conf").write_text("keepalive_timeout 5;")
    (tmp_path / "sites" / "readme").write_text("of no matter")
    found = read(tmp_path, "sites/*/nginx.conf")
    assert [one.args for one in found.named("keepalive_timeout", "http")] == [("5",)]
    assert found.patterns == [(tmp_path / "sites" / "*" / "nginx.conf", ("http",))]
    assert read(tmp_path, "not-yet/*/nginx.conf").named("keepalive_timeout", "http") == []


def test_an_edit_while_it_is_read_makes_it_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that many include, by its second reading: the hosts before that had the text of before the edit."""
    both, real = tmp_path / "both.conf", configuration.text_of

    def edited(path: Path) -> str:
        text = real(path)
        if text == "keepalive_timeout 5;":
            path.write_text("keepalive_timeout 65;")
        return text

    both.write_text("keepalive_timeout 5;")
    with monkeypatch.context() as patch:
        patch.setattr(configuration, "text_of", edited)
        found = read(tmp_path, "both.conf; include both.conf")
    assert [one.args for one in found.anywhere("keepalive_timeout")] == [("5",), ("65",)] and not found.unchanged()
    found = read(tmp_path, "both.conf; include both.conf")
    assert found.unchanged()


@needs_root
@pytest.mark.parametrize("include", ["sites/*/nginx.conf", "sites/*/conf.d/*.conf", "s*/his/*.conf", "sites/his/*"])
def test_a_strangers_directory_that_is_still_empty_is_refused(tmp_path: Path, include: str) -> None:
    his = tmp_path / "sites" / "his"
    his.mkdir(parents=True)
    os.chown(his, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"{his} belongs to uid {STRANGER}"):
        read(tmp_path, include)


@needs_root
def test_a_strangers_directory_below_one_of_roots_is_refused(tmp_path: Path) -> None:
    his = tmp_path / "sites" / "a" / "conf.d"
    his.mkdir(parents=True)
    os.chown(his, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"{his} belongs to uid {STRANGER}"):
        read(tmp_path, "sites/*/conf.d/*.conf")


@needs_root
@pytest.mark.parametrize("there", [False, True])
def test_a_link_to_where_a_stranger_can_make_a_directory_is_refused(tmp_path: Path, there: bool) -> None:
    (tmp_path / "sites").mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "sites" / "link").symlink_to(home / "site")
    if there:
        (home / "site").touch()
    os.chown(home, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"{home} belongs to uid {STRANGER}"):
        read(tmp_path, "sites/*/nginx.conf")


def test_where_others_could_make_the_directories_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    with pytest.raises(UsageError, match="others can make it"):
        read(tmp_path, "open/sites/*/nginx.conf")
