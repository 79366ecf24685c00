"""FPM's configuration as FPM reads it: order of files, sections across them, what replaces what, our file."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests._stranger import STRANGER, needs_root
from trimtab import trust
from trimtab.errors import UsageError
from trimtab.plants import _included_files
from trimtab.plants._edits import edited
from trimtab.plants.php_fpm import knobs, program, snippet
from trimtab.plants.php_fpm.attached import _chosen
from trimtab.plants.php_fpm.configuration import Configuration, read
from trimtab.plants.php_fpm.program import Program

WWW = """
[www]
user = www-data
listen = /run/$pool.sock   ; as Debian
pm = dynamic
;pm.max_children = 99
pm.max_children = 5
pm.start_servers = "2"
pm.min_spare_servers = 1
pm.max_spare_servers = 3
php_admin_value[memory_limit] = 32M
"""


@pytest.fixture
def main(tmp_path: Path) -> Path:
    (tmp_path / "pool.d").mkdir()
    (tmp_path / "pool.d" / "www.conf").write_text(WWW)
    path = tmp_path / "php-fpm.conf"
    path.write_text(f"[global]\nprocess_control_timeout = 2m\ninclude={tmp_path}/pool.d/*.conf\n")
    return path


def values(found: Configuration) -> dict[str, int]:
    return knobs.values(found, "www")


def test_debians_pool_is_read(main: Path) -> None:
    found = read(main)
    assert values(found) == {
        "max_children": 5,
        "pm": 1,
        "start_servers": 2,
        "min_spare_servers": 1,
        "max_spare_servers": 3,
    }
    assert found.text("www", "listen") == "/run/www.sock"
    assert found.seconds("global", "process_control_timeout") == 120
    assert found.pools() == ["www"]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x0c", "\x1e"])
def test_what_python_takes_for_the_end_of_a_line_ends_no_comment(main: Path, mark: str) -> None:
    (main.parent / "pool.d" / "www.conf").write_text(f"{WWW}; as it was:{mark}pm.max_children = 50\n")
    assert values(read(main))["max_children"] == 5


def test_relative_includes_begin_where_the_program_is_at_home(main: Path) -> None:
    """PHP's own container image has /usr/local/sbin/php-fpm, and include=etc/php-fpm.d/*.conf."""
    found = {
        exe: Program(Path(exe), main).prefix for exe in ("/usr/sbin/php-fpm8.2", "/usr/local/sbin/php-fpm", "/fpm")
    }
    assert list(map(str, found.values())) == ["/usr", "/usr/local", "/usr"]
    assert Program(Path("/usr/local/sbin/php-fpm"), main, ("-p", "/srv")).prefix == Path("/srv")
    main.write_text("[global]\ninclude=pool.d/*.conf\n")
    assert read(main, main.parent).pools() == ["www"]
    with pytest.raises(UsageError, match=r"no pool is found in .*php-fpm\.conf .*--fpm-option=-p"):
        _chosen(read(main, main.parent / "elsewhere"), None)


def test_a_section_is_the_same_in_any_case_of_its_letters(main: Path) -> None:
    main.write_text(main.read_text().replace("[global]", "[Global]"))
    (main.parent / "pool.d" / "zz.conf").write_text("[WWW]\npm.max_children = 9\n")
    found = read(main)
    assert found.pools() == ["www"]
    assert (found.seconds("global", "process_control_timeout"), values(found)["max_children"]) == (120, 9)


def test_a_later_file_with_the_same_section_has_the_last_word(main: Path) -> None:
    (main.parent / "pool.d" / "zz.conf").write_text("[www]\npm.max_children = 9\n")
    assert values(read(main))["max_children"] == 9
    (main.parent / "pool.d" / "aa.conf").write_text("[www]\npm.max_children = 7\n")
    assert values(read(main))["max_children"] == 9


def test_a_section_goes_on_across_the_end_of_a_file(main: Path) -> None:
    (main.parent / "pool.d" / "www2.conf").write_text("pm.max_children = 8\n")
    assert values(read(main))["max_children"] == 8


