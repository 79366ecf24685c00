"""nginx's command line, which it keeps as one text, read back into options; times and numbers of its settings."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.errors import UsageError
from trimtab.plants.nginx import program
from trimtab.plants.nginx.configuration import Configuration
from trimtab.plants.nginx.knobs import SETTINGS, knobs, milliseconds, value_of
from trimtab.plants.nginx.program import options
from trimtab.plants.nginx.syntax import directives


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("nginx", {}),
        ("/usr/sbin/nginx -g daemon on; master_process on;", {"g": "daemon on; master_process on;"}),
        ("nginx -p /srv/ -c etc/nginx.conf -e log", {"p": "/srv/", "c": "etc/nginx.conf", "e": "log"}),
        ("nginx -g worker_priority -5; -c /a.conf", {"g": "worker_priority -5;", "c": "/a.conf"}),
        ("nginx -c/a.conf -gdaemon off;", {"c": "/a.conf", "g": "daemon off;"}),
    ],
)
def test_options_are_read_back_from_the_title(command: str, found: dict[str, str]) -> None:
    assert options(command) == found


@pytest.mark.parametrize("command", ["nginx -c /with space/nginx.conf", "nginx -p /srv extra", "nginx -x y"])
def test_a_title_of_which_words_cannot_be_told_apart_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match="cannot be read at"):
        options(command)


@pytest.mark.parametrize(
    ("command", "built", "prefix", "passed"),
    [
        ("nginx", ".", "/srv/site", ("-p", "/srv/site")),
        ("nginx -p etc", "/usr", "/srv/site/etc", ("-p", "/srv/site/etc")),
        ("nginx", "/usr", "/usr", ()),
    ],
)
def test_a_relative_prefix_begins_where_nginx_was_started_and_is_passed_on(
    command: str, built: str, prefix: str, passed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = SimpleNamespace(
        stderr=f"nginx version: nginx/1.31.3\nconfigure arguments: --prefix={built} --conf-path=nginx.conf\n"
    )
    monkeypatch.setattr(program, "ask", lambda argv, environ: said)
    master: Any = SimpleNamespace(command=command, exe=Path("/usr/sbin/nginx"), cwd=lambda: Path("/srv/site"))
    found = program.Program.of(master)
    assert (found.prefix, found.config_file) == (Path(prefix), Path(prefix, "nginx.conf"))
    assert found.options == passed


@pytest.mark.parametrize(
    ("text", "ms"), [("75", 75_000), ("300ms", 300), ("1m 30s", 90_000), ("1h", 3_600_000), ("0", 0), ("2s5ms", 2005)]
)
def test_times_are_those_of_nginx(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize("text", ["", "x", "5x", "-1", "1.5s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        milliseconds(text)


def read(text: str) -> Configuration:
    return Configuration(directives(text, Path("/nginx.conf")), {Path("/nginx.conf"): text})


def test_values_follow_from_the_directives_and_from_the_defaults_of_nginx() -> None:
    shipped = read(
        "worker_processes auto; events { worker_connections 768; } http { server { keepalive_timeout 5; } }"
    )
    assert {knob: value_of(shipped, knob) for knob in SETTINGS} == {
        "worker_processes": os.sysconf("SC_NPROCESSORS_ONLN"),
        "worker_connections": 768,
        "keepalive_timeout_ms": 75_000,
    }
    assert {knob: value_of(read("events {} http {}"), knob) for knob in SETTINGS} == {
        "worker_processes": 1,
        "worker_connections": 512,
        "keepalive_timeout_ms": 75_000,
    }
    with pytest.raises(UsageError, match="'many' is not a number"):
        value_of(read("worker_processes many;"), "worker_processes")


def test_the_open_files_of_a_process_and_its_listeners_bound_its_connections() -> None:
    now = {"worker_processes": 1, "worker_connections": 768, "keepalive_timeout_ms": 75_000}
    domain = knobs(now, 3, 1024)["worker_connections"].domain
    assert (domain.minimum, domain.maximum) == (20, 1024)
    assert "worker_rlimit_nofile" in domain.limited_by
    assert knobs({**now, "worker_connections": 4096}, 3, 1024)["worker_connections"].domain.maximum == 4096
