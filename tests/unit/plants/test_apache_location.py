"""Where trimtab's own file goes, and how an operator's hand is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.plants.apache.configuration import Origin, evaluate
from trimtab.plants.apache.snippet import compose, edits, kept, location, settings

IN_FORCE = {"max_request_workers": 150, "keep_alive_timeout_ms": 5000}


def origin(tmp_path: Path, main: str, **files: str) -> Origin:
    (tmp_path / "main.conf").write_text(main)
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Origin(tmp_path / "main.conf", tmp_path, static_modules=frozenset({"prefork.c"}))


def where(start: Origin, chosen: Path | None = None) -> Path:
    return location(start, evaluate(start), chosen, IN_FORCE)


DEBIAN = (
    "KeepAliveTimeout 5\nIncludeOptional mods/*.load\nIncludeOptional mods/*.conf\n"
    "IncludeOptional conf/*.conf\nIncludeOptional sites/*.conf\n"
)


def test_on_debians_layout_it_goes_after_the_modules_and_not_among_the_sites(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__mpm_conf="MaxRequestWorkers 150", conf__a_conf="", sites__a_conf="")
    assert where(start) == tmp_path / "conf" / "zz-trimtab.conf"


def test_where_it_would_be_overridden_another_directory_is_taken(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__mpm_conf="", conf__a_conf="", sites__a_conf="KeepAliveTimeout 9")
    assert where(start) == tmp_path / "sites" / "zz-trimtab.conf"


def test_where_it_would_be_overridden_everywhere_the_line_to_blame_is_named(tmp_path: Path) -> None:
    start = origin(tmp_path, "Include conf/*.conf\nMaxRequestWorkers 10", conf__a_conf="")
    with pytest.raises(UsageError, match=r"overridden by maxrequestworkers in .*main\.conf:2.*IncludeOptional"):
        where(start)


def test_a_file_that_sorts_later_overrides_too(tmp_path: Path) -> None:
    start = origin(tmp_path, "Include conf/*.conf", conf__zzz_conf="MaxRequestWorkers 10")
    with pytest.raises(UsageError, match=r"zzz\.conf:1"):
        where(start)


def test_what_an_earlier_run_has_kept_in_our_file_is_known_but_for_what_has_another_last_word(tmp_path: Path) -> None:
    start = origin(tmp_path, "Include conf/*.conf", conf__a_conf="KeepAliveTimeout 9")
    ours = where(start)
    ours.write_text(compose({"max_request_workers": 64, "keep_alive_timeout_ms": 700}, None))
    assert kept(evaluate(start), ours, IN_FORCE) == ["max_request_workers", "keep_alive_timeout_ms"]
    (tmp_path / "main.conf").write_text("Include conf/*.conf\nKeepAliveTimeout 9\n")
    assert kept(evaluate(start), ours, IN_FORCE) == ["max_request_workers"]


def test_without_an_included_directory_the_line_to_add_is_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"add 'IncludeOptional .*trimtab\.d/\*\.conf'"):
        where(origin(tmp_path, "MaxRequestWorkers 10"))


def test_a_directory_that_the_user_names_must_be_included(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__a_conf="", conf__a_conf="")
    with pytest.raises(
        UsageError,
        match=r"/elsewhere is not included\).*'IncludeOptional .*/elsewhere/\*\.conf' at the end of .*main\.conf",
    ):
        where(start, tmp_path / "elsewhere")
    assert where(start, tmp_path / "mods").parent == tmp_path / "mods"


def test_an_include_within_a_virtual_host_is_no_location(tmp_path: Path) -> None:
    start = origin(tmp_path, "<VirtualHost *>\nInclude conf/*.conf\n</VirtualHost>", conf__a_conf="")
    with pytest.raises(UsageError, match="no directory is included"):
        where(start)


def found(start: Origin, change: Path, text: str, set_to: dict[str, int]) -> dict[str, str]:
    before = settings(evaluate(start))
    change.write_text(text)
    return edits(evaluate(start), before, IN_FORCE, set_to)


def test_a_changed_setting_stands_its_own_knob_down_and_names_the_file(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__mpm_conf="MaxRequestWorkers 150", conf__a_conf="")
    seen = found(start, tmp_path / "mods" / "mpm.conf", "MaxRequestWorkers 60", {})
    assert list(seen) == ["max_request_workers"]
    assert "mods/mpm.conf" in seen["max_request_workers"]


def test_an_added_and_a_removed_setting_are_noticed(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__mpm_conf="MaxRequestWorkers 150", conf__a_conf="")
    assert (
        "conf/a.conf" in found(start, tmp_path / "conf" / "a.conf", "KeepAliveTimeout 1", {})["keep_alive_timeout_ms"]
    )
    assert "mods/mpm.conf" in found(start, tmp_path / "mods" / "mpm.conf", "", {})["max_request_workers"]


def test_other_edits_and_our_own_file_do_not_count(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__mpm_conf="MaxRequestWorkers 150", conf__a_conf="")
    assert not found(start, tmp_path / "conf" / "a.conf", "\n\nTimeout 3", {})
    assert not found(start, tmp_path / "conf" / "zz-trimtab.conf", "MaxRequestWorkers 9", {"max_request_workers": 9})


def test_a_value_that_is_not_in_force_any_more_is_noticed(tmp_path: Path) -> None:
    start = origin(tmp_path, DEBIAN, mods__mpm_conf="MaxRequestWorkers 150", conf__a_conf="")
    seen = found(start, tmp_path / "conf" / "zz-trimtab.conf", "MaxRequestWorkers 9", {"max_request_workers": 12})
    assert "9 where trimtab set 12" in seen["max_request_workers"]
