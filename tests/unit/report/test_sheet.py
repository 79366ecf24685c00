"""The page of tables and figures."""

from __future__ import annotations

from trimtab import __version__
from trimtab.report.sheet import Plot, Table, sheet


def test_it_is_one_file_with_what_it_was_given() -> None:
    plots = [Plot("A figure", "what it shows", "<svg><g/></svg>")]
    page = sheet("About", "It came out.", plots, [Table("Numbers", ("name", "value"), [("x", "1.5")])])
    assert page.lstrip().lower().startswith("<!doctype html>")
    for text in (
        "About",
        "It came out.",
        "A figure",
        "what it shows",
        "<svg><g/></svg>",
        "Numbers",
        "x",
        "1.5",
        __version__,
    ):
        assert text in page
    assert "http" not in page


def test_text_is_escaped_and_figures_are_not() -> None:
    page = sheet("<b>", "a & b", [Plot("<i>", "<u>", "<svg/>")], [Table("<s>", ("<p>",), [("<q>",)])])
    for tag in ("<b>", "<i>", "<u>", "<s>", "<q>"):
        assert tag not in page
    assert "&lt;q&gt;" in page
    assert "<svg/>" in page


def test_it_says_when_no_real_server_took_part() -> None:
    assert "Simulated." in sheet("t", "h", [], simulated=True)
    assert "Simulated." not in sheet("t", "h", [])
