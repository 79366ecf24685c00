"""What Apache reads at its start alone: a ServerLimit that was edited and only reloaded since is not in force.

And what its control group lets it have.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers._few_tasks import few_tasks
from tests.servers._private_apache import Bed, private, reload
from tests.servers._under_gate import until
from trimtab.errors import ApplyFailed
from trimtab.plants.apache import Apache
from trimtab.plants.apache.process import Parent, generations
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]


def edited(bed: Bed, directives: str) -> None:
    """The operator's edit, and his reload."""
    bed.write("mine.conf", directives)
    reload(bed.testbed.pid)


def tasks_of_workers(bed: Bed) -> list[int]:
    """Threads of each process that serves: a process of event is there before most of its own."""
    workers = generations(Parent.find(bed.testbed.pid), frozenset()).workers
    return [len(list(Path(f"/proc/{one}/task").iterdir())) for one in workers]


@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_the_largest_limit_is_that_of_the_start_where_the_running_one_shows_it(mpm: Mpm) -> None:
    with private(mpm) as bed:
        most = 16 * bed.threads
        edited(bed, f"ServerLimit 32\nMaxRequestWorkers {most + 8 * bed.threads}\n")
        apache = bed.attach()
        assert apache.configuration()["max_request_workers"] == apache.knobs()[0].domain.maximum == most
        (note,) = (one for one in apache.notes if "MaxRequestWorkers is" in one)
        assert "keeps the ServerLimit" in note and "not reloaded" not in note


def test_a_limit_that_the_start_does_not_allow_is_put_back_with_the_reason() -> None:
    with private("prefork") as bed:
        edited(bed, "ServerLimit 32\n")
        apache = bed.attach()
        with pytest.raises(ApplyFailed, match="is 16 after the reload, not 24: it keeps the ServerLimit"):
            apache.apply({"max_request_workers": 24})
        assert apache.configuration()["max_request_workers"] == 8
        assert not bed.snippet.exists()


def test_a_file_that_was_taken_away_and_not_reloaded_is_no_limit_of_the_start() -> None:
    with private("event") as bed:
        edited(bed, f"MaxRequestWorkers {4 * bed.threads}\n")

        found = list[Apache]()

        def told() -> bool:
            bed.write("mine.conf", "")
            bed.write("mine.conf", None)  # in the same second as the start it would not be told apart
            found.append(bed.attach())
            # As long as processes of before have places the page may have as many as the files say.
            return any("edited and not" in note for note in found[-1].notes)

        until(told, "it is taken for one that keeps its ServerLimit")
        assert found[-1].knobs()[0].domain.maximum == 16 * bed.threads


@pytest.mark.parametrize(("reloaded", "runs_with"), [(True, 16), (False, 8)])
def test_the_way_back_leads_to_the_limit_that_was_in_force_also_where_the_files_say_another(
    reloaded: bool, runs_with: int
) -> None:
    with private("prefork") as bed:
        if reloaded:
            edited(bed, "ServerLimit 32\nMaxRequestWorkers 24\n")
        else:
            bed.write("mine.conf", "MaxRequestWorkers 12\n")
        apache = bed.attach()
        assert apache.configuration()["max_request_workers"] == runs_with
        for limit in (runs_with - 2, runs_with, runs_with - 1, runs_with):
            assert apache.apply({"max_request_workers": limit}).configuration["max_request_workers"] == limit
        apache.close()
        assert not bed.snippet.exists()


@pytest.mark.root
@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_no_limit_is_led_beyond_what_the_control_group_has_room_for(mpm: Mpm) -> None:
    """As in a container with a limit of pids; with 8 processes there, there is room for three more."""
    with few_tasks() as few, private(mpm) as bed:
        tasks = 1 if mpm == "prefork" else bed.threads + 2
        until(lambda: tasks_of_workers(bed) == [tasks] * 8, "it is not whole")
        few.take(bed.testbed.pid, 3 * tasks)
        apache = bed.attach()
        domain = apache.knobs()[0].domain
        assert domain.maximum == 11 * bed.threads and "pids.max" in domain.limited_by
        apache.apply({"max_request_workers": domain.maximum})
        apache.restore()
