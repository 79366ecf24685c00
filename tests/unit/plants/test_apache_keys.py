"""Certificates and keys that would end Apache in a reload: judged anew where they change, and as it sees them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.plants.test_apache_hazards import host, pairs, said
from trimtab.plants._view import gone, seen
from trimtab.plants.apache import tls
from trimtab.plants.apache.configuration import Origin, evaluate
from trimtab.plants.apache.hazards import unopened
from trimtab.trust import open_trusted

__all__ = ["pairs"]
AT_BOOT = 0
"""A start before all files of the test."""


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are opened, from now on; none has to be older than others before it is known."""
    opened, found = open_trusted, list[Path]()

    def look(path: Path) -> int:
        found.append(path)
        return opened(path)

    monkeypatch.setattr(tls, "open_trusted", look)
    monkeypatch.setattr(tls, "_SETTLED_NS", -(10**9))
    return found


def test_what_was_judged_is_judged_anew_only_where_a_file_has_changed(
    pairs: Path, tmp_path: Path, looked: list[Path]
) -> None:
    """Each host took 2.3 ms of the server's CPU before each change."""
    certificate, key, lines = tmp_path / "crt", tmp_path / "key", host(f"{tmp_path}/crt", f"{tmp_path}/key")
    shutil.copy(pairs / "ec.crt", certificate)
    shutil.copy(pairs / "ec.key", key)
    assert said(pairs, *lines) == "" and {certificate, key} <= set(looked)
    looked.clear()
    assert said(pairs, *lines) == "" and not looked
    shutil.copy(pairs / "rsa.key", key)
    assert "the key in main.conf:3 is not that" in said(pairs, *lines) and key in looked
    looked.clear()
    assert "the key in main.conf:3 is not that" in said(pairs, *lines) and not looked
    key.write_text("no space left")
    assert f"{key} (main.conf:3) is not whole" in said(pairs, *lines) and key in looked


