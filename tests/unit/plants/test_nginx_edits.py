"""Texts of nginx's files, edited and put back: to the byte, and around what the operator has edited meanwhile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from trimtab import trust
from trimtab.plants._change import Texts
from trimtab.plants.nginx import edits, undo
from trimtab.plants.nginx.configuration import COMMAND_LINE, Configuration
from trimtab.plants.nginx.ledger import Ledger
from trimtab.plants.nginx.locations import Location, Nowhere, chosen, locations
from trimtab.plants.nginx.syntax import directives

LINES = (
    "user www-data;",
    "worker_processes 'auto'; # auto",
    "events { worker_connections 768; }",
    "http { gzip on; }",
)
TEXT = "".join(f"{line}\r\n" for line in LINES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nginx.conf"
    path.write_text(TEXT, newline="")
    return path


def read(path: Path, patterns: dict[Path, tuple[str, ...]] | None = None) -> Configuration:
    text = path.read_bytes().decode()
    return Configuration(directives(text, path), {path: text}, list((patterns or {}).items()))


def edited(path: Path, **values: int) -> str:
    """Writes the file with these values, and what is kept beside it; what the file holds then."""
    config = read(path)
    texts = edits.written(config, chosen(locations(config, True)), values, {})
    assert list(texts) == [edits.beside(path), path], "what is kept is written first"
    written(texts)
    return path.read_bytes().decode()


def written(texts: Texts) -> Texts:
    """Writes these texts, which it returns."""
    for path, text in texts.items():
        if text is None:
            path.unlink()
        else:
            path.write_text(text, newline="")
    return texts


def test_only_the_word_changes_and_it_is_put_back_to_the_byte(file: Path) -> None:
    text = edited(file, worker_processes=4, worker_connections=512)
    assert text == TEXT.replace("'auto';", "4;").replace("768", "512")
    assert edits.leftovers(read(file)) == {file: TEXT, edits.beside(file): None}


def test_a_second_edit_knows_what_was_before_the_first(file: Path) -> None:
    edited(file, worker_processes=4)
    edited(file, worker_processes=5, worker_connections=600)
    assert edits.leftovers(read(file))[file] == TEXT


def test_what_a_kill_just_before_an_edit_has_left_beside_a_file_is_nobody_elses_link_to_it(file: Path) -> None:
    """The knobs that are set there were left out, so that an undo said nothing of them."""
    before = chosen(locations(read(file), True)).keys()
    os.link(file, edits.original(file))
    assert chosen(locations(read(file), True)).keys() == before
    os.link(file, file.with_name("theirs.conf"))
    assert chosen(locations(read(file), True)).keys() < before


def test_a_file_that_is_mounted_by_itself_is_not_edited_as_no_other_can_take_its_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker run -v ./nginx.conf:/etc/nginx/nginx.conf`: each trial failed with "Device or resource busy"."""
    table = file.with_name("mountinfo")
    monkeypatch.setattr(trust, "_MOUNTS", table)
    for point in (file.parent, file):
        table.write_text(f"25 1 0:29 / / rw - overlay o rw\n36 25 0:31 /conf {point} ro - ext4 /dev/sda1 rw\n")
        found = locations(read(file), True)
        assert ("worker_processes" in chosen(found)) is (point != file)
    assert isinstance(why := found["worker_processes"], Nowhere) and "mounted there by itself" in why.why


def test_a_kill_between_the_two_files_of_an_edit_leaves_none_of_the_one_before_it(file: Path) -> None:
    """What stood in the file was then known to nobody, and stayed as the operator's own."""
    before = edited(file, worker_processes=4, worker_connections=512)
    edited(file, worker_processes=5)
    file.write_text(before, newline="")
    assert edits.leftovers(read(file))[file] == TEXT


@pytest.mark.parametrize("earlier", [{}, {"worker_processes": 4}])
def test_so_does_the_undo_script(file: Path, earlier: dict[str, int]) -> None:
    """It took the file for edited by somebody, and left it as it was."""
    before = edited(file, **earlier) if earlier else TEXT
    edited(file, worker_processes=5)
    file.write_text(before, newline="")
    script = undo._operators(file, before, chosen(locations(read(file), True)))
    subprocess.run(["sh", "-ec", script], check=True)
    assert file.read_bytes().decode() == TEXT and not edits.beside(file).exists()


