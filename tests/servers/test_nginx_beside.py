"""An nginx beside another one that reads a file of its configuration too."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers._private_nginx import CPUS, MORE, SHIPPED, DebianNginx, private, renewed
from trimtab.errors import ApplyRefused
from trimtab.plants.nginx.process import Master, serving
from trimtab.testbed.nginx import NginxSpec

pytestmark = [pytest.mark.server]


class Including(DebianNginx):
    """One whose main file includes a file that another's includes too."""

    shared = Path()

    def configured(self, ports: Sequence[int]) -> list[str]:
        words = super().configured(ports)
        text = self.config_file.read_text()
        self.config_file.write_text(text.replace("worker_processes auto;", f"include {self.shared};", 1))
        return words

    def answers(self) -> bool:
        """Whether it serves, with what is on trial by then: it got that at its start."""
        return any(one.pid == self.pid and len(serving(one)) == MORE for one in Master.running())


def test_a_file_that_another_nginx_reads_too_is_not_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would get what is on trial with its next reload."""
    with private() as bed:
        shared = bed.config.with_name("processes.conf")
        shared.write_text("worker_processes auto;\n")
        bed.replace("worker_processes auto;", f"include {shared};")
        with renewed(bed):
            os.kill(bed.pid, signal.SIGHUP)
        before, nginx = bed.files(), bed.attach()
        nginx.apply({"worker_processes": MORE})
        monkeypatch.setattr(Including, "shared", shared)
        with Including(NginxSpec()) as other:
            said = rf"nginx \(pid {other.pid}\) reads {shared} too, and would get what trimtab sets there"
            with pytest.raises(ApplyRefused, match=said):
                nginx.apply({"worker_processes": 1})
            assert nginx.apply({"worker_processes": CPUS}).configuration == SHIPPED, "a way back is not hindered"
            nginx.apply({"worker_connections": 512})
            with pytest.raises(ApplyRefused, match=said):
                nginx.apply({"worker_processes": MORE})
            nginx.restore()
        assert bed.files() == before