def test_another_file_of_the_same_size_and_time_is_seen(pairs: Path, tmp_path: Path, looked: list[Path]) -> None:
    key, other = tmp_path / "key", tmp_path / "other"
    shutil.copy(pairs / "ec.key", key)
    before = key.stat()
    assert said(pairs, *host("ec.crt", f"{key}")) == ""
    shutil.copy(pairs / "other.key", other)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(key)
    assert (key.stat().st_size, key.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert "the key in main.conf:3 is not that" in said(pairs, *host("ec.crt", f"{key}"))


def test_a_file_that_was_just_written_is_looked_at_again_as_its_time_may_not_tell(
    pairs: Path, tmp_path: Path, looked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_SETTLED_NS", 10**15)
    shutil.copy(pairs / "ec.crt", tmp_path / "crt")
    for _ in range(2):
        looked.clear()
        assert said(pairs, f"SSLCACertificateFile {tmp_path}/crt") == "" and looked == [tmp_path / "crt"]


def test_a_file_that_others_could_change_is_judged_once_they_no_longer_can(
    pairs: Path, tmp_path: Path, looked: list[Path]
) -> None:
    directory = tmp_path / "open"
    directory.mkdir()
    (directory / "crt").write_text("<html>")
    directory.chmod(0o777)
    assert said(pairs, f"SSLCACertificateFile {directory}/crt") == "" and looked
    directory.chmod(0o755)
    assert "open/crt (main.conf:1) is not whole" in said(pairs, f"SSLCACertificateFile {directory}/crt")


@pytest.mark.parametrize(
    ("dialog", "asks"),
    [
        ("", True),
        ("builtin", True),
        ("exec:/usr/share/apache2/ask-for-passphrase", True),
        ("exec:/usr/libexec/httpd-ssl-pass-dialog", True),
        ("exec:/etc/apache2/phrase", False),
        ("|/usr/local/sbin/phrase", False),
    ],
)
def test_a_key_with_a_pass_phrase_that_came_since_its_start_is_named_where_somebody_would_be_asked(
    pairs: Path, dialog: str, asks: bool
) -> None:
    lines = [f"SSLPassPhraseDialog {dialog}" if dialog else "", *host("secret.crt", "secret.key")]
    found = said(pairs, *lines, started=AT_BOOT)
    assert found.startswith("secret.key (main.conf:4) was replaced since its start") is asks
    assert bool(found) is asks
    assert said(pairs, *lines) == "", "it was there at its start, and Apache keeps it"
    assert said(pairs, *lines[:2], "SSLEngine off", *lines[2:], started=AT_BOOT) == ""
    assert said(pairs, *host("ec.crt", "ec.key"), started=AT_BOOT) == ""


def test_such_a_key_is_known_in_older_form_and_in_its_certificates_file(pairs: Path, tmp_path: Path) -> None:
    old, both = tmp_path / "old.key", tmp_path / "both"
    words = ("openssl", "ec", "-in", pairs / "ec.key", "-aes128", "-passout", "pass:word", "-out", old)
    subprocess.run(words, check=True, capture_output=True)
    assert b"Proc-Type: 4,ENCRYPTED" in old.read_bytes()
    assert f"{old} (main.conf:3) was replaced" in said(pairs, *host("ec.crt", f"{old}"), started=AT_BOOT)
    both.write_bytes((pairs / "secret.crt").read_bytes() + (pairs / "secret.key").read_bytes())
    assert f"{both} (main.conf:1) was replaced" in said(pairs, f"SSLCertificateFile {both}", started=AT_BOOT)


@pytest.mark.parametrize("section", ["MDomain", "MDomainSet"])
def test_what_mod_md_has_mod_ssl_read_is_looked_at_too(pairs: Path, tmp_path: Path, section: str) -> None:
    """Apache's own test passed, and it ended in the next reload."""

    def managed(certificate: object, key: object) -> list[str]:
        lines = (f"MDCertificateFile {certificate}", f"MDCertificateKeyFile {key}")
        return [f"<{section} localhost>", *lines, f"</{section}>"]

    assert said(pairs, *managed("ec.crt", "ec.key")) == said(pairs, *managed("secret.crt", "secret.key")) == ""
    assert "the key in main.conf:3 is not that" in said(pairs, *managed("ec.crt", "rsa.key"))
    assert "gone.crt (main.conf:2) is no file" in said(pairs, *managed("gone.crt", "ec.key")).replace(f"{pairs}/", "")
    assert "junk.crt (main.conf:2) is not whole" in said(pairs, *managed("junk.crt", "ec.key"))
    assert "junk.crt (main.conf:3) is not whole" in said(pairs, *managed("ec.crt", "junk.crt"))
    replaced = said(pairs, *managed("secret.crt", "secret.key"), started=AT_BOOT)
    assert "secret.key (main.conf:3) was replaced" in replaced


@pytest.mark.parametrize(("line", "store"), [("", "md"), ("MDStoreDir /a\nMDStoreDir own", "own")])
def test_a_store_of_mod_md_that_has_become_read_only_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, store: str
) -> None:
    """A reload ended Apache, whether or not mod_md had a certificate to look after."""
    (tmp_path / store).mkdir()
    (tmp_path / store / "md_store.json").touch()

    def said_of(*lines: str) -> str:
        (tmp_path / "main.conf").write_text("\n".join(lines))
        return unopened(evaluate(Origin(tmp_path / "main.conf", tmp_path)), tmp_path, Path("/"))

    monkeypatch.setattr("trimtab.plants.apache.configuration.require_trusted", lambda path: None)
    module = "LoadModule md_module mod_md.so"
    assert said_of(module, line) == ""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    said = f"mod_md's store {tmp_path}/{store} is on a file system that is read-only: mend that"
    assert (said_of(module, line), said_of(line)) == (said, "")


@pytest.mark.parametrize("name", ["PidFile", "ForensicLog"])
@pytest.mark.root
def test_a_directory_that_only_the_server_sees_is_there(tmp_path: Path, name: str) -> None:
    """A service with a /tmp of its own was refused, as the directory is not in ours."""
    own = tmp_path / "own"
    own.mkdir()
    made = f"mount -t tmpfs none {own} && mkdir {own}/run && echo made && exec cat"
    words = ["unshare", "--mount", "sh", "-c", made]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == "made\n" and not (own / "run").exists()
        assert said(tmp_path, f"{name} {own}/run/file", pid=server.pid) == ""
        gone = "the directory of own/gone/file (main.conf:1) is not there: make it"
        assert said(tmp_path, f"{name} {own}/gone/file", pid=server.pid) == gone
        server.stdin.close()


def test_links_are_followed_as_the_server_sees_them(tmp_path: Path) -> None:
    (tmp_path / "run" / "lock").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    for name, target in {"run": "/run", "up": "../run/lock", "out": "../../../../run", "loop": "loop"}.items():
        (tmp_path / "var" / name).symlink_to(target)
    for name in ("run/lock", "up", "out/lock"):
        assert seen(Path("/var", name), tmp_path) == tmp_path / "run" / "lock"
    assert seen(Path("/var/none/x"), tmp_path) == tmp_path / "var" / "none" / "x"
    assert gone(seen(Path("/var/loop/x"), tmp_path)) is False


def test_what_is_in_a_token_is_for_apache_to_judge(pairs: Path) -> None:
    token = "pkcs11:token=a;object=b?pin-source=/etc/pin"
    assert said(pairs, *host("ec.crt", f'"{token}"'), started=AT_BOOT) == ""
    assert said(pairs, *host(f'"{token}"', f'"{token}"'), started=AT_BOOT) == ""


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["<VirtualHost *:443>", "SSLEngine on", "</VirtualHost>", "<VirtualHost *:80>", "</VirtualHost>"], {443}),
        (["<VirtualHost _default_:8443 [::1]:9443>", "SSLEngine On", "</VirtualHost>"], {8443, 9443}),
        (["<VirtualHost *:443>", "SSLEngine off", "</VirtualHost>"], set()),
        (["<VirtualHost *:443>", "SSLEngine optional", "</VirtualHost>"], set()),
        (["<VirtualHost [2001:db8::1]>", "SSLEngine on", "</VirtualHost>"], {80, 443}),
        (["SSLEngine on"], {80, 443}),
        (["SSLCertificateFile /etc/ssl/one.pem"], set()),
    ],
)
def test_at_which_ports_clients_shake_hands_for_tls(tmp_path: Path, lines: list[str], wanted: set[int]) -> None:
    (tmp_path / "main.conf").write_text("\n".join(lines))
    assert tls.ports(evaluate(Origin(tmp_path / "main.conf", tmp_path)), [80, 443]) == wanted
