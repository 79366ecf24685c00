"""What listens on TCP: the kernel is asked, and its file says the same."""

from __future__ import annotations

import os
import socket

import pytest

from trimtab.errors import NotMeasured
from trimtab.processes import sockets
from trimtab.sensors import _tcp_listeners
from trimtab.sensors._tcp_listeners import listening

ME = os.getpid()


def test_what_listens_is_asked_of_the_kernel_and_its_file_which_has_all_connections_in_it_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(pid: int, make: object) -> None:
        raise NotMeasured("no inet_diag")

    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.socket() as silent,
    ):
        silent.bind(("127.0.0.1", 0))
        mine = {f"socket:[{os.fstat(one.fileno()).st_ino}]": one.getsockname()[:2] for one in (four, six)}
        monkeypatch.setattr(_tcp_listeners, "sockets", lambda pid, *tables: pytest.fail("the file was read"))
        asked = listening(ME)
        monkeypatch.setattr(_tcp_listeners, "sockets", sockets)
        monkeypatch.setattr(_tcp_listeners, "in_network_of", refused)
        written = listening(ME)
        deaf = f"socket:[{os.fstat(silent.fileno()).st_ino}]"
    assert mine.items() <= asked.items() and mine.items() <= written.items()
    assert deaf not in {*asked, *written}
