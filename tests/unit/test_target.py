"""URLs: this machine only, unless told otherwise."""

from __future__ import annotations

import pytest

from trimtab.errors import UsageError
from trimtab.target import Target, parse_target


def test_a_url_names_address_host_and_path() -> None:
    assert parse_target("http://127.0.0.3:8080/a?b=1") == Target("127.0.0.3", 8080, "127.0.0.3:8080", "/a?b=1")
    assert parse_target("http://127.0.0.1") == Target("127.0.0.1", 80, "127.0.0.1", "")
    assert parse_target("http://127.0.0.1?x=1").path == "/?x=1"
    assert parse_target("http://[::1]:81/").endpoint == "[::1]:81"
    assert parse_target("http://127.0.0.1:81/").endpoint == "127.0.0.1:81"


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:80",
        "https://127.0.0.1/",
        "http://",
        "http://u:p@127.0.0.1/",
        "http://127.0.0.1:x/",
        "http://127.0.0.1/#a",
    ],
)
def test_what_is_not_a_plain_http_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not a URL"):
        parse_target(url)


@pytest.mark.parametrize("url", ["http://192.0.2.1/", "http://[2001:db8::1]/", "http://0.0.0.0/"])
def test_another_machine_needs_permission(url: str) -> None:
    with pytest.raises(UsageError, match="--allow-remote"):
        parse_target(url)
    assert parse_target(url, allow_remote=True).port == 80


@pytest.mark.parametrize("url", ["http://127.0.0.1:0/", "http://127.0.0.1:00"])
def test_a_port_that_no_server_can_have_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="has the port 0, allowed is 1 to 65535"):
        parse_target(url)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", ".local"])
def test_what_is_no_host_name_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match=f"'{host}' is not a host name"):
        parse_target(f"http://{host}/", allow_remote=True)
