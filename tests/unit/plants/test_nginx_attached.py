"""nginx's pid file tells whether its configuration was found, and may stand where somebody else can write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._memory_plant import WORKERS
from trimtab.errors import ApplyLater, UsageError
from trimtab.plants._program import Verdict
from trimtab.plants.nginx import attached, locations
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.configuration import Configuration, evaluate
from trimtab.plants.nginx.process import Master
from trimtab.plants.nginx.program import Program
from trimtab.plants.nginx.status import Page
from trimtab.plants.nginx.syntax import directives

PID = 77
SECRET = "root:$y$j9T"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "nginx.pid"


def look(file: Path, text: str = "") -> None:
    """Looks whether an nginx runs with a configuration of this text, where its own pid file is this one."""
    main, master = file.parent / "nginx.conf", Master(PID, 1, Path("/usr/sbin/nginx"), (), 0)
    program = Program(master.exe, file.parent, main, file, (), "")
    attached._require_its_own(master, program, Configuration(directives(text, main), {main: text}))


def refused(file: Path) -> str:
    """What is said of the pid file."""
    with pytest.raises(UsageError, match=r"nginx \(pid 77\) does not seem to run with") as error:
        look(file)
    assert SECRET not in str(error.value)
    return str(error.value).partition("nginx.pid says ")[2].partition(";")[0]


def test_its_own_process_id_is_enough(file: Path) -> None:
    file.write_text(f"{PID}\n")
    look(file)
    look(file, "pid nginx.pid;")
    look(file, "pid off;")
    assert refused(file.with_name("x-nginx.pid")) == "nothing (No such file or directory)"


@pytest.mark.parametrize(
    ("text", "said"),
    [("78\n", "78"), (f"{SECRET}\n", "no process id"), ("", "no process id"), (40 * "123", 10 * "123" + "12")],
)
def test_of_another_text_no_more_is_said_than_an_id(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    assert refused(file) == said


@pytest.mark.parametrize("text", [SECRET, f"{PID}\n"])
def test_a_link_in_its_place_is_not_followed(file: Path, text: str) -> None:
    (file.parent / "secret").write_text(text)
    file.symlink_to("secret")
    assert refused(file) == f"nothing ({os.strerror(errno.ELOOP)})"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_neither_waited_for_nor_left_open(file: Path, make: Callable[[Path], None]) -> None:
    make(file)
    before = os.listdir("/proc/self/fd")
    assert refused(file) == "no process id"
    assert os.listdir("/proc/self/fd") == before


def test_another_nginx_is_believed_to_read_only_what_its_pid_file_stands_by(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one whose command line was cut short the built-in file would be taken for its own."""
    main, other = file.parent / "nginx.conf", Master(PID, 1, Path("/usr/sbin/nginx"), (), 0)
    main.write_text("events { }")
    monkeypatch.setattr(Program, "of", lambda master: Program(master.exe, file.parent, main, file, (), ""))
    with pytest.raises(UsageError, match="does not seem to run with"):
        attached.configuration_of(other)
    file.write_text(f"{PID}\n")
    assert list(attached.configuration_of(other).texts) == [main]


def test_listeners_of_which_nothing_is_read_are_said(file: Path) -> None:
    text = "http { server { listen unix:/run/web.sock; listen 80; } server { listen unix:/run/web.sock default; } }"
    nginx = object.__new__(Attached)
    nginx.knobs, nginx.in_force, nginx.cut_ms, nginx.notes = {}, {"keepalive_timeout_ms": 75_000}, None, []
    nginx._cautions(Configuration(directives(text, file), {file: text}))
    assert nginx.notes == ["what waits to be accepted at unix:/run/web.sock is in no reading: TCP alone is seen"]


@pytest.mark.parametrize(("word", "said"), [("on", True), ("off", False)])
def test_that_applications_of_passenger_begin_anew_is_said_before_the_first_change(
    file: Path, word: str, said: bool
) -> None:
    text = f"http {{ server {{ listen 80; location / {{ passenger_enabled {word}; }} }} }}"
    nginx = object.__new__(Attached)
    nginx.knobs, nginx.in_force, nginx.cut_ms, nginx.notes = {"": WORKERS}, {"keepalive_timeout_ms": 1}, None, []
    nginx.quic = nginx.udp = nginx.live = ""
    nginx._cautions(Configuration(directives(text, file), {file: text}))
    assert any("pid:1) begin anew at every change, trials and an undo too" in one for one in nginx.notes) is said


