"""Reading Apache's configuration as Apache does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.files import read_text
from trimtab.plants.apache import configuration
from trimtab.plants.apache.configuration import Configuration, Origin, evaluate
from trimtab.plants.apache.syntax import lines, version_holds, words

Read = Callable[..., Configuration]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Evaluates a main file, with others beside it."""

    def evaluated(main: str, files: dict[str, str] | None = None, **origin: object) -> Configuration:
        for name, text in {"main.conf": main, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return evaluate(Origin(tmp_path / "main.conf", tmp_path, **origin))  # type: ignore[arg-type]

    return evaluated


def values(configuration: Configuration, name: str) -> list[str]:
    return [d.args[0] for d in configuration.named(name)]


def test_a_continued_line_is_one_line_with_the_number_of_its_start() -> None:
    assert list(lines("a\n  Listen \\\n   80  \n# b \\\n c\nd")) == [(1, "a"), (2, "Listen    80"), (6, "d")]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x0c", "\x1e"])
def test_what_python_takes_for_the_end_of_a_line_ends_no_comment(mark: str) -> None:
    """Pasted from a page, what followed in the comment was read as a directive."""
    assert list(lines(f"# as it was:{mark}MaxRequestWorkers 5\nKeepAlive On\n")) == [(2, "KeepAlive On")]


def test_a_continued_comment_hides_the_next_line() -> None:
    assert list(lines("# off: \\\nKeepAlive Off\nKeepAlive On")) == [(3, "KeepAlive On")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", ("a", "b")),
        ('"a b" c', ("a b", "c")),
        ("'a \"b' c", ('a "b', "c")),
        (r'"say \"x\"" y', ('say "x"', "y")),
        ("", ()),
    ],
)
def test_words_are_split_outside_of_quotes(text: str, expected: tuple[str, ...]) -> None:
    assert words(text) == expected


def test_directives_are_found_in_any_case_and_with_tabs(read: Read) -> None:
    assert values(read("maxREQUESTworkers\t150\n"), "maxrequestworkers") == ["150"]
    found = read("<IfModule\tprefork.c>\n\tMaxRequestWorkers\t150\n</IfModule>\n", static_modules={"prefork.c"})
    assert [(d.args, d.context) for d in found.named("maxrequestworkers")] == [(("150",), ())]
    assert read("<IfModule\tworker.c>\nMaxRequestWorkers 7\n</IfModule>\n").named("maxrequestworkers") == []


def test_an_include_is_read_in_place_and_its_files_in_order_of_name(read: Read) -> None:
    found = read(
        "Listen 1\nInclude conf.d/*.conf\nListen 4",
        {"conf.d/b.conf": "Listen 3", "conf.d/a.conf": "Listen 2", "conf.d/c.txt": "Listen 9"},
    )
    assert values(found, "listen") == ["1", "2", "3", "4"]
    assert [f.name for f in found.files] == ["main.conf", "a.conf", "b.conf"]


def test_a_pattern_may_stand_for_directories_too(read: Read) -> None:
    found = read("IncludeOptional sites/*/x.conf", {"sites/b/x.conf": "Listen 2", "sites/a/x.conf": "Listen 1"})
    assert values(found, "listen") == ["1", "2"]


def test_an_included_directory_is_read_with_all_below_it(read: Read) -> None:
    found = read("Include d", {"d/z": "Listen 2", "d/a/b": "Listen 1"})
    assert values(found, "listen") == ["1", "2"]


def test_hidden_files_match_no_wildcard(read: Read) -> None:
    assert values(read("Include d/*", {"d/.zz": "Listen 1"}), "listen") == []


