"""A real PHP-FPM whose pools share one limit of processes (process.max, pids.max), or with a network of its own."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.servers._few_tasks import few_tasks
from tests.servers._private_fpm import Bed, private, until
from trimtab.clock import SystemClock
from trimtab.errors import ApplyRefused, UsageError
from trimtab.plants.php_fpm.attached import Attached
from trimtab.plants.php_fpm.findings import findings
from trimtab.plants.php_fpm.private import FpmSpec, FpmTestbed
from trimtab.plants.php_fpm.process import FpmMaster

pytestmark = pytest.mark.server
APART = ("/usr/bin/unshare", "--net", "/bin/sh", "-c", 'ip link set lo up && exec "$@"', "sh")


class Apart(FpmTestbed):
    """One in a network namespace of its own, as PrivateNetwork= of systemd gives it."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        return [*APART, *super().configured(ports)]

    def answers(self) -> bool:
        return Path(self.listen).exists()


class Few(FpmTestbed):
    """One that may have 64 files open."""

    def configured(self, ports: Sequence[int]) -> list[str]:
        return ["/bin/sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh", *super().configured(ports)]


def bounded(processes: int, max_children: int) -> AbstractContextManager[Bed]:
    """Two pools, with so many processes for both."""
    more = ("[global]", f"process.max = {processes}")
    return private(pools=("one", "two"), pm="static", max_children=max_children, more=more)


def of(bed: Bed, pool: str) -> Bed:
    return Bed(bed.testbed, pool)


def test_a_pool_is_not_led_beyond_what_process_max_leaves_it() -> None:
    with bounded(9, 4) as bed:
        one = bed.attach()
        (limit,) = (knob for knob in one.knobs() if knob.name == "max_children")
        assert limit.domain.maximum == 5 and not any("never has more" in note for note in one.notes)
        assert limit.domain.limited_by == "process.max = 9 is for all pools together, and the others start with 4"
        one.apply({"max_children": 5})
        until(lambda: (bed.workers(), of(bed, "two").workers()) == (5, 4), "the pools have others")
        one.restore()


def test_a_pool_that_gets_fewer_workers_than_it_may_have_is_changed_all_the_same_and_that_is_said() -> None:
    with bounded(9, 6) as bed:
        second = of(bed, "two")
        until(lambda: (bed.workers(), second.workers()) == (6, 3), "the pools have others")
        two = second.attach()
        said = "process.max = 9 is for all pools together, and the others start with 6"
        assert f"pool two never has more than 3 of 6 workers: {said}" in two.notes
        two.apply({"max_children": 5})
        assert second.workers() == 3
        two.apply({"max_children": 6})
        assert second.workers() == 3
        two.restore()


def test_a_limit_of_processes_below_the_spare_workers_is_no_defect() -> None:
    with private(more=("[global]", "process.max = 2")) as bed:
        found = findings(FpmMaster.find(bed.testbed.pid))
        assert any(one.subject.endswith("max_children") and "3..5 by 1 possible" in one.detail for one in found)


@pytest.mark.root
def test_a_pool_is_not_led_beyond_the_processes_that_its_control_group_lets_it_have() -> None:
    """As in a container with a limit of pids, where FPM ends if it cannot fork all that it starts with."""
    with few_tasks() as few, private(pools=("one", "two"), pm="static", max_children=3) as bed:
        until(lambda: (bed.workers(), of(bed, "two").workers()) == (3, 3), "the pools are not whole")
        few.take(bed.testbed.pid, 4)
        one = bed.attach()
        (limit,) = (knob for knob in one.knobs() if knob.name == "max_children")
        assert limit.domain.maximum == 7
        why = "its control group has room for 10 workers (pids.max), and the other pools start with 3"
        assert limit.domain.limited_by == why
        one.apply({"max_children": 7})
        assert bed.workers() == 7
        one.restore()


@pytest.mark.root
def test_fpm_is_not_reloaded_where_it_could_not_fork_all_that_it_starts_with() -> None:
    """As what an operator has written, or where others in its container have started more meanwhile."""
    with few_tasks() as few, private(pm="static", max_children=3) as bed:
        until(lambda: bed.workers() == 3, "the pool is not whole")
        plant = bed.attach()
        few.take(bed.testbed.pid, 4)
        with pytest.raises(ApplyRefused, match=r"it starts with 8 workers, .* room for 7 workers \(pids\.max\)"):
            plant.apply({"max_children": 8})
        assert bed.workers() == 3 and not bed.snippet.exists()


def test_a_pool_is_not_led_beyond_the_workers_whose_output_fpm_can_open_files_for() -> None:
    """As PHP's own image has it; one worker more, and FPM ends in the reload."""
    with Few(FpmSpec(pm="static", max_children=3, more=("catch_workers_output = yes",))) as testbed:
        bed = Bed(testbed)
        plant = bed.attach()
        (limit,) = (knob for knob in plant.knobs() if knob.name == "max_children")
        most = limit.domain.maximum
        why = f"it may open files for {most} whose output it catches (ulimit -n, catch_workers_output)"
        assert limit.domain.limited_by == why and 20 < most < 32
        plant.apply({"max_children": most})
        assert bed.workers() == most == bed.attach().knobs()[0].domain.maximum
        plant.restore()
        text = (testbed.snippet_directory / "www.conf").read_text()
        (testbed.snippet_directory / "www.conf").write_text(text.replace("children = 3", f"children = {most + 1}"))
        refused = Attached(FpmMaster.find(testbed.pid), SystemClock(), "www").test()
        assert not refused.valid and f"it starts with {most + 1} workers, and {why}" in refused.message


@pytest.mark.root
def test_in_a_network_of_its_own_a_new_pool_may_listen_at_what_is_taken_elsewhere() -> None:
    with Apart(FpmSpec()) as testbed, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        attached, port = Attached(FpmMaster.find(testbed.pid), SystemClock(), "www"), elsewhere.getsockname()[1]
        text = (testbed.snippet_directory / "www.conf").read_text()
        text = text.replace("[www]", "[shop]").replace(f"listen = {testbed.listen}", f"listen = 127.0.0.1:{port}")
        (testbed.snippet_directory / "shop.conf").write_text(text)
        assert attached.test().valid


@pytest.mark.root
def test_in_a_network_of_its_own_its_page_is_not_asked_for_at_an_address_of_ours() -> None:
    refused = pytest.raises(UsageError, match=r"another network namespace.*nsenter --net=/proc/\d+/ns/net")
    with Apart(FpmSpec(status_apart=True)) as testbed, refused:
        Bed(testbed).attach()
