"""What would end Apache in a reload, though its own test passes, and what else a reload ends."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from trimtab.errors import UsageError
from trimtab.plants._own_file_plant import OwnFilePlant
from trimtab.plants._program import Verdict
from trimtab.plants.apache import Apache, attached
from trimtab.plants.apache.attached import Attached
from trimtab.plants.apache.configuration import Origin, evaluate
from trimtab.plants.apache.hazards import ended, fatal, taken, unopened, unread
from trimtab.plants.apache.process import Generations, Parent
from trimtab.plants.apache.program import _options
from trimtab.plants.apache.syntax import Directive
from trimtab.plants.apache.tls import stapling_s

EC, ALSO_EC, RSA, SECRET = "ec", "other", "rsa", "secret"
KINDS = {
    EC: ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"),
    ALSO_EC: ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"),
    RSA: ("-newkey", "rsa:2048", "-noenc"),
    SECRET: ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-passout", "pass:word"),
}
"""Name of a pair to how it is made; the last one's key has a passphrase."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with NAME.crt and NAME.key of each kind, and junk.crt."""
    directory = tmp_path_factory.mktemp("pairs")
    for name, kind in KINDS.items():
        files = ("-keyout", directory / f"{name}.key", "-out", directory / f"{name}.crt")
        subprocess.run(
            ["openssl", "req", "-x509", "-subj", "/CN=localhost", *kind, *files], check=True, capture_output=True
        )
    (directory / "junk.crt").write_text("no certificate\n")
    return directory


def said(directory: Path, *lines: str, started: int = 1 << 60, pid: int | None = None) -> str:
    """What is said of a configuration of these lines, whose ServerRoot is the directory.

    Args:
        directory: where the main file is written.
        lines: what it says.
        started: when the server was, in ticks since boot: after all files, unless it is said.
        pid: its first process; None for one that sees what we see.
    """
    main, parent = directory / "main.conf", SimpleNamespace(pid=pid or os.getpid(), buckets=1, started=started)
    main.write_text("\n".join(lines))
    return fatal(evaluate(Origin(main, directory)), directory, cast(Parent, parent)).replace(f"{directory}/", "")


def host(certificate: str, key: str) -> list[str]:
    lines = (f"SSLCertificateFile {certificate}", f"SSLCertificateKeyFile {key}")
    return ["<VirtualHost *:443>", *lines, "</VirtualHost>"]


@pytest.mark.parametrize(("certificate", "key"), [(EC, ALSO_EC), (RSA, EC), (EC, RSA)])
def test_a_key_of_another_certificate_is_named(pairs: Path, certificate: str, key: str) -> None:
    assert said(pairs, *host(f"{certificate}.crt", f"{certificate}.key")) == ""
    assert said(pairs, *host(f"{certificate}.crt", f"{key}.key")) == (
        "the key in main.conf:3 is not that of the certificate in main.conf:2: put both there"
    )


def test_each_key_is_compared_with_its_own_certificate(pairs: Path) -> None:
    both = [*host("ec.crt", "ec.key"), *host("rsa.crt", "rsa.key")]
    assert said(pairs, *both) == ""
    wrong = [*both, *host("other.crt", "ec.key")]
    assert "main.conf:11 is not that of the certificate in main.conf:10" in said(pairs, *wrong)
    shared = [*host("rsa.crt", "rsa.key"), *host("ec.crt", "rsa.key")]  # one key for all hosts, as for *.example.org
    assert "main.conf:7 is not that of the certificate in main.conf:6" in said(pairs, *shared)
    of_two = ["SSLCertificateFile ec.crt", "SSLCertificateFile rsa.crt"]
    assert said(pairs, *of_two, "SSLCertificateKeyFile ec.key", "SSLCertificateKeyFile rsa.key") == ""


