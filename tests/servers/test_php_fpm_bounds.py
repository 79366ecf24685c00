"""A real PHP-FPM that has a network of its own."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers._private_fpm import Bed
from trimtab.clock import SystemClock
from trimtab.errors import UsageError
from trimtab.plants.php_fpm.attached import Attached
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