def test_start_servers_that_are_not_set_are_those_in_the_middle(main: Path) -> None:
    path = main.parent / "pool.d" / "www.conf"
    path.write_text(
        WWW.replace('pm.start_servers = "2"\n', "").replace("max_spare_servers = 3", "max_spare_servers = 5")
    )
    assert values(read(main))["start_servers"] == 3


@pytest.mark.parametrize(
    ("pools", "most", "at_start", "reach"),
    [
        ("a static 4; b static 4", 0, {"a": 4, "b": 4}, {"a": None, "b": None}),
        ("a static 4; b static 4", 9, {"a": 4, "b": 4}, {"a": 5, "b": 5}),
        ("a static 6; b static 6", 9, {"a": 6, "b": 3}, {"a": 6, "b": 3}),
        ("a static 4; b ondemand 90", 9, {"a": 4, "b": 0}, {"a": 9, "b": 5}),
        ("a dynamic 90; b static 4", 9, {"a": 2, "b": 4}, {"a": 5, "b": 7}),
        ("a static 9; b dynamic 90", 9, {"a": 9, "b": 0}, {"a": 9, "b": 0}),
        ("a static ${A}; b static 4", 9, {"a": 0, "b": 4}, {"b": 9}),
    ],
)
def test_what_process_max_leaves_to_a_pool(
    main: Path, pools: str, most: int, at_start: dict[str, int], reach: dict[str, int | None]
) -> None:
    (main.parent / "pool.d" / "www.conf").unlink()
    spare = "pm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n"
    for pool, pm, children in (one.split() for one in pools.split("; ")):
        text = f"[{pool}]\npm = {pm}\npm.max_children = {children}\n{spare}"
        (main.parent / "pool.d" / f"{pool}.conf").write_text(text)
    main.write_text(f"[global]\nprocess.max = {most}\n" + main.read_text())
    found = read(main)
    assert knobs.at_start(found) == at_start
    for pool, number in reach.items():
        assert knobs.reach(found, pool) == number
        limit = knobs.values(found, pool)["max_children"]
        assert bool(knobs.out_of_reach(found, pool)) == (number is not None and number < limit)
        if number is not None:
            of = {knob.name: knob for knob in knobs.knobs(found, pool)}
            assert limit in of["max_children"].domain, "it can come back"
            assert of["max_children"].domain.maximum == max(number, limit)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("pm = adaptive", "pm = 'adaptive' is none of static, dynamic, ondemand"),
        (
            "pm.max_children = ${MOST}",
            r"pm\.max_children = \$\{MOST\} in .*www\.conf line \d+ is from PHP-FPM.s environment, .* as a number",
        ),
        ("pm.max_children = 9999999999", "is not a number"),
    ],
)
def test_what_cannot_be_understood_is_said_with_its_place(main: Path, wrong: str, why: str) -> None:
    path = main.parent / "pool.d" / "www.conf"
    path.write_text(WWW + wrong + "\n")
    with pytest.raises(UsageError, match=why):
        values(read(main))


def test_a_configuration_that_includes_itself_ends(main: Path) -> None:
    main.write_text(main.read_text() + f"include={main}\n")
    with pytest.raises(UsageError, match="includes itself"):
        read(main)


def test_a_change_of_a_file_or_of_what_is_included_is_noticed(main: Path) -> None:
    found = read(main)
    assert found.changed() == []
    (main.parent / "pool.d" / "more.conf").write_text("[more]\n")
    assert found.changed() == [main.parent / "pool.d"]


def location(main: Path) -> Path:
    found = read(main)
    return snippet.location(Program(Path("/usr/sbin/php-fpm"), main), found, "www", values(found), None)


def test_our_file_goes_where_it_is_read_last(main: Path) -> None:
    assert location(main) == main.parent / "pool.d" / "zz-trimtab-www.conf"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("zzz.conf", "[www]\npm = static\n", r"pm in .*zzz\.conf line 2 would have the last word"),
        ("zzz.conf", "php_value[x] = 1\n", "would become part of it"),
    ],
)
def test_where_it_would_not_have_the_last_word_or_catch_what_follows_it_is_not_put(
    main: Path, name: str, text: str, why: str
) -> None:
    if "www" not in text:
        (main.parent / "pool.d" / "zy.conf").write_text("[other]\nlisten = 9001\n")
    (main.parent / "pool.d" / name).write_text(text)
    if "www" in text:
        with pytest.raises(UsageError, match=why):
            location(main)
    else:
        with pytest.raises(UsageError, match=why):
            found = read(main)
            snippet.location(Program(Path("/x"), main), found, "www", {"max_children": 6}, None)