@pytest.mark.parametrize(
    ("certificate", "key"),
    [("secret.crt", "secret.key"), ("ec.crt", "secret.key"), ("ec.crt", "gone.key")],
)
def test_what_cannot_be_read_as_apache_does_is_not_judged(pairs: Path, certificate: str, key: str) -> None:
    assert said(pairs, *host(certificate, key)) == ""
    of_two = [f"SSLCertificateFile {certificate}", "SSLCertificateFile rsa.crt"]
    assert said(pairs, *of_two, f"SSLCertificateKeyFile {key}") == ""
    assert said(pairs, *host("pkcs11:token=a", "pkcs11:token=b")) == ""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("SSLCertificateFile {}", "ec.crt"),
        ("SSLCertificateKeyFile {}", "ec.key"),
        ("SSLCertificateKeyFile {}", "secret.key"),
        ("SSLCACertificateFile {}", "ec.crt"),
        ("SSLCADNRequestFile {}", "ec.crt"),
        ("SSLCARevocationCheck chain\nSSLCARevocationFile {}", "ec.crt"),
    ],
)
def test_a_file_that_was_written_half_or_is_another_kind_of_text_is_named(
    pairs: Path, tmp_path: Path, line: str, text: str
) -> None:
    """Apache's own test passes, and it ended in the first trial's reload."""
    whole, file = (pairs / text).read_bytes(), tmp_path / "file"
    lines = ("<VirtualHost *:443>", line.format(file), "</VirtualHost>")
    file.write_bytes(whole)
    assert said(pairs, *lines) == ""
    for spoilt in (whole[: len(whole) // 2], b"<html>no space left</html>\n", b""):
        file.write_bytes(spoilt)
        assert f"{file} (main.conf:" in said(pairs, *lines) and "not whole" in said(pairs, *lines)
        assert said(pairs, lines[0], "SSLEngine off", *lines[1:]) == ""
    file.unlink()
    assert said(pairs, *lines) == "", "that is for its own test to tell"


def test_a_chain_is_named_where_a_certificate_of_it_is_not_whole_and_may_have_none(
    pairs: Path, tmp_path: Path
) -> None:
    file, whole = tmp_path / "chain", (pairs / "ec.crt").read_bytes()
    for text, named in ((whole, False), (whole + whole[: len(whole) // 2], True), (whole[:300], True), (b"", False)):
        file.write_bytes(text)
        assert (f"{file} (main.conf:" in said(pairs, f"SSLCertificateChainFile {file}")) == named


def test_a_key_of_tickets_that_is_too_short_is_named(pairs: Path, tmp_path: Path) -> None:
    file = tmp_path / "tickets"
    file.write_bytes(bytes(48))
    assert said(pairs, f"SSLSessionTicketKeyFile {file}") == ""
    file.write_bytes(bytes(47))
    assert f"{file} (main.conf:" in said(pairs, f"SSLSessionTicketKeyFile {file}")


def test_revoked_ones_that_nobody_checks_are_not_looked_at(pairs: Path) -> None:
    assert said(pairs, "SSLCARevocationFile junk.crt") == said(pairs, "SSLCARevocationCheck none") == ""


def test_lists_of_those_that_servers_behind_it_may_not_have_are_looked_at_where_they_are_checked(pairs: Path) -> None:
    lines = ("SSLProxyEngine on", "SSLProxyCARevocationFile junk.crt")
    assert "junk.crt (main.conf:2) is not whole" in said(pairs, *lines, "SSLProxyCARevocationCheck leaf")
    assert said(pairs, *lines, "SSLProxyCARevocationCheck none") == said(pairs, *lines) == ""
    assert said(pairs, *lines[1:], "SSLProxyCARevocationCheck leaf") == ""


def test_issuers_of_servers_behind_it_are_looked_at_where_it_speaks_tls_with_them(
    pairs: Path, tmp_path: Path
) -> None:
    file, whole = tmp_path / "file", (pairs / "ec.crt").read_bytes()
    line = f"SSLProxyCACertificateFile {file}"
    within = ("<VirtualHost *:80>", line, "SSLProxyEngine {}", "</VirtualHost>")
    file.write_bytes(whole)
    assert said(pairs, "SSLProxyEngine on", line) == ""
    file.write_bytes(whole[: len(whole) // 2])
    assert f"{file} (main.conf:2) is not whole" in said(pairs, "SSLProxyEngine on", line)
    assert f"{file} (main.conf:2) is not whole" in said(pairs, *(one.format("On") for one in within))
    assert said(pairs, line) == said(pairs, "SSLProxyEngine on", *(one.format("off") for one in within)) == ""


@pytest.mark.parametrize(
    ("outside", "inside", "why"),
    [
        ("", "SSLEngine on", "TLS is on in main.conf:3 without an SSLCertificateFile: add one"),
        ("SSLCertificateFile ec.crt\nSSLCertificateKeyFile ec.key", "SSLEngine on", ""),
        ("LoadModule md_module mod_md.so", "SSLEngine on", ""),
        ("Use Certificates", "SSLEngine on", ""),
        ("", "SSLEngine off", ""),
        ("", "SSLEngine optional", ""),
        ("", "SSLProxyEngine on", ""),
        ("SSLUseStapling on", "SSLEngine on\nSSLCertificateFile ec.crt", "SSLUseStapling is on for main.conf:3"),
        ("SSLUseStapling on", "SSLEngine on\nSSLCertificateFile ec.crt\nSSLUseStapling off", ""),
        ("SSLUseStapling on\nSSLStaplingCache shmcb:x", "SSLEngine on\nSSLCertificateFile ec.crt", ""),
    ],
)
def test_what_the_tls_of_a_new_virtual_host_lacks_is_named(
    pairs: Path, monkeypatch: pytest.MonkeyPatch, outside: str, inside: str, why: str
) -> None:
    monkeypatch.setattr("trimtab.plants.apache.configuration.require_trusted", lambda path: None)
    found = said(pairs, outside, "<VirtualHost *:443>", *inside.split("\n"), "</VirtualHost>").replace(":4", ":3")
    assert found.startswith(why) and bool(found) is bool(why)


@pytest.mark.parametrize(
    ("lines", "waiting_s"),
    [
        ("SSLUseStapling off", None),
        ("SSLUseStapling on", 10),
        ("SSLUseStapling On\nSSLStaplingResponderTimeout 3", 3),
    ],
)
def test_how_long_a_handshake_waits_for_a_responder_that_does_not_answer(
    tmp_path: Path, lines: str, waiting_s: int | None
) -> None:
    (tmp_path / "main.conf").write_text(lines)
    assert stapling_s(evaluate(Origin(tmp_path / "main.conf", tmp_path))) == waiting_s


def test_a_log_that_cannot_be_opened_any_more_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache's own test passes, and a reload ended it."""

    def said_of(line: str) -> str:
        (tmp_path / "main.conf").write_text(line)
        found = unopened(evaluate(Origin(tmp_path / "main.conf", tmp_path)), tmp_path, Path("/"))
        return found.replace(f"{tmp_path}/", "")

    (tmp_path / "logs").mkdir()
    (tmp_path / "access.log").touch()
    assert said_of("CustomLog logs common") == "the log logs (main.conf:1) is a directory: mend that"
    gone = f"{tmp_path}/rotatelogs, which writes a log (main.conf:1), is not there: put it back"
    assert said_of(f'ErrorLog "|{tmp_path}/rotatelogs x 86400"') == gone.replace(f"{tmp_path}/", "")
    assert said_of(f'CustomLog "||{tmp_path}/rotatelogs x" common') == gone.replace(f"{tmp_path}/", "")
    fine = ("access.log", "new.log", "gone/new.log", "syslog:local1", "/dev/null", f"|{tmp_path}/access.log", "|$x")
    assert {said_of(f'ErrorLog "{name}"') for name in (*fine, f"|{tmp_path}/my\\ logs/rotatelogs x")} == {""}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    for name in ("access.log", "new.log"):
        assert said_of(f"TransferLog {name}") == (
            f"the log {name} (main.conf:1) is on a file system that is read-only: mend that"
        )
    assert {said_of(f"ErrorLog {name}") for name in ("/dev/null", "/proc/self/fd/2", "syslog")} == {""}
    # As in a container whose own files are read-only, and whose image writes a log in them.
    assert said_of("ErrorLog access.log\nErrorLog /dev/stderr") == "", "a server has one of these, the last"
    assert "log access.log (main.conf:1)" in said_of("CustomLog access.log common\nCustomLog /dev/stderr common")
    host = "<VirtualHost *:80>\nErrorLog access.log\n</VirtualHost>\nErrorLog /dev/stderr"
    assert "log access.log (main.conf:2)" in said_of(host), "a virtual host has its own"


@pytest.mark.parametrize("host", ["127.0.0.1:", "0.0.0.0:", "[::1]:", ""])
def test_a_new_listener_at_what_another_server_has_is_named(tmp_path: Path, host: str) -> None:
    """Apache's own test passes, and the reload at the end of a run brought the operator's line into force."""
    at = ("::1", socket.AF_INET6) if host == "[::1]:" else ("127.0.0.1", socket.AF_INET)

    def said_of(line: str, *held: int) -> str:
        (tmp_path / "main.conf").write_text(line)
        return taken(evaluate(Origin(tmp_path / "main.conf", tmp_path)), held, os.getpid())

    left = list[int]()  # several, since other tests may take one of them at once
    for _ in range(3):
        with socket.create_server((at[0], 0), family=at[1]) as other:
            left.append(other.getsockname()[1])
    assert any(said_of(f"Listen {host}{port}") == "" for port in left)
    with socket.create_server((at[0], 0), family=at[1]) as other:
        port = other.getsockname()[1]
        where = f"another server listens at {host}{port} ({tmp_path}/main.conf:1): end that, or take the line out"
        assert said_of(f"Listen {host}{port} https") == where
        assert said_of(f"Listen {host}{port}", 80, port) == "", "that is its own"
        assert said_of(f"Listen localhost:{port}") == said_of("Listen 99999") == "", "which is for Apache to judge"


def test_what_it_listens_at_since_trimtab_came_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apache, held = object.__new__(Attached), list[tuple[str, int]]()
    apache.origin, apache.reading_s = Origin(tmp_path / "main.conf", tmp_path), 0.1
    vars(apache).update(
        listeners=[], master=SimpleNamespace(pid=os.getpid(), started=1, buckets=1, signal=lambda number: None)
    )
    monkeypatch.setattr(attached, "listeners", lambda pid: held)
    with socket.create_server(("127.0.0.1", 0)) as other:
        (tmp_path / "main.conf").write_text(f"Listen 127.0.0.1:{other.getsockname()[1]}")
        apache._config = evaluate(apache.origin)
        with pytest.raises(UsageError, match=r"would end in a reload, .* another server listens at"):
            apache.permitted()
        held.append(other.getsockname())
        apache.permitted()


@pytest.mark.parametrize("name", ["PidFile", "ForensicLog"])
def test_a_directory_that_is_gone_and_its_own_test_does_not_look_at_is_named(tmp_path: Path, name: str) -> None:
    line = f"{name} {tmp_path}/run/file"
    assert said(tmp_path, line) == "the directory of run/file (main.conf:1) is not there: make it"
    (tmp_path / "run").mkdir()
    assert said(tmp_path, line) == said(tmp_path, "ForensicLog |/usr/bin/cat") == said(tmp_path, "PidFile x/y") == ""
    assert said(tmp_path, "PidFile /${run}/x") == ""


def test_a_log_of_mod_jk_whose_directory_is_gone_or_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """It "could not open JkLog file", and Apache ends (AH00016)."""
    gone = "the directory of run/jk.log (main.conf:2) is not there: make it"
    assert said(tmp_path, "LogLevel info", "JkLogFile run/jk.log") == gone
    assert said(tmp_path, "JkLogFile run/jk.log", "JkLogFile jk.log") == "", "the last of a host's"
    assert said(tmp_path, 'JkLogFile "|/usr/bin/rotatelogs /run/no/jk.log 86400"') == ""
    (tmp_path / "run" / "jk.log").mkdir(parents=True)
    assert said(tmp_path, "JkLogFile run/jk.log") == ""
    found = unopened(evaluate(Origin(tmp_path / "main.conf", tmp_path)), tmp_path, Path("/"))
    assert found == f"the log {tmp_path}/run/jk.log ({tmp_path}/main.conf:1) is a directory: mend that"


def test_a_list_of_types_or_a_caches_directory_that_its_own_test_does_not_look_for_is_named(tmp_path: Path) -> None:
    types, line = tmp_path / "mime.types", "TypesConfig mime.types"
    assert said(tmp_path, line) == "mime.types (main.conf:1) is no file: put back what was there"
    types.mkdir()
    assert said(tmp_path, line) == "mime.types (main.conf:1) is no file: put back what was there"
    types.rmdir()
    types.touch()
    assert said(tmp_path, line) == said(tmp_path, "TypesConfig ${TYPES}") == ""
    gone = "the directory of dbm:cache/tls (main.conf:1) is not there: make it"
    assert said(tmp_path, "SSLSessionCache dbm:cache/tls") == gone
    (tmp_path / "cache").mkdir()
    for cache in ("dbm:cache/tls", "shmcb:gone/tls(512000)", "nonenotnull", "dbm:${CACHE}/tls"):
        assert said(tmp_path, f"SSLStaplingCache {cache}") == ""


@pytest.mark.parametrize(("engines", "looked_at"), [("Off", False), ("On", True), ("optional", True), ("", True)])
def test_where_tls_is_off_nobody_looks_at_a_key(pairs: Path, engines: str, looked_at: bool) -> None:
    first, *rest = host("ec.crt", "rsa.key")
    assert bool(said(pairs, first, *([f"SSLEngine {engines}"] if engines else []), *rest)) is looked_at
    assert bool(said(pairs, "SSLEngine off", *rest[:-1])), "a virtual host may have them, and its engine on"
    assert said(pairs, "<VirtualHost *:80>", "SSLEngine off", "</VirtualHost>", *host("ec.crt", "rsa.key")) != ""


def test_hosts_with_the_same_words_are_told_apart_and_what_they_include_is_theirs(pairs: Path) -> None:
    first, *rest = host("ec.crt", "rsa.key")
    _, *right = host("ec.crt", "ec.key")
    assert said(pairs, first, "SSLEngine off", *rest, first, "SSLEngine on", *right) == ""
    alone = [first, "SSLCertificateFile secret.crt", "</VirtualHost>"]  # that file may hold its key
    assert "main.conf:6 is not that of the certificate in main.conf:5" in said(pairs, *alone, first, *rest)
    for engine, looked_at in (("off", False), ("on", True)):
        (pairs / "engine.inc").write_text(f"SSLEngine {engine}\n")
        assert bool(said(pairs, first, "Include engine.inc", *rest)) is looked_at


def test_within_a_macro_only_apache_knows_the_files(pairs: Path) -> None:
    assert said(pairs, "<Macro Site $name>", *host("ec.crt", "rsa.key"), "</Macro>") == ""


def test_neither_a_change_nor_what_comes_before_it_is_passed_then(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.conf").write_text("\n".join(host(f"{pairs}/ec.crt", f"{tmp_path}/key")))
    (tmp_path / "key").write_text((pairs / "rsa.key").read_text())
    apache = object.__new__(Attached)
    apache.origin = Origin(tmp_path / "main.conf", tmp_path)
    apache._config = evaluate(apache.origin)
    verdict = Verdict(True, "")
    parts = {"master": SimpleNamespace(pid=os.getpid(), started=1, buckets=1, signal=lambda number: None)}
    vars(apache).update(parts, listeners=[], program=SimpleNamespace(test=lambda named: verdict))
    monkeypatch.setattr(attached, "vet", lambda master: None)
    assert not apache.test().valid and "though its own test passes: " in apache.test().message
    with pytest.raises(UsageError, match="would end in a reload"):
        apache.permitted()
    (tmp_path / "key").write_text((pairs / "ec.key").read_text())
    assert apache.test() is verdict
    apache.permitted()


@pytest.mark.parametrize(
    ("argv", "line"), [(("httpd", "-X"), ""), (("httpd", "-D", "ONE_PROCESS"), ""), (("httpd",), "Define DEBUG")]
)
def test_one_that_serves_in_its_first_process_is_not_signalled_as_prefork_ends_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], line: str
) -> None:
    (tmp_path / "main.conf").write_text(f"{line}\n")
    apache, workers = object.__new__(Attached), list[tuple[int, ...]]([()])
    defines = frozenset(value for letter, value in _options(argv[1:]) if letter == "D")
    apache.origin = Origin(tmp_path / "main.conf", tmp_path, defines)
    apache._config, apache.reading_s = evaluate(apache.origin), 0.1
    vars(apache).update(listeners=[], master=SimpleNamespace(pid=1, started=1, buckets=1, signal=lambda number: None))
    monkeypatch.setattr(attached, "generations", lambda parent, pipes: Generations(workers[-1], ()))
    with pytest.raises(UsageError, match=r"serves in its first process alone \(-X, .*cannot be reloaded"):
        apache.permitted()
    workers.append((7,))  # the line came after its start, or whoever gave the option has a program of his own
    apache.permitted()


WSGI, FASTCGI = ("WSGIDaemonProcess site processes=2",), ("LoadModule fcgid_module modules/mod_fcgid.so",)


@pytest.mark.parametrize(
    ("lines", "who"),
    [
        (WSGI, "mod_wsgi's daemons (main.conf:1) with requests of more than 3 s"),
        (FASTCGI, "mod_fcgid's programs with requests of more than 1 s"),
    ],
)
def test_processes_of_modules_that_a_reload_ends_are_named_and_have_to_be_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], who: str
) -> None:
    (tmp_path / "main.conf").write_text("\n".join(lines))
    apache = object.__new__(Attached)
    apache.master = Parent(os.getpid(), 1, Path("/x"), (), 0)
    apache.origin = Origin(tmp_path / "main.conf", tmp_path)
    apache._config = evaluate(apache.origin)
    monkeypatch.setattr(attached, "programs", lambda parent: (7,))
    assert apache.ended().replace(f"{tmp_path}/", "") == f"a reload ends {who}"
    monkeypatch.setattr(OwnFilePlant, "check_reload", lambda plant, accept_lost: None)
    monkeypatch.setattr(OwnFilePlant, "check_alone", lambda plant, knobs=(): None)
    plant = object.__new__(Apache)
    vars(plant).update(_server=apache, _accept_lost=True)
    plant.check_permissions()
    assert not apache.spares
    vars(plant).update(_accept_lost=False)
    with pytest.raises(UsageError, match=r"accept it with --accept-lost-requests$"):
        plant.check_permissions()
    assert apache.spares
    monkeypatch.setattr(attached, "programs", lambda parent: ())
    assert bool(apache.ended()) is (lines == WSGI), "mod_fcgid may be loaded and run nothing"


def test_without_such_processes_a_reload_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("LoadModule cgid_module modules/mod_cgid.so\n")
    assert ended(evaluate(Origin(tmp_path / "main.conf", tmp_path)), 1, True) == ""


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("", True),
        ("WSGIDestroyInterpreter On", True),
        ("WSGIDestroyInterpreter Off", False),
        ("LoadModule mpm_prefork_module modules/mod_mpm_prefork.so", False),
    ],
)
def test_processes_with_threads_that_python_keeps_from_ending_are_named(
    tmp_path: Path, line: str, stays: bool
) -> None:
    main = tmp_path / "main.conf"
    main.write_text(f"{line}\nWSGIScriptAlias / app.wsgi\n")
    said = ended(evaluate(Origin(main, tmp_path)), 1, False)
    assert (f"leaves each process that has served an application of mod_wsgi ({main}:2)" in said) is stays


@pytest.mark.parametrize(
    ("line", "forgotten"),
    [
        ("BalancerMember http://127.0.0.1:8080 hcmethod=GET hcuri=/health", True),
        ("BalancerMember http://127.0.0.1:8080 HCTemplate=often", True),
        ("ProxySet hcmethod=TCP", True),
        ("BalancerMember http://127.0.0.1:8080 hcmethod=None", False),
        ("BalancerMember http://127.0.0.1:8080 retry=5", False),
        ("BalancerMember http://127.0.0.1:8080 hcmethod=GET\nBalancerPersist On", False),
        ("BalancerMember http://127.0.0.1:8080 hcmethod=GET\nBalancerPersist On\nBalancerPersist Off", True),
    ],
)
def test_that_members_which_health_checks_have_taken_out_come_back_has_to_be_accepted(
    tmp_path: Path, line: str, forgotten: bool
) -> None:
    main = tmp_path / "main.conf"
    main.write_text(f"<Proxy balancer://shop>\n{line}\n</Proxy>\n")
    said = ended(evaluate(Origin(main, tmp_path)), 1, False)
    assert (f"that health checks ({main}:2) have taken out" in said) is forgotten
    assert ("'BalancerPersist On' in each virtual host that uses them keeps them out" in said) is forgotten


@pytest.mark.parametrize(
    ("outside", "inside", "kept"),
    [
        ("BalancerPersist On", "ProxyPass / balancer://shop/", False),
        ("", "ProxyPass / balancer://shop/\nBalancerPersist On", True),
        ("BalancerPersist On", "RewriteRule ^ balancer://shop/ [P]", False),
        ("BalancerPersist On\nProxyPass / balancer://shop/", "", False),
        ("BalancerPersist On\nProxyPass / balancer://shop/", "BalancerPersist On", True),
    ],
)
def test_a_virtual_host_keeps_members_out_by_a_line_of_its_own_alone(
    tmp_path: Path, outside: str, inside: str, kept: bool
) -> None:
    main, member = tmp_path / "main.conf", "BalancerMember http://127.0.0.1:8080 hcmethod=GET"
    host = f"<VirtualHost *:80>\nServerName shop\n{inside}\n</VirtualHost>\n"
    main.write_text(f"<Proxy balancer://shop>\n{member}\n</Proxy>\n{outside}\n{host}")
    assert (ended(evaluate(Origin(main, tmp_path)), 1, False) == "") is kept


def test_files_that_modules_read_after_all_that_apaches_own_test_looks_at_are_known(tmp_path: Path) -> None:
    """Tried: with a mistake in a module of PerlModule `-t` said "Syntax OK", and the reload ended Apache."""
    lines = ("JkWorkersFile conf/workers.properties", "PerlRequire /srv/startup.pl", "PerlRequire ${WHERE}/x.pl")
    perl = (f"PerlSwitches -w -I /none -Mlib={tmp_path}/lib", "PerlModule Of::Ours Of::Debian")
    (tmp_path / "main.conf").write_text("\n".join((*lines, *perl)))
    ours = tmp_path / "lib" / "Of" / "Ours.pm"
    ours.parent.mkdir(parents=True)
    ours.touch()
    (tmp_path / "php.ini").write_text('a = 1\nopcache.preload = "/srv/preload.php" ; all\n;opcache.preload=/no\n')
    found = evaluate(Origin(tmp_path / "main.conf", tmp_path))
    found.directives.append(Directive("", ("seen",), tmp_path / "php.ini", 0))  # as that of mod_php is kept
    named = [f"{tmp_path}/conf/workers.properties", "/srv/startup.pl", f"{ours}", "/srv/preload.php"]
    assert list(map(str, unread(found, tmp_path))) == named


@pytest.mark.parametrize("edited", [True, False])
def test_one_that_was_changed_after_apache_read_it_is_the_operators_to_bring_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: bool
) -> None:
    (tmp_path / "main.conf").write_text("JkWorkersFile workers.properties\n")
    apache, there = object.__new__(Attached), tmp_path / "workers.properties"
    apache.origin = Origin(tmp_path / "main.conf", tmp_path)
    apache._config, apache.reading_s = evaluate(apache.origin), 0.1
    vars(apache).update(
        listeners=[], master=SimpleNamespace(pid=os.getpid(), buckets=1, started=0, signal=lambda number: None)
    )
    monkeypatch.setattr(Attached, "generations", lambda self: Generations((1,), ()))
    monkeypatch.setattr(attached, "changed_after", lambda files, ticks: next(iter(files)) if edited else None)
    if edited:
        with pytest.raises(UsageError, match=f"{there} was changed after Apache last read it, .* yourself"):
            apache.permitted()
    else:
        apache.permitted()