def test_what_is_kept_of_a_file_goes_after_it_and_comes_before_it(file: Path) -> None:
    """So a kill between the two leaves no edit that nothing tells of."""
    config = read(file)
    ledger = Ledger.of(config, chosen(locations(config, True)))
    texts = edits.written(config, ledger.locations, {"worker_processes": 4}, {})
    first = ledger.first(texts)
    ledger.took({"worker_processes": 4}, written(texts), first)
    trial = edits.present(ledger.written)
    assert list(ledger.earlier({})[0]) == [file, edits.beside(file)]
    ledger.took({}, written(ledger.original()[0]), {})
    assert list(ledger.earlier(trial)[0]) == [edits.beside(file), file]


@pytest.mark.parametrize(
    ("was", "becomes", "back"),
    [
        ("gzip on;", "gzip off;", TEXT.replace("gzip on;", "gzip off;")),
        ("worker_processes 4;", "worker_processes 2;", TEXT.replace("'auto'", "2")),
        ("worker_processes 4; # auto", "# nothing", TEXT.replace("worker_processes 'auto'; # auto", "# nothing")),
    ],
)
def test_what_the_operator_edits_stays_and_ours_goes(file: Path, was: str, becomes: str, back: str) -> None:
    text = edited(file, worker_processes=4, worker_connections=512)
    assert was in text
    file.write_text(text.replace(was, becomes), newline="")
    assert edits.leftovers(read(file))[file] == back
    # And a run that goes on after it keeps to the same.
    assert edits.taken_back(file, text.replace(was, becomes), TEXT, text) == back


def test_an_edit_after_the_operators_goes_back_to_the_operators(file: Path) -> None:
    text = edited(file, worker_processes=4)
    file.write_text(text.replace("gzip on;", "gzip off;"), newline="")
    edited(file, worker_processes=5)
    assert edits.leftovers(read(file))[file] == TEXT.replace("gzip on;", "gzip off;")


def test_what_somebody_else_wrote_beside_a_file_is_not_taken_for_ours(file: Path) -> None:
    edits.beside(file).write_text("# mine\n")
    assert edits.leftovers(read(file)) == {}


def test_nothing_is_edited_until_the_operator_allows_it(file: Path) -> None:
    found = locations(read(file), False)
    assert chosen(found) == {}
    one = found["worker_processes"]
    assert isinstance(one, Nowhere)
    assert f"{file}:2" in one.why and "--edit-in-place" in one.enable


def test_what_nobody_sets_goes_into_a_directory_that_is_included_in_that_very_context(file: Path) -> None:
    main, http, both = (file.parent / name for name in ("main.d", "http.d", "both.d"))
    for directory in (main, http, both):
        directory.mkdir()
    file.write_text("events {} http {}")
    patterns = [(main / "*.conf", ()), (http / "*.conf", ("http",)), (both / "*.conf", ()), (both / "*", ("http",))]
    config = read(file)
    config.patterns = patterns
    found = locations(config, False)
    assert found["worker_processes"] == Location(main / "zz-trimtab.conf", None)
    assert found["keepalive_timeout_ms"] == Location(http / "zz-trimtab.conf", None)
    connections = found["worker_connections"]
    assert isinstance(connections, Nowhere)
    assert "in its events {}" in connections.why and "trimtab.d/*.conf" in connections.enable


def test_what_is_given_on_the_command_line_cannot_be_moved(file: Path) -> None:
    config = read(file)
    config.directives = [*directives("worker_processes 3;", COMMAND_LINE), *directives("events {}", file)]
    one = locations(config, True)["worker_processes"]
    assert isinstance(one, Nowhere)
    assert "(-g)" in one.why and "worker_processes 3;" in one.enable


def test_a_link_is_not_edited(file: Path) -> None:
    link = file.with_name("link.conf")
    link.symlink_to(file)
    assert chosen(locations(read(link), True)) == {}
