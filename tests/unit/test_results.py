"""What is kept of experiments in git: what a page shows and what a reader can read, no more."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from trimtab.lab._results import MOST_STORED_BYTES, STORE

ROOT = Path(__file__).resolve().parents[2]
RESULTS = "benchmarks/results"
MOST_BYTES = 64 * 1024
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks" / "README.md"]
LINK = re.compile(r"\]\(([^)#\s]+)")


def kept() -> list[Path]:
    """Every file of the results that git knows."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", RESULTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines()]


@functools.cache
def cited() -> set[Path]:
    """Every file that a page links to or shows."""
    links = ((page, link) for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8")))
    return {(page.parent / link).resolve() for page, link in links if "://" not in link}


def test_every_file_that_a_page_links_to_is_there() -> None:
    assert [path for path in cited() if not path.exists()] == []


def test_every_folder_of_results_is_cited_by_a_page_and_has_a_summary() -> None:
    folders = {path.parent for path in kept()}
    assert folders
    assert [str(folder) for folder in folders if not any(folder in path.parents for path in cited())] == []
    assert [str(folder) for folder in folders if not (folder / "summary.md").exists()] == []


def test_figures_are_kept_where_a_page_shows_them_and_raw_data_where_it_is_small() -> None:
    for path in kept():
        if path.suffix == ".svg":
            assert path in cited(), f"no page shows {path}"
        elif path.name == STORE:
            assert path.stat().st_size <= MOST_STORED_BYTES, f"{path} is too much to keep"
        elif path.name not in ("summary.md", "runs.jsonl"):
            assert path.suffix == ".json" and path.stat().st_size <= MOST_BYTES, f"{path} is too much to keep"