def test_ifmodule_knows_modules_that_were_loaded_before_by_both_names(read: Read) -> None:
    found = read(
        "<IfModule status_module>\nListen 1\n</IfModule>\n"
        "LoadModule status_module modules/mod_status.so\n"
        "<IfModule mod_status.c>\nListen 2\n<IfModule !mpm_event_module>\nListen 3\n</IfModule>\n</IfModule>\n"
        "<IFMODULE so_module>\nListen 4\n</IFMODULE>\n<IfModule prefork.c>\nListen 5\n</IfModule>\n",
        static_modules=frozenset({"mod_so.c", "prefork.c"}),
    )
    assert values(found, "listen") == ["2", "3", "4", "5"]


def test_a_condition_that_fails_hides_all_within_it(read: Read) -> None:
    found = read("<IfDefine A>\n<IfDefine !B>\nListen 1\n</IfDefine>\nListen 2\n</IfDefine>\nListen 3")
    assert values(found, "listen") == ["3"]


def test_what_perl_says_in_a_section_of_its_own_is_no_directive(read: Read, tmp_path: Path) -> None:
    """Debian's Request Tracker has `use Plack::Handler::Apache2;` in one, which looked like mod_macro's Use."""
    found = read(
        "Listen 1\n<IfDefine A>\n<Perl>\n<$in>;\n</Perl>\nListen 2\n</IfDefine>\n"
        "<Perl>\n  use A;\nmy $first =\n<$in>;\nListen 3\n</perl>\nListen 4"
    )
    assert values(found, "listen") == ["1", "4"] and found.directives[-1].context == ()
    assert [said.rpartition("/")[2] for said in found.uncertain] == ["main.conf:8"]


def test_variables_come_from_define_from_options_and_from_the_environment(read: Read) -> None:
    found = read(
        'Define PORT 81\nListen ${PORT}\nListen ${OUTER}\n<IfDefine FLAG>\nListen "${NONE}"\n</IfDefine>',
        defines=frozenset({"FLAG"}),
        environ={"OUTER": "82"},
    )
    assert values(found, "listen") == ["81", "82", "${NONE}"]


def test_sections_are_the_context_and_conditions_are_not(read: Read) -> None:
    found = read(
        "<VirtualHost *:80>\n<IfModule !x.c>\nKeepAliveTimeout 3\n</IfModule>\n</VirtualHost>\nKeepAliveTimeout 4"
    )
    assert [d.context for d in found.named("keepalivetimeout")] == [(("virtualhost", "*:80"),), ()]


def test_serverroot_moves_later_includes(read: Read, tmp_path: Path) -> None:
    found = read(f"ServerRoot {tmp_path}/other\nInclude x.conf", {"other/x.conf": "Listen 7"})
    assert values(found, "listen") == ["7"]


def test_options_come_before_and_after_the_files(read: Read) -> None:
    found = read("Listen 2", before=("Listen 1",), after=("Listen 3",))
    assert values(found, "listen") == ["1", "2", "3"]


def test_endless_includes_are_refused(read: Read) -> None:
    with pytest.raises(UsageError, match="more than 128 levels"):
        read("Include main.conf")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.conf"):
        evaluate(Origin(tmp_path / "none.conf", tmp_path))


def test_what_cannot_be_decided_is_said(read: Read) -> None:
    assert "ifdirective" in read("<IfDirective Foo>\nListen 1\n</IfDirective>").uncertain[0]


def test_an_imagined_file_is_read_as_if_it_were_there(read: Read, tmp_path: Path) -> None:
    read("IncludeOptional d/*.conf", {"d/a.conf": "Listen 1"})
    origin = Origin(tmp_path / "main.conf", tmp_path)
    there = evaluate(origin, {tmp_path / "d" / "b.conf": "Listen 2"})
    gone = evaluate(origin, {tmp_path / "d" / "a.conf": None})
    assert values(there, "listen") == ["1", "2"]
    assert values(gone, "listen") == []


def test_a_change_of_a_file_and_a_new_file_in_a_directory_are_noticed(read: Read, tmp_path: Path) -> None:
    found = read("IncludeOptional d/*.conf", {"d/a.conf": "Listen 1"})
    assert found.unchanged()
    (tmp_path / "d" / "b.conf").write_text("Listen 2")
    assert not found.unchanged()
    found = evaluate(Origin(tmp_path / "main.conf", tmp_path))
    (tmp_path / "d" / "a.conf").write_text("Listen 33")
    assert not found.unchanged()


