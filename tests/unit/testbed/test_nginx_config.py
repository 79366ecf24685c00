"""The configuration text of a private nginx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import UsageError
from trimtab.testbed import nginx_config
from trimtab.testbed.nginx_config import NginxSpec


def lines(spec: NginxSpec, user: tuple[str, str] | None = None) -> list[str]:
    return [line.strip() for line in nginx_config.text(spec, Path("/t"), 1001, user).splitlines()]


def test_it_listens_on_loopback_and_stays_in_the_foreground() -> None:
    assert "listen 127.0.0.1:1001 backlog=64;" in lines(NginxSpec(listen_backlog=64))
    assert "daemon off;" in lines(NginxSpec())


def test_what_the_specification_says_is_written() -> None:
    text = lines(NginxSpec(processes=2, connections=100, keep_alive_timeout_ms=15_000), ("www-data", "www"))
    assert {"worker_processes 2;", "keepalive_timeout 15000ms;", "user www-data www;"} <= set(text)
    assert "events { worker_connections 100; }" in text
    assert not any(line.startswith("user ") for line in lines(NginxSpec()))


def test_everything_that_it_writes_is_in_its_own_directory() -> None:
    written = [line for line in lines(NginxSpec()) if "_temp_path" in line or line.startswith(("pid", "error_log"))]
    assert len(written) == 7
    assert all(" /t/" in line for line in written)


@pytest.mark.parametrize("wrong", [{"processes": 0}, {"connections": 0}, {"keep_alive_timeout_ms": -1}])
def test_a_server_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        NginxSpec(**wrong)
