"""What an operator edits in mid-run waits for his reload, and a change of trimtab's waits with it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from trimtab import processes
from trimtab.errors import ApplyLater
from trimtab.files import Stamp
from trimtab.plants._included_files import _CLOCKS_DIFFER_S
from trimtab.plants.apache import attached, configuration, snippet
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.configuration import Origin, evaluate
from trimtab.plants.apache.process import Generations
from trimtab.processes import TICKS_HZ

OURS, MINE = "zz-trimtab.conf", "mine.conf"


def loaded_now() -> int:
    """A start, in ticks since boot, after all files that are there and before those to come."""
    time.sleep(0.05)  # a file's time is of the kernel's last tick
    ticks = (time.clock_gettime(time.CLOCK_BOOTTIME) - _CLOCKS_DIFFER_S) * TICKS_HZ
    time.sleep(0.05)
    return int(ticks)


@pytest.fixture
def apache(tmp_path: Path) -> Attached:
    """One that has read these files."""
    (tmp_path / "a.conf.d").mkdir()
    (tmp_path / "main.conf").write_text("Include *.conf.d/*\n")
    (tmp_path / "a.conf.d" / OURS).write_text("MaxRequestWorkers 8\n")
    (tmp_path / "a.conf.d" / MINE).write_text("Timeout 60\n")
    apache = object.__new__(Attached)
    apache.origin = Origin(tmp_path / "main.conf", tmp_path)
    apache._config = apache._loaded = evaluate(apache.origin)
    return apache


@pytest.mark.parametrize(
    ("name", "text", "waits"),
    [
        (MINE, "Timeout 50\n", True),
        (MINE, "", True),
        (MINE, "# a comment\n\nTimeout 60\n", False),
        ("new.conf", "Listen 8443\n", True),
        (OURS, "MaxRequestWorkers 9\n", False),
    ],
)
def test_a_change_waits_until_what_was_edited_is_loaded(apache: Attached, name: str, text: str, waits: bool) -> None:
    directory = apache.origin.server_root / "a.conf.d"
    apache.require_loaded(directory / OURS)
    (directory / name).write_text(text)
    if waits:
        with pytest.raises(ApplyLater, match=f"{name} was edited after Apache read it, .* reload Apache yourself"):
            apache.require_loaded(directory / OURS)
        apache._loaded = apache.config
    apache.require_loaded(directory / OURS)


def test_a_file_that_was_taken_away_counts_as_edited(apache: Attached) -> None:
    directory = apache.origin.server_root / "a.conf.d"
    (directory / MINE).unlink()
    with pytest.raises(ApplyLater, match=f"{MINE} was edited after Apache read it"):
        apache.require_loaded(directory / OURS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (snippet.compose({"max_request_workers": 8}, None), False),
        (snippet.compose({"max_request_workers": 8}, None, 4), True),
        (snippet.compose({"max_request_workers": 8}, None) + "Timeout 5\n", True),
    ],
)
def test_our_file_as_a_run_has_left_it_is_no_edit_that_waits_for_a_reload(
    apache: Attached, monkeypatch: pytest.MonkeyPatch, text: str, told: bool
) -> None:
    """One for a reload that may not have been made is, and one that somebody has edited since."""
    ours = apache.origin.server_root / "a.conf.d" / OURS
    ours.write_text(text)
    monkeypatch.setattr(Attached, "generations", lambda self: Generations((1,), ()))
    monkeypatch.setattr(attached, "changed_after", lambda files, ticks: ours if ours in files else None)
    assert (apache._pending() == ours) is told


DEBIANS = [f"/etc/php/8.2/apache2/{name}" for name in ("php.ini", "conf.d/*.ini")]
RED_HATS = [f"/etc/{name}" for name in ("php.ini", "php.d/*.ini")]


@pytest.mark.parametrize(
    ("lines", "environ", "known"),
    [
        ("LoadModule php_module m/libphp8.2.so", {}, DEBIANS),
        ("LoadModule php_module m/libphp8.2.so\nPHPIniDir /srv/own.ini", {}, ["/srv/own.ini", DEBIANS[1]]),
        ("LoadModule php_module m/libphp8.2.so", {"PHPRC": "/srv"}, []),
        ("LoadModule php_module m/libphp.so", {}, RED_HATS),
        ("LoadModule php7_module m/libphp7.so", {}, RED_HATS),
        ("LoadModule php_module m/libphp.so", {"PHP_INI_DIR": "/opt"}, ["/opt/php.ini", "/opt/conf.d/*.ini"]),
        ("LoadModule status_module m/mod_status.so", {}, []),
    ],
)
def test_files_of_mod_phps_own_are_known_of_builds_that_many_have_and_where_a_directive_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, environ: dict[str, str], known: list[str]
) -> None:
    asked = list[str]()

    def ini_stamps(patterns: Iterable[Path]) -> dict[Path, Stamp]:
        asked.extend(map(str, patterns))
        return {}

    monkeypatch.setattr(configuration, "ini_stamps", ini_stamps)
    (tmp_path / "main.conf").write_text(lines)
    evaluate(Origin(tmp_path / "main.conf", tmp_path, environ=environ))
    assert asked == known


def test_php_ini_and_a_link_that_came_since_the_last_reload_are_told(
    apache: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that was enabled before the run came into force with its first change, without a word."""
    root = apache.origin.server_root
    ini, link = root / "php" / "php.ini", root / "a.conf.d" / "site.conf"
    ini.parent.mkdir()
    (root / "main.conf").write_text("Include *.conf.d/*\nLoadModule php_module m/libphp8.2.so\nPHPIniDir php\n")
    (root / "site").write_text("Timeout 9\n")
    monkeypatch.setattr(Attached, "generations", lambda self: Generations((1,), ()))
    began = loaded_now()
    monkeypatch.setattr(processes, "start_of", lambda pid: began)
    assert apache.config and apache._pending() is None
    (ini.parent / "resolv.conf").touch()  # Red Hat's php.ini is in /etc, where something always comes and goes
    assert apache.config and apache._pending() is None
    ini.write_text("memory_limit = 64M\n")
    assert apache.config and apache._pending() == ini
    ini.unlink()
    link.symlink_to(root / "site")
    assert apache.config and apache._pending() == link