def test_where_no_directory_is_included_the_line_to_add_is_said(main: Path) -> None:
    main.write_text("[global]\n" + WWW)
    with pytest.raises(UsageError, match=r"make sure that 'include=.*/pool\.d/\*\.conf' is the last line of"):
        location(main)


def test_a_pool_whose_name_cannot_be_a_files_is_left_alone(main: Path) -> None:
    (main.parent / "pool.d" / "www.conf").write_text(WWW.replace("[www]", "[../x]"))
    found = read(main)
    with pytest.raises(UsageError, match="its name is not of letters"):
        snippet.location(Program(Path("/x"), main), found, "../x", {"max_children": 6}, None)


def test_edits_are_noticed_wherever_they_are_and_line_numbers_say_nothing(main: Path) -> None:
    def set_by_others() -> dict[str, list[tuple[Path, str]]]:
        found = read(main)
        return {knob: found.others(key, "www", None) for knob, key in knobs.KEYS.items()}

    before, path = set_by_others(), main.parent / "pool.d" / "www.conf"
    path.write_text("; one more line\n" + WWW)
    assert set_by_others() == before
    path.write_text(WWW.replace("max_children = 5", "max_children = 6"))
    assert [knob for knob, now in set_by_others().items() if now != before[knob]] == ["max_children"]


def test_a_dynamic_pool_loses_in_a_reload_what_it_has_to_grow_again() -> None:
    """17 busy, of which 2 are there at once and one more each second: 112 worker seconds, of 17 a second."""
    pool = {"pm": 1, "start_servers": 2, "min_spare_servers": 1}
    assert knobs.regrowth_s(pool, 17.0) == pytest.approx(15**2 / 2 / 17)
    assert knobs.regrowth_s({**pool, "min_spare_servers": 5}, 17.0) == pytest.approx(15**2 / 10 / 17)
    assert knobs.regrowth_s(pool, 1.5) == knobs.regrowth_s({**pool, "pm": 0}, 17.0) == 0.0


def test_a_directory_that_is_added_where_wildcards_look_is_noticed(main: Path) -> None:
    main.write_text(main.read_text() + f"include={main.parent}/sites/*/pool.conf\n")
    found = read(main)
    assert values(found)["max_children"] == 5
    (main.parent / "sites" / "a").mkdir(parents=True)
    assert found.changed() == [main.parent / "sites"]
    found = read(main)
    assert found.changed() == []
    (main.parent / "sites" / "b").mkdir()
    assert found.changed() == [main.parent / "sites"]
    found = read(main)
    (main.parent / "sites" / "b" / "pool.conf").write_text("[www]\npm.max_children = 9\n")
    assert found.changed() == [main.parent / "sites" / "b"]
    assert values(read(main))["max_children"] == 9


