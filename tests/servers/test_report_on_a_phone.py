"""A report in a real browser as narrow as a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._stored_runs import always, whole, write_run
from tests.servers._chromium import chromium
from trimtab.core.trial import MoveState
from trimtab.report.page import render
from trimtab.store import Store

pytestmark = [pytest.mark.server]
PHONE = 400


def test_a_report_can_be_read_on_a_phone(tmp_path: Path) -> None:
    store, page = Store(tmp_path / "runs.sqlite"), tmp_path / "report.html"
    moves = [(2, 40, MoveState.APPLIED)]
    run = write_run(store, "trim", always(whole(2.0)), moves=moves, reason="of many words " * 9)
    page.write_text(render(store, [run]).replace("<body>", '<body data-page="report">'), encoding="utf-8")
    store.close()
    with chromium() as tab:
        tab.become_a_phone(PHONE)
        tab.open(page.as_uri(), "report")
        whole_page = tab.run("document.documentElement.scrollWidth")
        beyond = tab.run("[...document.querySelectorAll('.wide')].map(one => one.scrollWidth - one.clientWidth)")
        pictures = tab.run("[...document.querySelectorAll('figure svg')].map(one => one.clientWidth)")
    assert whole_page <= PHONE
    assert pictures and min(pictures) > 1.5 * PHONE, "shrunk to the page their ticks cannot be read"
    assert beyond and max(beyond) < PHONE / 2, "most of a table is seen without scrolling"