def reloadable(file: Path, monkeypatch: pytest.MonkeyPatch, listen: str) -> Attached:
    """One with a listener of these words, as it is read and may be signalled."""
    main = file.parent / "nginx.conf"
    main.write_text(f"events {{ }} http {{ server {{ listen 443 ssl; listen {listen}; }} }}")
    nginx = object.__new__(Attached)
    nginx.master = Master(PID, 1, Path("/usr/sbin/nginx"), (), 0)
    nginx.program = Program(nginx.master.exe, file.parent, main, file, (), "")
    nginx.notes, nginx.rooms, nginx.knobs = [], (), {}
    monkeypatch.setattr(attached, "serving", lambda master: frozenset({(PID + 1, 1)}))
    monkeypatch.setattr(attached, "rooms", lambda pid: ())
    monkeypatch.setattr(Master, "signal", lambda master, number: None)
    nginx.read_running()
    return nginx


@pytest.mark.parametrize("listen", ["443 quic", "[::]:443 quic reuseport", "443 http3 reuseport"])
def test_a_reload_that_breaks_connections_over_http_3_has_to_be_accepted(
    file: Path, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    nginx = reloadable(file, monkeypatch, listen)
    with pytest.raises(UsageError, match=r"over HTTP/3 \(\S+/nginx.conf:1\), .*--accept-lost-requests"):
        nginx.permitted([], accept_lost=False)
    nginx.permitted([], accept_lost=True)
    reloadable(file, monkeypatch, "80 reuseport").permitted([], accept_lost=False)


def test_a_reload_that_loses_replies_to_datagrams_has_to_be_accepted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nginx = reloadable(file, monkeypatch, "80")
    main = file.parent / "nginx.conf"
    main.write_text("events { } http { } stream { server { listen 53 udp; proxy_pass 127.0.0.1:5353; } }")
    nginx.read_running()
    with pytest.raises(UsageError, match=r"loses replies .* to datagrams \(\S+:1\): .*--accept-lost-requests"):
        nginx.permitted([], accept_lost=False)
    nginx.permitted([], accept_lost=True)
    main.write_text("events { } http { } stream { server { listen 3306; proxy_pass 127.0.0.1:3307; } }")
    nginx.read_running()
    nginx.permitted([], accept_lost=False)


@pytest.mark.parametrize(
    ("listen", "movable"), [("443 quic reuseport", False), ("443 quic", True), ("80 reuseport", True)]
)
def test_datagrams_at_the_sockets_of_other_processes_are_moved_by_no_kernel(
    file: Path, monkeypatch: pytest.MonkeyPatch, listen: str, movable: bool
) -> None:
    monkeypatch.setattr(locations, "_migrates", lambda: True)
    found = locations.locations(reloadable(file, monkeypatch, listen).config, edit=True)["worker_processes"]
    assert ("datagrams" in getattr(found, "why", "")) is not movable


def test_one_that_another_takes_over_from_is_not_reloaded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGHUP then starts as many workers again, and nothing is read."""
    nginx, old = reloadable(file, monkeypatch, "80"), file.with_name("nginx.pid.oldbin")
    verdict = Verdict(True, "")
    monkeypatch.setattr(attached, "vet", lambda master: None)
    monkeypatch.setattr(Program, "test", lambda program: verdict)
    for said in ("", "78", SECRET):  # another's is nothing to this one
        old.write_text(said)
        assert nginx.test() is verdict
        nginx.permitted([], accept_lost=False)
    old.write_text(f"{PID}\n")
    assert "being upgraded" in nginx.test().message and not nginx.test().valid
    with pytest.raises(UsageError, match="being upgraded"):
        nginx.permitted([], accept_lost=True)


@pytest.mark.parametrize(
    ("name", "text", "waits"),
    [
        ("nginx.conf", "events {{ }} http {{ include {}/*.conf.d/*; gzip on; }}", True),
        ("nginx.conf", "# mine\nevents {{ }}\nhttp {{ include {}/*.conf.d/*; }}", False),
        ("a.conf.d/mine", "gzip on;", True),
        ("a.conf.d/zz-trimtab.conf", "keepalive_timeout 9s;", False),
    ],
)
def test_what_is_edited_in_mid_run_waits_for_the_operators_reload(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, waits: bool
) -> None:
    nginx, directory = reloadable(file, monkeypatch, "80"), file.parent
    (directory / "a.conf.d").mkdir()
    (directory / "nginx.conf").write_text(f"events {{ }} http {{ include {directory}/*.conf.d/*; }}")
    nginx.read_running()
    nginx.require_loaded()
    (directory / name).write_text(text.format(directory))
    if waits:
        with pytest.raises(ApplyLater, match=f"{name} was edited after nginx read it, .* reload nginx yourself"):
            nginx.require_loaded()
        nginx.read_running()
    nginx.require_loaded()


def test_live_streams_that_new_viewers_do_not_find_after_a_reload_have_to_be_accepted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nginx = reloadable(file, monkeypatch, "443 quic")
    main = file.parent / "nginx.conf"
    main.write_text("events { } rtmp { server { listen 1935; application live { live on; } } } http { }")
    nginx.read_running()
    with pytest.raises(UsageError, match=r"^a reload hides live streams \(\S+:1\) .*--accept-lost-requests"):
        nginx.permitted([], accept_lost=False)
    nginx.permitted([], accept_lost=True)
    main.write_text("events { } rtmp { server { application vod { live Off; play /films; } } } http { }")
    nginx.read_running()
    nginx.permitted([], accept_lost=False)
    main.write_text("events { } rtmp { live On; } http { server { listen 443 quic; } }")
    nginx.read_running()
    with pytest.raises(UsageError, match=r"^a reload breaks connections over HTTP/3 .* and hides live streams "):
        nginx.permitted([], accept_lost=False)


@pytest.mark.parametrize(
    ("check", "harmless"),
    [
        ("health_check;", False),
        ("health_check interval=10 fails=3 uri=/healthz match=ok;", False),
        ("health_check mandatory;", False),
        ("health_check mandatory persistent port=8080;", True),
        ("check interval=3000 rise=2 fall=5 type=http;", True),
    ],
)
@pytest.mark.parametrize("kind", ["http {{ server {{ location / {{ {} }} }} }}", "stream {{ server {{ {} }} }}"])
def test_a_reload_in_which_health_checks_begin_anew_has_to_be_accepted(
    file: Path, monkeypatch: pytest.MonkeyPatch, kind: str, check: str, harmless: bool
) -> None:
    """NGINX Plus takes all servers for healthy then, or none with `mandatory` alone."""
    nginx = reloadable(file, monkeypatch, "80")
    (file.parent / "nginx.conf").write_text(f"events {{ }} {kind.format(check)}")
    nginx.read_running()
    if harmless:
        nginx.permitted([], accept_lost=False)
        return
    with pytest.raises(UsageError, match=r"^a reload forgets what health checks \(\S+:1\) .*--accept-lost-requests"):
        nginx.permitted([], accept_lost=False)
    nginx.permitted([], accept_lost=True)


@pytest.mark.parametrize(
    ("groups", "api", "lost"),
    [
        ("upstream a { zone a 64k; state /var/lib/nginx/a; }", "api write=on;", ""),
        ("upstream a { server 10.0.0.1; }", "api write=on;", ""),
        ("upstream a { zone a 64k; server 10.0.0.1; }", "api;", ""),
        ("upstream a { zone a 64k; server 10.0.0.1; }", "api write=off;", ""),
        ("", "dyups_interface;", "nginx.conf:1"),
        ("upstream a { zone a 64k; state s; }\nupstream b { zone b 9m; }", "api write=on;", "nginx.conf:2"),
    ],
)
def test_that_what_an_api_has_set_is_lost_is_said_before_the_first_change(
    file: Path, groups: str, api: str, lost: str
) -> None:
    main = file.with_name("nginx.conf")
    text = f"http {{ {groups} server {{ location /api {{ {api} }} }} }}"
    nginx = object.__new__(Attached)
    nginx.knobs, nginx.in_force, nginx.cut_ms, nginx.notes = {"": WORKERS}, {"keepalive_timeout_ms": 1}, None, []
    nginx.quic = nginx.udp = nginx.live = ""
    nginx._cautions(Configuration(directives(text, main), {main: text}))
    found = [one for one in nginx.notes if "is lost by every change" in one]
    assert len(found) == bool(lost) and all(f"({file.parent}/{lost})," in one for one in found)


def test_that_the_page_is_logged_is_said(file: Path) -> None:
    nginx = object.__new__(Attached)
    nginx.knobs, nginx.in_force, nginx.cut_ms, nginx.notes = {}, {"keepalive_timeout_ms": 75_000}, None, []
    for logged in ("", "/etc/nginx/nginx.conf:41"):
        nginx.page = Page("http://127.0.0.1:8081/", None, False, logged)
        nginx._cautions(Configuration())
    assert [note.partition("access log ")[2].partition(":")[0] for note in nginx.notes] == ["(/etc/nginx/nginx.conf"]


def test_its_files_are_read_again_only_where_one_has_changed_or_come(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at in every window, and with a thousand hosts that took a second each time."""
    nginx, directory, reads = reloadable(file, monkeypatch, "80"), file.parent, [0]

    def counted(program: Program) -> Configuration:
        reads[0] += 1
        return evaluate(program)

    monkeypatch.setattr(attached, "evaluate", counted)
    assert nginx.config is nginx.config
    assert reads == [0]
    (directory / "nginx.conf").write_text("events { } http { include conf.d/*.conf; }")
    assert nginx.config is nginx.config
    assert reads == [1]
    (directory / "conf.d").mkdir()
    (directory / "conf.d/a.conf").write_text("gzip on;")
    assert nginx.config.named("gzip", "http") and nginx.config is nginx.config
    assert reads == [2]
    (directory / "conf.d/a.conf").unlink()
    assert not nginx.config.named("gzip", "http")