def test_a_directory_that_comes_while_wildcards_are_looked_up_is_noticed(
    main: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.write_text(main.read_text() + f"include={main.parent}/sites/*/pool.conf\n")
    (main.parent / "sites" / "a").mkdir(parents=True)
    trusted = trust.require_trusted

    def meanwhile(path: Path) -> None:
        if path.name == "sites":
            (path / "b").mkdir()
        trusted(path)

    monkeypatch.setattr(_included_files, "require_trusted", meanwhile)
    assert read(main).changed() == [main.parent / "sites"]


@needs_root
def test_a_strangers_directory_that_wildcards_name_is_refused(main: Path) -> None:
    his = main.parent / "sites" / "his"
    his.mkdir(parents=True)
    os.chown(his, STRANGER, STRANGER)
    main.write_text(main.read_text() + f"include={main.parent}/sites/*/pool.conf\n")
    with pytest.raises(UsageError, match=f"{his} belongs to uid {STRANGER}"):
        read(main)


SAYS = """phpinfo()
PHP Version => 8.3.6

Configuration File (php.ini) Path => {home}
Loaded Configuration File => {home}/php.ini
Scan this dir for additional .ini files => {beside}
Additional .ini files parsed => (none)
"""


@pytest.mark.parametrize(
    ("home", "beside", "main", "options", "known"),
    [
        ("/etc/php/8.2/fpm", "/etc/php/8.2/fpm/conf.d", "/etc/php/8.2/fpm", (), ["/etc/php/8.2/fpm/conf.d/*.ini"]),
        ("/etc", "/etc/php.d:/srv/php.d", "/etc", (), ["/etc/php.d/*.ini", "/srv/php.d/*.ini"]),  # as Red Hat's
        ("/opt/etc/php", "/opt/etc/php/conf.d", "/opt/etc", (), ["/opt/etc/php/conf.d/*.ini"]),
        ("/etc/php82", "(none)", "/etc/php82", (), []),
        ("/etc", "/etc/php.d", "/srv/site", (), None),
        ("/etc", "/etc/php.d", "/etc", ("-n",), None),
    ],
)
def test_phps_own_files_are_those_that_its_program_names_where_its_configuration_is_beside_them(
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    beside: str,
    main: str,
    options: tuple[str, ...],
    known: list[str] | None,
) -> None:
    """An edit of php.ini came into force with the first trial, without a word, but for Debian's."""
    asked = list[list[str]]()

    def ask(argv: list[str], environ: dict[str, str]) -> CompletedProcess[str]:
        asked.append(argv)
        return CompletedProcess(argv, 0, SAYS.format(home=home, beside=beside), "")

    monkeypatch.setattr(program, "ask", ask)
    monkeypatch.setattr(program, "require_trusted", lambda path: None)
    program._own_files.cache_clear()
    found = Program(Path("/usr/sbin/php-fpm"), Path(main, "php-fpm.conf"), options)
    named = [f"{home}/{name}" for name in ("php.ini", "php-fpm-fcgi.ini")]
    assert [*map(str, found.ini)] == [*map(str, found.ini)] == ([] if known is None else [*named, *known])
    assert len(asked) == (not options), "once, and not with an option that hides others"
    program._own_files.cache_clear()


@pytest.mark.parametrize(
    ("options", "known"), [(("-n", "-c", "/etc/own.ini"), "/etc/own.ini"), (("--php-ini", "/etc"), "/etc/php.ini")]
)
def test_an_option_names_phps_own_file(options: tuple[str, ...], known: str) -> None:
    assert Program(Path("/usr/sbin/php-fpm"), Path("/srv/php-fpm.conf"), options).ini == (Path(known),)


def test_where_a_program_does_not_answer_nothing_is_known_of_phps_own_files(tmp_path: Path) -> None:
    assert Program(tmp_path / "php-fpm", tmp_path / "php-fpm.conf").ini == ()


def test_a_file_of_phps_own_that_changes_comes_or_goes_is_an_edit(main: Path) -> None:
    ini, more = main.parent / "php.ini", main.parent / "conf.d" / "20-gd.ini"
    more.parent.mkdir()

    def now() -> Configuration:
        return read(main, ini=(ini, more.parent / "*.ini"))

    assert {ini, more.parent} <= now().stamps.keys(), "one may come"
    loaded = now()
    (ini.parent / "resolv.conf").touch()
    assert loaded.changed() == [], "what else does is of no matter"
    edits = ((ini, "memory_limit = 64M\n"), (more, "extension=gd\n"), (more, "extension=gd.so\n"), (more, None))
    for path, text in edits:
        loaded = now()
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        assert edited(loaded.says(None), now().says(None)) == path
    loaded = now()
    assert loaded.pools() == ["www"]
    (more.parent / ".20-gd.ini.swp").write_text("an editor's")
    assert edited(loaded.says(None), now().says(None)) is None


def test_beside_files_of_phps_own_there_is_a_place_for_ours(main: Path) -> None:
    (main.parent / "php.ini").write_text("memory_limit = 64M\n")
    fpm = Program(Path("/x"), main, ("-c", str(main.parent)))
    found = read(main, fpm.prefix, ini=fpm.ini)
    where = snippet.location(fpm, found, "www", values(found), None)
    assert where == main.parent / "pool.d" / "zz-trimtab-www.conf"
