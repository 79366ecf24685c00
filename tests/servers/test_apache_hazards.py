"""A reload that Apache would not outlive is not made, though its own test passes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.servers._private_apache import MPMS, children, private, reload
from tests.servers._under_gate import PATIENCE_S, until
from trimtab.errors import ApplyFailed, ApplyRefused, UsageError
from trimtab.plants._included_files import _CLOCKS_DIFFER_S
from trimtab.plants.apache import process, status
from trimtab.processes import descriptors
from trimtab.testbed import apache_config
from trimtab.testbed._private import DIRECT
from trimtab.testbed.apache import module_directory
from trimtab.testbed.apache_config import Mpm

pytestmark = [pytest.mark.server, pytest.mark.apache]

CLOCKS_DIFFER_S = 1.5
"""What is written sooner after a process was started may have been there before."""


def made(directory: Path, name: str) -> bytes:
    """A new certificate of this name there, and its key, which is not written."""
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-subj", "/CN=localhost")
    files = ("-keyout", directory / "made.key", "-out", directory / name)
    subprocess.run(["openssl", "req", "-x509", *kind, *files], check=True, capture_output=True)
    return (directory / "made.key").read_bytes()


def tls(directory: Path) -> str:
    """A virtual host with the certificate there, in whose fifth line its key is."""
    return (
        f"LoadModule ssl_module {module_directory()}/mod_ssl.so\n<VirtualHost *:1>\nSSLEngine On\n"
        f"SSLCertificateFile {directory}/site.crt\nSSLCertificateKeyFile {directory}/site.key\n</VirtualHost>\n"
    )


def test_where_a_certificate_was_replaced_and_not_its_key_nothing_is_reloaded_and_apache_serves_on() -> None:
    with private("event") as bed:
        directory, start, more = bed.testbed.directory, 8 * bed.threads, 12 * bed.threads
        key = directory / "site.key"
        key.write_bytes(made(directory, "site.crt"))
        bed.write("mine.conf", tls(directory))
        reload(bed.testbed.pid)
        apache, fresh = bed.attach(), made(directory, "site.crt")
        with pytest.raises(ApplyRefused, match=r"would end in a reload, though its own test passes: .*mine\.conf:5"):
            apache.apply({"max_request_workers": more})
        assert not bed.snippet.exists() and apache.configuration()["max_request_workers"] == start
        late = bed.attach()
        assert any("would end in a reload" in note for note in late.notes)
        with pytest.raises(UsageError, match="would end in a reload"):
            late.check_permissions()
        key.write_bytes(fresh)
        apache.apply({"max_request_workers": more})
        fresh = made(directory, "site.crt")
        with pytest.raises(ApplyFailed, match=r"is as it was, but Apache was not reloaded to it: .* \(apachectl"):
            apache.restore()
        assert apache.configuration()["max_request_workers"] == more
        key.write_bytes(fresh)
        apache.restore()
        assert apache.configuration()["max_request_workers"] == start


def test_where_a_key_was_replaced_by_one_with_a_pass_phrase_nothing_is_reloaded_and_apache_serves_on() -> None:
    with private("event") as bed:
        directory, key, fresh = bed.testbed.directory, bed.testbed.directory / "site.key", 12 * bed.threads
        plain = made(directory, "site.crt")
        key.write_bytes(plain)
        bed.write("mine.conf", tls(directory))
        reload(bed.testbed.pid)
        apache = bed.attach()
        time.sleep(_CLOCKS_DIFFER_S)
        words = ("-aes128", "-passout", "pass:word", "-out", directory / "new.key")
        subprocess.run(["openssl", "pkey", "-in", key, *words], check=True, capture_output=True)
        (directory / "new.key").replace(key)
        why = r"would end in a reload, though its own test passes: .*site\.key .*mine\.conf:5\) was replaced since"
        with pytest.raises(ApplyRefused, match=why):
            apache.apply({"max_request_workers": fresh})
        assert apache.configuration()["max_request_workers"] == 8 * bed.threads
        key.write_bytes(plain)
        apache.apply({"max_request_workers": fresh})
        apache.restore()


def test_where_a_log_has_become_a_directory_nothing_is_reloaded_and_apache_serves_on() -> None:
    with private("event") as bed:
        start, more, log = 8 * bed.threads, 12 * bed.threads, bed.testbed.directory / "mine.log"
        bed.write("mine.conf", f"CustomLog {log} %r\n")
        reload(bed.testbed.pid)
        apache = bed.attach()
        log.unlink()
        log.mkdir()
        with pytest.raises(ApplyRefused, match=r"would end in a reload, though its own test passes: the log .*mine"):
            apache.apply({"max_request_workers": more})
        assert apache.configuration()["max_request_workers"] == start
        log.rmdir()
        apache.apply({"max_request_workers": more})
        apache.restore()


def test_what_a_module_runs_in_a_reload_alone_is_not_run_for_the_first_time_by_a_change_of_ours() -> None:
    """A mistake in it ends Apache, and its own test does not look."""
    with private("prefork", php=True) as bed:
        script = bed.testbed.directory / "preload.php"
        script.write_text("<?php function one() {}\n")
        settings = f"zend_extension=opcache\nopcache.preload={script}\nopcache.preload_user=nobody\n"
        (bed.testbed.directory / "php" / "php.ini").write_text(settings)
        reload(bed.testbed.pid)
        apache, start = bed.attach(), bed.attach().configuration()
        apache.apply({"max_request_workers": 6})
        time.sleep(CLOCKS_DIFFER_S)
        script.write_text("<?php function ((\n")
        with pytest.raises(ApplyRefused, match=r"preload\.php was changed after .* would end Apache .* \(apachectl"):
            apache.apply({"max_request_workers": 4})
        assert any("preload.php was changed after" in note for note in bed.attach().notes)
        script.write_text("<?php function two() {}\n")
        reload(bed.testbed.pid)
        apache.restore()
        assert apache.configuration() == start


def test_that_a_reload_loses_stapled_answers_is_said_before_the_first_change() -> None:
    with private("event") as bed:
        bed.write("mine.conf", f"LoadModule ssl_module {module_directory()}/mod_ssl.so\nSSLUseStapling On\n")
        reload(bed.testbed.pid)
        assert any("stapled OCSP answers (SSLUseStapling) are lost" in note for note in bed.attach().notes)


def test_that_a_reload_empties_a_cache_in_memory_is_said_before_the_first_change() -> None:
    modules = ("cache", "cache_disk", "cache_socache", "socache_shmcb", "headers")
    lines = [f"LoadModule {name}_module {module_directory()}/mod_{name}.so" for name in modules]
    lines += [
        "CacheEnable socache /",
        "CacheSocache shmcb",
        "CacheHeader on",
        "CacheIgnoreNoLastMod On",
        "Header set Cache-Control max-age=600",
    ]
    with private("event") as bed:
        page = f"{bed.testbed.status_url.rpartition('/')[0]}/file500.html"

        def kept() -> bool:
            with DIRECT.open(page, timeout=PATIENCE_S) as reply:
                reply.read()
                return bool(str(reply.headers["X-Cache"]).startswith("HIT"))

        bed.write("mine.conf", "\n".join([*lines, ""]))
        reload(bed.testbed.pid)
        assert [kept(), kept()] == [False, True]
        apache = bed.attach()
        assert any("mod_cache_socache keeps in memory" in note and "mine.conf:7" in note for note in apache.notes)
        apache.apply({"max_request_workers": 12 * bed.threads})
        assert not kept()
        apache.restore()
        for elsewhere in ("CacheEnable disk /\nCacheSocache shmcb", "CacheEnable socache /\nCacheSocache memcache:x"):
            bed.write("mine.conf", "\n".join([*lines[:5], elsewhere, ""]))
            assert not any("mod_cache_socache" in note for note in bed.attach().notes)


def test_that_a_reload_empties_apcu_is_said_before_the_first_change() -> None:
    with private("event") as bed:
        assert not any("APCu" in note for note in bed.attach().notes)
        module = bed.testbed.directory / "apcu.so"
        shutil.copy(module_directory() / "mod_env.so", module)
        bed.write("mine.conf", f"LoadFile {module}\n")
        reload(bed.testbed.pid)
        assert any("APCu is loaded: every change, trials and an undo too" in note for note in bed.attach().notes)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="on one CPU there is one socket at each address")
@pytest.mark.parametrize("mpm", MPMS)
def test_an_apache_with_several_sockets_at_an_address_is_changed_only_where_connections_may_be_lost(
    mpm: Mpm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent keeps the number of them, and ends where a reload finds no ListenCoresBucketsRatio any more."""
    processing, line = apache_config.processing, "ListenCoresBucketsRatio 1"
    monkeypatch.setattr(apache_config, "processing", lambda spec: [*processing(spec), line])
    with private(mpm) as bed:
        apache, more = bed.attach(), 12 * bed.threads
        assert any("wait at sockets of ListenCoresBucketsRatio" in note for note in apache.notes)
        with pytest.raises(ApplyRefused, match=r"ListenCoresBucketsRatio.*--accept-lost-requests"):
            apache.apply({"max_request_workers": more})
        accepting = bed.attach(accept_lost=True)
        assert not accepting.apply({"max_request_workers": more}).notes
        parent = process.Parent.find(bed.testbed.pid)
        seen = process.generations(parent, descriptors(parent.pid, "pipe"))
        assert parent.buckets > 1 and seen.workers and not seen.old
        file = bed.testbed.config_file
        file.write_text(file.read_text().replace(line, ""))
        with pytest.raises(ApplyFailed, match=r"would end in a reload.* no longer set"):
            accepting.restore()
        file.write_text(file.read_text() + line)
        accepting.restore()
        assert children(bed.testbed.pid)


def test_an_apache_that_would_take_our_questions_for_an_attack_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_EVASIVE", {"status_module"})  # in the place of mod_evasive
    with private("event") as bed:
        log = bed.testbed.directory / "access.log"
        bed.write("mine.conf", f"CustomLog {log} %r\n")
        reload(bed.testbed.pid)
        with pytest.raises(
            UsageError, match=r"mod_evasive .*: add 'DOSWhitelist 127\.0\.0\.1' to its settings and reload"
        ):
            bed.attach()
        assert "server-status" not in log.read_text()
        bed.write("evasive.conf", "DOSWhitelist 10.0.0.1 127.0.0.*\n")
        assert bed.attach().status_url == bed.testbed.status_url
        until(lambda: "server-status" in log.read_text(), "the page was not asked for")
