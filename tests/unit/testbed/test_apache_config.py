"""The configuration text of a private Apache."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.testbed import apache_config
from trimtab.testbed.apache_config import ApacheSpec, Mpm


def lines(spec: ApacheSpec, user: tuple[str, str] | None = None) -> list[str]:
    text = apache_config.text(spec, Path("/t"), [("status_module", Path("/m/mod_status.so"))], (1001, 1002), user)
    return [line.strip() for line in text.splitlines()]


def test_pages_and_status_page_listen_on_loopback_ports_of_their_own() -> None:
    assert [x for x in lines(ApacheSpec()) if x.startswith("Listen ")] == [
        "Listen 127.0.0.1:1001",
        "Listen 127.0.0.1:1002",
    ]


def test_snippets_are_included_last() -> None:
    assert lines(ApacheSpec(php=True))[-1] == 'IncludeOptional "/t/conf-enabled/*.conf"'


def test_keep_alive_timeout_is_written_in_milliseconds() -> None:
    assert "KeepAliveTimeout 250ms" in lines(ApacheSpec(keep_alive_timeout_ms=250))


def test_a_keep_alive_timeout_of_0_is_keep_alive_off() -> None:
    off = lines(ApacheSpec(keep_alive_timeout_ms=0))
    assert "KeepAlive Off" in off
    assert not any(x.startswith(("KeepAliveTimeout", "MaxKeepAliveRequests", "KeepAlive On")) for x in off)


def test_workers_drop_privileges_only_when_told_to_whom() -> None:
    assert {"User www-data", "Group www-data"} <= set(lines(ApacheSpec(), ("www-data", "www-data")))
    assert not any(x.startswith(("User ", "Group ")) for x in lines(ApacheSpec()))


def test_the_whole_pool_is_kept_unless_spare_workers_are_named() -> None:
    whole = lines(ApacheSpec(max_request_workers=40, server_limit=400))
    assert {"StartServers 400", "MaxSpareServers 400", "MaxRequestWorkers 40"} <= set(whole)
    shipped = lines(ApacheSpec(start_servers=5, spare_workers=(5, 10)))
    assert {"StartServers 5", "MinSpareServers 5", "MaxSpareServers 10"} <= set(shipped)


@pytest.mark.parametrize("mpm", ["worker", "event"])
def test_threaded_servers_start_as_many_processes_as_the_workers_need(mpm: Mpm) -> None:
    found = set(lines(ApacheSpec(mpm=mpm, max_request_workers=100, server_limit=16)))
    assert {"StartServers 4", "ThreadsPerChild 25", "MaxRequestWorkers 100", "MaxSpareThreads 400"} <= found
    assert 'ScriptSock "/t/run/cgid.sock"' in found


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mpm": "event", "php": True}, "php needs mpm prefork, not event"),
        ({"max_request_workers": 300}, "server_limit 256 allows 256"),
        ({"mpm": "worker", "max_request_workers": 40}, "40 is no multiple of 25"),
    ],
)
def test_what_cannot_work_is_refused_with_what_is_allowed(options: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        ApacheSpec(**options)  # type: ignore[arg-type]


def test_a_module_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mod_mpm_event\.so"):
        apache_config.modules(ApacheSpec(mpm="event"), tmp_path)
    for name in ("mpm_prefork", "cgi", *apache_config.MODULES):
        (tmp_path / f"mod_{name}.so").touch()
    with pytest.raises(UsageError, match="libapache2-mod-php"):
        apache_config.modules(ApacheSpec(php=True), tmp_path)
