"""Squid's configuration as Squid reads it: the order of files, conditions, what replaces what, sizes, our file."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests._stranger import STRANGER, needs_root
from trimtab.core.memory import Room
from trimtab.errors import UsageError
from trimtab.files import read_text
from trimtab.plants import _included_files
from trimtab.plants.squid import knobs, process, snippet
from trimtab.plants.squid.attached import Attached
from trimtab.plants.squid.configuration import read
from trimtab.plants.squid.plant import Squid
from trimtab.plants.squid.program import Program, built_in, built_with
from trimtab.plants.squid.reload import _anew

DEBIAN = {
    "cache_mem": 256,
    "maximum_object_size_in_memory": 512,
    "minimum_object_size": 0,
    "maximum_object_size": 4096,
    "cache_swap_low": 90,
    "cache_swap_high": 95,
    "store_objects_per_bucket": 20,
    "memory_replacement_policy": 0,
}


@pytest.fixture
def main(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "debian.conf").write_text("logfile_rotate 0\n")
    path = tmp_path / "squid.conf"
    path.write_text(f"# cache_mem 1 MB\ninclude {tmp_path}/conf.d/*.conf\nhttp_port 3128\n")
    return path


def values(main: Path, text: str) -> dict[str, int]:
    """The knobs where a file among the included ones holds this text."""
    (main.parent / "conf.d" / "mine.conf").write_text(text)
    return {name: value for name, value in knobs.values(read(main, "squid")).items() if value != DEBIAN[name]}


def location(main: Path, chosen: Path | None = None) -> Path:
    found = read(main, "squid")
    return snippet.location(Program(Path("/usr/sbin/squid"), main, "squid"), found, knobs.values(found), chosen)


def test_what_no_file_can_be_called_in_an_acl_is_no_list_of_it(main: Path) -> None:
    """Nor is one that may not be looked at, which is an error of the same kind."""
    assert values(main, f'acl long browser "/{"x" * 300}"\nacl one src "{main.parent}/missing"\n') == {}


def test_an_edit_while_it_is_read_makes_it_read_again(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that is included twice, by its second reading; and of a directory."""
    both = main.parent / "conf.d" / "mine.conf"

    def edited(fd: int, path: Path) -> str:
        text = read_text(fd, path)
        if text == "cache_mem 8 MB\n":
            both.write_text("cache_mem 64 MB\n")
            (both.parent / "more.conf").touch()
        return text

    main.write_text(f"include {both.parent}/*.conf\ninclude {both.parent}/*.conf\n")
    both.write_text("cache_mem 8 MB\n")
    with monkeypatch.context() as patch:
        patch.setattr(_included_files, "read_text", edited)
        found = read(main, "squid")
    assert {both, both.parent} <= {*found.changed()} and not read(main, "squid").changed()


