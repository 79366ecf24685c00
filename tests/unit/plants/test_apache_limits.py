"""What Apache makes of its limits, and the knobs they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.configuration import Origin, evaluate
from trimtab.plants.apache.knobs import Limits, knobs, limits, written


def read(tmp_path: Path, mpm: str, *directives: str) -> Limits:
    (tmp_path / "main.conf").write_text("\n".join(directives))
    return limits(evaluate(Origin(tmp_path / "main.conf", tmp_path, static_modules=frozenset({f"{mpm}.c"}))))


def cautions(tmp_path: Path, mpm: str, *directives: str) -> list[str]:
    """What is said of such a configuration when Apache is attached to."""
    apache = object.__new__(Attached)
    apache.limits, apache.notes = read(tmp_path, mpm, *directives), []
    apache._config = evaluate(Origin(tmp_path / "main.conf", tmp_path))
    apache._cautions()
    return apache.notes


@pytest.mark.parametrize(
    ("mpm", "workers", "largest"), [("prefork", 256, 256), ("worker", 400, 400), ("event", 400, 400)]
)
def test_what_is_not_set_has_apaches_default(tmp_path: Path, mpm: str, workers: int, largest: int) -> None:
    found = read(tmp_path, mpm)
    assert found.max_request_workers == workers
    assert knobs(found)[0].domain.maximum == largest
    assert found.keep_alive_timeout_ms == 5000


def test_the_last_setting_wins_and_maxclients_is_the_same_directive(tmp_path: Path) -> None:
    assert read(tmp_path, "prefork", "MaxRequestWorkers 10", "MaxClients 20").max_request_workers == 20


def test_the_default_of_maxrequestworkers_does_not_follow_serverlimit(tmp_path: Path) -> None:
    assert read(tmp_path, "prefork", "ServerLimit 1000").max_request_workers == 256
    assert read(tmp_path, "prefork", "ServerLimit 100").max_request_workers == 100
    assert read(tmp_path, "event", "ServerLimit 40").max_request_workers == 400
    assert read(tmp_path, "event", "ThreadsPerChild 64").max_request_workers == 384


def test_apache_rounds_down_to_whole_processes_and_clips(tmp_path: Path) -> None:
    assert read(tmp_path, "worker", "MaxRequestWorkers 120").max_request_workers == 100
    assert read(tmp_path, "worker", "MaxRequestWorkers 3").max_request_workers == 25
    assert read(tmp_path, "event", "MaxRequestWorkers 9999", "ServerLimit 8").max_request_workers == 200
    assert read(tmp_path, "event", "ThreadsPerChild 100").threads_per_child == 64


@pytest.mark.parametrize("mpm", ["worker", "event"])
def test_the_domain_of_threads_is_in_whole_processes(tmp_path: Path, mpm: str) -> None:
    domain = knobs(read(tmp_path, mpm, "ServerLimit 4", "ThreadsPerChild 10"))[0].domain
    assert (domain.minimum, domain.maximum, domain.step) == (10, 40, 10)
    assert "ServerLimit 4 x ThreadsPerChild 10" in domain.limited_by
    assert "full restart" in domain.limited_by


def test_the_domain_of_prefork_ends_at_serverlimit(tmp_path: Path) -> None:
    domain = knobs(read(tmp_path, "prefork", "ServerLimit 30"))[0].domain
    assert (domain.minimum, domain.maximum, domain.step) == (1, 30, 1)


@pytest.mark.parametrize(
    ("mpm", "room", "most"),
    [("prefork", 40, 40), ("prefork", 20, 30), ("prefork", 300, 256), ("event", 108, 100), ("event", 107, 75)],
)
def test_the_domain_ends_where_the_control_group_has_no_room_for_more(
    tmp_path: Path, mpm: str, room: int, most: int
) -> None:
    """What is in force can come back; a process of event has two threads beside its 25 workers."""
    in_force = 30 if mpm == "prefork" else 50
    domain = knobs(read(tmp_path, mpm, f"MaxRequestWorkers {in_force}"), room)[0].domain
    assert domain.maximum == most
    assert ("pids.max" in domain.limited_by) == (most != 256)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("3", 3000), ("500ms", 500), ("2s", 2000), ("1min", 60_000), ("1h", 3_600_000), ("0", 0)],
)
def test_times_are_read_in_apaches_units(tmp_path: Path, text: str, milliseconds: int) -> None:
    assert read(tmp_path, "event", f"KeepAliveTimeout {text}").keep_alive_timeout_ms == milliseconds


def test_what_is_no_time_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"main\.conf:1: '5x'"):
        read(tmp_path, "event", "KeepAliveTimeout 5x")


def test_a_virtual_hosts_own_timeout_is_told_apart(tmp_path: Path) -> None:
    found = read(tmp_path, "event", "KeepAliveTimeout 2", "<VirtualHost *>", "KeepAliveTimeout 9", "</VirtualHost>")
    assert found.keep_alive_timeout_ms == 2000
    assert found.vhost_keep_alive == (f"{tmp_path}/main.conf:3",)


def test_without_keep_alive_there_is_no_knob_for_its_time(tmp_path: Path) -> None:
    assert [k.name for k in knobs(read(tmp_path, "event", "KeepAlive off"))] == ["max_request_workers"]


def test_another_mpm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="prefork, worker, event"):
        read(tmp_path, "motorz")


def test_knobs_are_written_in_apaches_words() -> None:
    assert written("max_request_workers", 40) == "MaxRequestWorkers 40"
    assert written("keep_alive_timeout_ms", 1500) == "KeepAliveTimeout 1500ms"


def test_a_status_page_without_requests_is_said_with_the_line_that_has_it_so(tmp_path: Path) -> None:
    notes = cautions(tmp_path, "event", "ExtendedStatus On", "ExtendedStatus Off")
    assert [note.partition(";")[0] for note in notes] == [
        f"requests and their times are not on the status page: ExtendedStatus is Off in {tmp_path}/main.conf:2"
    ]


@pytest.mark.parametrize(
    ("line", "whose"),
    [
        ("WSGIScriptAlias / app.wsgi", "mod_wsgi's ("),
        ("LoadModule passenger_module modules/mod_passenger.so", "Passenger's, "),
        ("PerlResponseHandler ModPerl::Registry", "mod_perl's ("),
        ("PythonHandler django.core.handlers.modpython", "mod_python's ("),
        ("LoadModule wsgi_module modules/mod_wsgi.so", ""),
    ],
)
def test_that_applications_that_apache_runs_begin_anew_is_said(tmp_path: Path, line: str, whose: str) -> None:
    said = cautions(tmp_path, "event", line)
    notes = [note for note in said if note.startswith("applications that Apache runs")]
    assert [f"runs, {whose}" in note for note in notes] == ([True] if whose else [])


@pytest.mark.parametrize(
    ("mpm", "line", "said"),
    [
        ("prefork", "RemoteIPHeader X-Forwarded-For", True),
        ("prefork", "RemoteIPProxyProtocol On", True),
        ("prefork", "RemoteIPProxyProtocol Off", False),
        ("event", "RemoteIPHeader X-Forwarded-For", False),
        ("prefork", "LoadModule remoteip_module modules/mod_remoteip.so", False),
    ],
)
def test_that_health_checks_of_a_proxy_in_front_may_fail_within_a_change_is_said(
    tmp_path: Path, mpm: str, line: str, said: bool
) -> None:
    notes = [
        one for one in cautions(tmp_path, mpm, line) if one.startswith(f"requests come through a proxy ({tmp_path}")
    ]
    assert any("health checks must not" in note for note in notes) is said


@pytest.mark.parametrize(("line", "least_ms"), [("RemoteIPHeader X-Forwarded-For", 65_000), ("", 1)])
@pytest.mark.parametrize("mpm", ["prefork", "worker", "event"])
def test_behind_a_proxy_the_keep_alive_time_is_made_no_shorter(
    tmp_path: Path, mpm: str, line: str, least_ms: int
) -> None:
    """A proxy that keeps idle connections for 60 s would send requests into closed ones, as a 502 that none sees."""
    knob = knobs(read(tmp_path, mpm, "KeepAliveTimeout 65", line))[1]
    assert (knob.domain.minimum, knob.domain.maximum) == (least_ms, 65_000)
    said = "the keep-alive time is made no shorter"
    assert any(said in note for note in cautions(tmp_path, mpm, line)) is bool(line)


@pytest.mark.parametrize(
    ("directory", "how"),
    [
        ("/etc/apache2", "apachectl graceful"),
        ("/etc/apache2-shop.de", "apache2ctl-shop.de graceful"),
        ("/srv/apache2-shop", "apachectl graceful"),
    ],
)
def test_one_of_several_on_debian_is_reloaded_by_a_command_of_its_own(directory: str, how: str) -> None:
    apache = object.__new__(Attached)
    apache.origin = Origin(Path(directory, "apache2.conf"), Path(directory))
    assert apache.by_hand == how


@pytest.mark.parametrize(
    ("persist", "lost"), [("", True), ("BalancerPersist Off", True), ("BalancerPersist On", False)]
)
def test_that_a_reload_forgets_what_was_set_by_hand_at_a_balancer_is_said(
    tmp_path: Path, persist: str, lost: bool
) -> None:
    page = ("<Location /balancers>", "SetHandler balancer-manager", "</Location>")
    notes = cautions(tmp_path, "event", persist, *page)
    assert any("what was set at balancer-manager" in note and "main.conf:3" in note for note in notes) is lost


@pytest.mark.parametrize(
    ("member", "outside", "told"),
    [
        ("BalancerMember http://127.0.0.1:8080", "", True),
        ("BalancerMember http://127.0.0.1:8080", "BalancerPersist On", False),
        ("BalancerMember http://127.0.0.1:8080 hcmethod=GET", "", False),
        ("", "", False),
    ],
)
def test_that_members_of_a_balancer_which_do_not_answer_are_tried_again_is_said(
    tmp_path: Path, member: str, outside: str, told: bool
) -> None:
    first = ("<Proxy balancer://shop>", "BalancerMember http://127.0.0.1:8081")
    notes = cautions(tmp_path, "event", *first, member, "</Proxy>", outside)
    said = f"which members of balancers ({tmp_path}/main.conf:2) do not answer is forgotten by every change"
    assert any(note.startswith(said) for note in notes) is told