def test_an_edit_while_it_is_read_makes_it_read_again(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stamp of after that, the text before passed for what is on disk until the next edit."""

    def edited(fd: int, path: Path) -> str:
        text = read_text(fd, path)
        if path.name == "a.conf":
            path.write_text("Listen 22")
        return text

    with monkeypatch.context() as patch:
        patch.setattr(configuration, "read_text", edited)
        found = read("Include a.conf", {"a.conf": "Listen 1"})
    assert values(found, "listen") == ["1"] and not found.unchanged()


def test_a_file_that_comes_or_goes_of_which_iffile_asks_makes_it_read_again(read: Read, tmp_path: Path) -> None:
    text, flag = "<IfFile flag>\nListen 1\n</IfFile>\n<IfFile !flag>\nListen 2\n</IfFile>", tmp_path / "flag"
    found = read(text)
    assert values(found, "listen") == ["2"] and found.unchanged()
    flag.write_text("")
    assert not found.unchanged()
    found = read(text)
    assert values(found, "listen") == ["1"] and found.unchanged()
    flag.write_text("what it says is of no matter")
    assert found.unchanged() and flag not in found.read()


@pytest.mark.parametrize(
    ("argument", "holds"),
    [
        (">= 2.4.10", True),
        ("< 2.4", False),
        ("2.4.57", True),
        ("!= 2.4.57", False),
        ("~ ^2.4", True),
        ("= 2.2", False),
    ],
)
def test_ifversion_compares_numbers(argument: str, holds: bool) -> None:
    assert version_holds(argument, (2, 4, 57)) is holds


@pytest.mark.parametrize("directive", ["Include", "IncludeOptional", "LoadFile", "LoadModule env_module"])
def test_what_others_can_change_is_not_read_nor_left_to_apache_to_load(tmp_path: Path, directive: str) -> None:
    main, more = tmp_path / "main.conf", tmp_path / "more.conf"
    main.write_text(f"{directive} {more}\n")
    more.write_text("Timeout 5\n")
    evaluate(Origin(main, tmp_path))
    more.chmod(0o666)
    with pytest.raises(UsageError, match=f"{more} can be written by everybody: chmod o-w"):
        evaluate(Origin(main, tmp_path))


def test_a_directory_in_which_others_could_put_a_file_is_refused_while_it_is_empty(tmp_path: Path) -> None:
    main, directory = tmp_path / "main.conf", tmp_path / "conf.d"
    directory.mkdir()
    main.write_text(f"IncludeOptional {directory}/*.conf\n")
    evaluate(Origin(main, tmp_path))
    directory.chmod(0o1777)
    with pytest.raises(UsageError, match=f"{directory} can be written by everybody"):
        evaluate(Origin(main, tmp_path))
    main.write_text(f"IncludeOptional {directory}/one.conf\n")
    with pytest.raises(UsageError, match="others can make it"):
        evaluate(Origin(main, tmp_path))


def test_a_file_that_never_ends_is_not_read(tmp_path: Path) -> None:
    main, fifo = tmp_path / "main.conf", tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    main.write_text(f"Include {fifo}\n")
    with pytest.raises(UsageError, match="not a regular file"):
        evaluate(Origin(main, tmp_path))


def test_the_variables_that_it_takes_from_the_environment_are_told(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("Define SET 1\nTimeout ${SET}${GIVEN}${NONE}\n")
    assert evaluate(Origin(main, tmp_path, environ={"GIVEN": "2", "SET": "3"})).variables == {"GIVEN"}


def test_a_change_of_mode_alone_makes_it_read_again(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("Timeout 5\n")
    found = evaluate(Origin(main, tmp_path))
    assert found.unchanged()
    main.chmod(0o600)
    assert not found.unchanged()