def test_where_nothing_is_set_it_is_what_debian_ships(main: Path) -> None:
    assert values(main, "") == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cache_mem 8 MB", {"cache_mem": 8}),
        ("  cache_mem\t8 mb   # as in 2004", {"cache_mem": 8}),
        ("cache_mem 0.5 GB", {"cache_mem": 512}),
        ("cache_mem 8388608", {"cache_mem": 8}),
        ("cache_mem 8388608 bytes", {"cache_mem": 8}),
        ("cache_mem \\\n  8 MB", {"cache_mem": 8}),
        ("cache_mem 8 MB\ncache_mem 9 MB", {"cache_mem": 9}),
        ("if false\ncache_mem 8 MB\nelse\ncache_mem 9 MB\nendif", {"cache_mem": 9}),
        ("if ${process_number} = 1\ncache_mem 8 MB\nendif", {"cache_mem": 8}),
        ("if true\nif false\ncache_mem 8 MB\nendif\ncache_mem 9 MB\nendif", {"cache_mem": 9}),
        ("cache_memory 8 MB\n#cache_mem 8 MB", {}),
        ("minimum_object_size 0", {}),
        ("memory_replacement_policy heap  GDSF", {"memory_replacement_policy": 1}),
        ("memory_replacement_policy heap", {"memory_replacement_policy": 3}),
        ("store_objects_per_bucket 15", {"store_objects_per_bucket": 15}),
        ("cache_swap_low 85\ncache_swap_high 87", {"cache_swap_low": 85, "cache_swap_high": 87}),
    ],
)
def test_a_line_sets_what_squid_makes_of_it(main: Path, text: str, found: dict[str, int]) -> None:
    assert values(main, f"{text}\n") == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cache_mem much", "is not a size"),
        ("cache_mem -8 MB", "is not a size"),
        ("cache_mem 8 bytes", "in whole MB"),
        ("cache_swap_low 101", "is not a percentage"),
        ("memory_replacement_policy random", "is none of lru, heap GDSF"),
        ("store_objects_per_bucket many", "is not a number"),
        ("if 1 < 2\nendif", "cannot be understood"),
        ("include conf.d/other.conf", "not an absolute path"),
        ('include "/etc/squid/other.conf', "no closing quotation"),
    ],
)
def test_what_cannot_be_understood_is_refused(main: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        values(main, f"{text}\n")


def test_an_apostrophe_in_an_include_is_a_letter_and_quotes_hold_a_name_together(main: Path) -> None:
    for name, text in (("bob's.conf", "cache_mem 8 MB\n"), ("a b.conf", "cache_swap_low 80\n")):
        (main.parent / name).write_text(text)
    found = values(main, f'include {main.parent}/bob\'s.conf "{main.parent}/a b.conf"\n')
    assert found == {"cache_mem": 8, "cache_swap_low": 80}


def test_what_is_written_is_read_back(main: Path) -> None:
    wanted = {name: value + 2 for name, value in DEBIAN.items()}
    assert {**DEBIAN, **values(main, snippet.compose(wanted, None))} == wanted


def test_a_file_that_includes_itself_is_refused(main: Path) -> None:
    main.write_text(f"include {main}\n")
    with pytest.raises(UsageError, match="includes itself"):
        read(main, "squid")


def test_our_place_is_the_directory_that_is_included_last(main: Path) -> None:
    other = main.parent / "other.d"
    other.mkdir()
    (other / "some.conf").write_text("")
    assert location(main) == main.parent / "conf.d" / "zz-trimtab.conf"
    main.write_text(main.read_text() + f"include {other}/*.conf\n")
    assert location(main) == other / "zz-trimtab.conf"
    assert location(main, main.parent / "conf.d") == main.parent / "conf.d" / "zz-trimtab.conf"


def test_where_another_has_the_last_word_there_is_no_place_and_it_is_named(main: Path) -> None:
    main.write_text(main.read_text() + "cache_mem 4 MB\n")
    with pytest.raises(UsageError, match=rf"cache_mem in {main} line 4 would have the last word"):
        location(main)


@needs_root
def test_a_strangers_directory_that_wildcards_name_is_refused_and_roots_own_are_read(main: Path) -> None:
    ours, his = (main.parent / "sites" / name for name in ("ours", "his"))
    for directory in (ours, his):
        directory.mkdir(parents=True)
    (ours / "squid.conf").write_text("cache_mem 8 MB\n")
    main.write_text(main.read_text() + f"include {main.parent}/sites/*/squid.conf\n")
    assert values(main, "") == {"cache_mem": 8}
    os.chown(his, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=f"{his} belongs to uid {STRANGER}"):
        read(main, "squid")


@pytest.mark.parametrize(
    ("argv", "letter", "value"),
    [
        (("squid", "--foreground", "-sYC"), "f", ""),
        (("squid", "-f", "/a.conf", "-YC"), "f", "/a.conf"),
        (("squid", "-sYCf", "/a.conf"), "f", "/a.conf"),
        (("squid", "-f/a.conf"), "f", "/a.conf"),
        (("squid", "-d", "1", "-n", "two", "-f", "/a"), "n", "two"),
        (("squid", "-n", "-f", "/a"), "f", ""),
        (("squid", "-mf", "/a"), "f", ""),
        (("squid", "-f", "/a", "-f", "/b"), "f", "/b"),
    ],
)
def test_an_option_is_found_as_getopt_finds_it(argv: tuple[str, ...], letter: str, value: str) -> None:
    assert process.option(argv, letter) == value


@pytest.mark.parametrize(
    ("words", "alone"), [(("-NYC",), True), (("-f", "/N", "-sN"), True), (("--foreground", "-sYC", "-n", "N"), False)]
)
def test_one_that_serves_in_its_first_process_is_told_how_to_start_and_not_to_have_fewer(
    words: tuple[str, ...], alone: bool
) -> None:
    """As in `docker run ubuntu/squid`: it was to have one worker, and no rock."""
    squid = process.SquidMaster(os.getpid(), 1, Path("/no/squid"), ("squid", *words), 0)
    with pytest.raises(UsageError, match=r"in its first process \(-N\)" if alone else "has 0 processes below it"):
        squid.worker()


def test_a_knob_keeps_a_value_that_is_not_on_the_papers_grid() -> None:
    now = {**DEBIAN, "maximum_object_size": 4100, "maximum_object_size_in_memory": 513, "cache_mem": 300}
    there = {knob.name: knob.domain for knob in knobs.knobs(now, [Room("group x", 200 << 20)], True)}
    assert all(value in there[name] for name, value in now.items())
    assert 4100 + 256 in there["maximum_object_size"] and 4097 not in there["maximum_object_size"]


def test_what_an_earlier_run_has_kept_in_our_file_is_known_but_for_what_has_another_last_word(main: Path) -> None:
    ours = location(main)
    ours.write_text(snippet.compose({"cache_mem": 300, "cache_swap_low": 80}, None))
    main.write_text(main.read_text() + "cache_swap_low 85\n")
    plant: Any = object.__new__(Squid)
    plant._server = SimpleNamespace(loaded=read(main, "squid"), in_force=DEBIAN, section="")
    assert list(plant.kept(ours)) == ["cache_mem"]


@pytest.mark.parametrize("name", ["cache_mem", "maximum_object_size", "maximum_object_size_in_memory"])
def test_a_cache_that_the_operator_has_switched_off_can_be_put_back_so(name: str) -> None:
    found = knobs.knobs({**DEBIAN, name: 0}, [Room("group x", 1 << 30)], True)
    assert 0 in next(knob.domain for knob in found if knob.name == name)


@pytest.mark.parametrize(
    ("name", "default", "best"),
    [
        ("cache_mem", 8, (13, 17, 21)),
        ("cache_swap_low", 90, (91, 86, 91)),
        ("cache_swap_high", 95, (96, 96, 96)),
        ("maximum_object_size", 4096, (4096, 4096, 5888)),
        ("minimum_object_size", 0, (0, 50, 306)),
        ("maximum_object_size_in_memory", 8, (6, 256, 2560)),
        ("store_objects_per_bucket", 20, (15, 25, 105)),
    ],
)
def test_the_best_values_of_the_papers_table_can_be_reached_from_its_defaults(
    name: str, default: int, best: tuple[int, ...]
) -> None:
    """Table 3 of Chung and Hollingsworth, 2004, browsing, shopping and ordering."""
    (domain,) = (
        one.domain
        for one in knobs.knobs({**DEBIAN, name: default}, [Room("group x", 1 << 30)], True)
        if one.name == name
    )
    assert all(value in domain for value in best)


@pytest.mark.parametrize(
    ("said", "policies"),
    [
        ("configure options:  '--prefix=/usr' '--enable-removal-policies=lru,heap' 'CC=gcc'", {"lru", "heap"}),
        ("configure options:  '--prefix=/usr'", {"lru"}),
    ],
)
def test_no_policy_is_tried_that_this_squid_was_not_built_with_as_its_worker_would_not_start(
    said: str, policies: set[str]
) -> None:
    assert built_with(said) == policies
    found = knobs.knobs(DEBIAN, [Room("group x", 1 << 30)], True, False, built_with(said))
    names = {knob.name for knob in found}
    assert ("memory_replacement_policy" in names) == ("heap" in policies)
    assert "store_objects_per_bucket" in names


class Listening:
    """A master whose worker listens here."""

    def __init__(self, ports: dict[str, tuple[str, int]]) -> None:
        self._ports = ports

    def check(self) -> None:
        pass

    def worker(self) -> int:
        return 7

    def ports(self) -> dict[str, tuple[str, int]]:
        return self._ports


OLD, NEW = {"11": ("127.0.0.1", 3128)}, {"12": ("127.0.0.1", 3128)}


@pytest.mark.parametrize(
    ("before", "now", "anew"), [(OLD, NEW, True), (OLD, OLD, False), (OLD, {}, False), ({}, {}, False)]
)
def test_a_squid_listens_anew_at_other_sockets_and_not_at_none(
    before: dict[str, tuple[str, int]], now: dict[str, tuple[str, int]], anew: bool
) -> None:
    master: Any = Listening(now)
    assert _anew(master, 7, before) is anew


def test_a_value_that_is_none_of_ours_ends_no_run_when_the_operator_reloads(
    main: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attached, "read", Attached.parsed)
    monkeypatch.setattr("trimtab.plants.squid.attached.rooms", lambda pid: ())
    squid: Any = object.__new__(Attached)
    squid.master, squid.program = Listening(OLD), Program(Path("/usr/sbin/squid"), main, "squid")
    squid.loaded, squid.in_force, squid._worker, squid._sockets = squid.parsed(), dict(DEBIAN), 7, OLD
    (main.parent / "conf.d" / "his.conf").write_text("minimum_object_size 512 bytes\ncache_mem 64 MB\n")
    squid.master = Listening(NEW)
    squid.refresh()
    assert squid.in_force == {**DEBIAN, "cache_mem": 64}, "the others are as he has set them"


@pytest.mark.parametrize(
    ("lines", "tunnels"),
    [
        ("http_port 80 accel defaultsite=shop\nhttps_port 443 accel tls-cert=x\n", False),
        ("http_port 80 accel\nhttp_upgrade_request_protocols WebSocket allow all\n", True),
        ("http_port 80 accel\nhttp_port 3128\n", True),
        ("http_port 3128 worker-queues\n", True),
    ],
)
def test_a_squid_that_is_no_accelerator_alone_may_make_tunnels(lines: str, tunnels: bool, main: Path) -> None:
    main.write_text(lines)
    assert read(main, "squid").tunnels() == tunnels


@pytest.mark.parametrize(
    ("options", "main"),
    [
        ("'--prefix=/usr' '--sysconfdir=/etc' 'CC=gcc' '--sysconfdir=/etc/squid'", "/etc/squid/squid.conf"),
        ("'--prefix=/opt/squid' '--enable-ssl-crtd'", "/opt/squid/etc/squid.conf"),
        ("'--prefix=/opt' '--exec-prefix=/x' '--sysconfdir=${prefix}/etc/squid'", "/opt/etc/squid/squid.conf"),
        ("", "/usr/local/squid/etc/squid.conf"),
    ],
)
def test_a_squid_that_names_no_file_reads_its_builds_own(options: str, main: str) -> None:
    """Debian's was taken for that of one built by hand, so that its changes went where nobody reads them."""
    assert built_in(f"Squid Cache: Version 6.9\nService Name: squid\n\nconfigure options:  {options}\n") == Path(main)