def test_a_site_that_was_disabled_since_the_last_reload_is_told(
    apache: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its directory tells; what goes from our file's directory may be that."""
    root = apache.origin.server_root
    sites = root / "sites-enabled"
    sites.mkdir()
    (sites / "site.conf").write_text("Timeout 9\n")
    (root / "main.conf").write_text("".join(f"Include {name}/*.conf\n" for name in (sites.name, "a.conf.d")))
    monkeypatch.setattr(Attached, "generations", lambda self: Generations((1,), ()))
    began = loaded_now()
    monkeypatch.setattr(processes, "start_of", lambda pid: began)
    (root / "a.conf.d" / OURS).unlink()
    assert apache.config and apache._pending() is None
    (sites / "site.conf").unlink()
    assert apache.config and apache._pending() == sites


def test_a_change_waits_until_php_ini_is_loaded_as_edited(apache: Attached) -> None:
    root = apache.origin.server_root
    ini = root / "php" / "php.ini"
    ini.parent.mkdir()
    ini.write_text("memory_limit = 64M\n")
    (root / "main.conf").write_text("Include *.conf.d/*\nLoadModule php_module m/libphp8.2.so\nPHPIniDir php\n")
    apache._loaded = apache.config
    apache.require_loaded(root / OURS)
    ini.write_text("memory_limit = 512M\n")
    with pytest.raises(ApplyLater, match=r"php\.ini was edited after Apache read it"):
        apache.require_loaded(root / OURS)
