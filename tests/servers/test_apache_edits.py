"""What an operator edits while a real Apache is tuned."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from tests.servers._private_apache import Bed, private, reload
from trimtab.errors import ApplyLater, OperatorEdit

pytestmark = [pytest.mark.server, pytest.mark.apache]


@pytest.fixture
def bed() -> Iterator[Bed]:
    with private("event") as bed:
        yield bed


def test_what_is_edited_in_mid_run_waits_for_the_operators_reload_and_a_change_waits_with_it(bed: Bed) -> None:
    apache, start = bed.attach(), 8 * bed.threads
    apache.apply({"max_request_workers": start + bed.threads})
    bed.write("mine.conf", "# a comment is no setting\n")
    apache.apply({"max_request_workers": start + 2 * bed.threads})
    bed.write("mine.conf", "Timeout 50\n")
    for _ in range(2):
        with pytest.raises(ApplyLater, match=r"mine\.conf was edited after .* reload Apache yourself"):
            apache.apply({"max_request_workers": start + 3 * bed.threads})
    assert apache.configuration()["max_request_workers"] == start + 2 * bed.threads
    reload(bed.testbed.pid)
    apache.apply({"max_request_workers": start + 3 * bed.threads})
    bed.write("mine.conf", None)
    with pytest.raises(ApplyLater, match=r"mine\.conf was edited"):
        apache.apply({"max_request_workers": start + 4 * bed.threads})
    back = apache.apply({"max_request_workers": start + 2 * bed.threads}).configuration
    assert back["max_request_workers"] == start + 2 * bed.threads, "a way back waits for nobody"
    bed.write("mine.conf", "Timeout 40\n")
    with pytest.raises(ApplyLater, match=r"mine\.conf was edited"):
        apache.apply({"max_request_workers": start + 3 * bed.threads})  # which is a trial again
    apache.restore()
    assert (apache.configuration()["max_request_workers"], bed.snippet.exists()) == (start, False)


def test_an_edit_of_the_same_setting_elsewhere_stands_that_knob_down_alone(bed: Bed) -> None:
    apache = bed.attach()
    apache.apply({"max_request_workers": 4 * bed.threads})
    bed.write("mine.conf", f"MaxRequestWorkers {6 * bed.threads}\n")
    with pytest.raises(OperatorEdit, match=r"mine\.conf"):
        apache.apply({"max_request_workers": 5 * bed.threads})
    reload(apache.pid)
    apache.apply({"keep_alive_timeout_ms": 900})
    assert apache.configuration() == {"max_request_workers": 6 * bed.threads, "keep_alive_timeout_ms": 900}
    apache.restore()
    assert apache.configuration() == {"max_request_workers": 6 * bed.threads, "keep_alive_timeout_ms": 300}


def test_a_kill_between_our_files_going_and_the_reload_to_that_is_undone(bed: Bed) -> None:
    """Nothing told of the trial any more, which stayed in force and was taken for the operator's choice."""
    start = 8 * bed.threads
    bed.attach().apply({"max_request_workers": start - bed.threads})
    bed.snippet.unlink()
    apache = bed.attach()
    assert (apache.configuration()["max_request_workers"], apache.leftover()) == (start - bed.threads, "")
    apache.undo_leftover()
    assert apache.configuration()["max_request_workers"] == start


def test_php_ini_that_is_edited_in_mid_run_waits_too() -> None:
    """A reload ends mod_php and begins it again, which reads it."""
    with private("prefork", php=True) as bed:
        ini = bed.testbed.directory / "php" / "php.ini"
        (bed.testbed.directory / "htdocs" / "ini.php").write_text("<?php echo ini_get('memory_limit');")

        def limit() -> bytes:
            with urllib.request.urlopen(f"http://127.0.0.1:{bed.testbed.port}/ini.php", timeout=60) as page:
                return bytes(page.read())

        apache = bed.attach()
        apache.apply({"max_request_workers": 9})
        ini.write_text("memory_limit = 65M\n")
        with pytest.raises(ApplyLater, match=r"php\.ini was edited after .* reload Apache yourself"):
            apache.apply({"max_request_workers": 10})
        assert limit() == b"512M"
        reload(bed.testbed.pid)
        apache.apply({"max_request_workers": 10})
        assert limit() == b"65M"
        apache.restore()
