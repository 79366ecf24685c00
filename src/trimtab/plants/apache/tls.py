"""What mod_ssl looks at in a reload and Apache's own test does not: where it finds fault, Apache ends.

A certificate was replaced and not its key (AH02565), also by one of another kind; a certificate, a key or a list of
revoked ones was written half, as on a full disk, or is a page of errors; a key was replaced by one with a pass phrase
(AH02578), for which nobody is there to be asked. Or a virtual host that was just written has TLS and no certificate
(AH02572), or no cache for stapled answers (AH01958). What only Apache knows (macros, keys in a token such as
"pkcs11:...", or whose pass phrase a program has) is not judged.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.plants._included_files import changed_after
from trimtab.plants.apache.configuration import Configuration
from trimtab.plants.apache.syntax import Directive, file_of
from trimtab.trust import open_trusted

_ENGINE, _CERTIFICATE, _KEY = "sslengine", "sslcertificatefile", "sslcertificatekeyfile"
OF_MD = {"mdcertificatefile": _CERTIFICATE, "mdcertificatekeyfile": _KEY}
"""What mod_md has mod_ssl read as if it stood there (`md_add_cert_files` in its mod_md.c)."""
_TICKETS, _CHAIN = "sslsessionticketkeyfile", "sslcertificatechainfile"
_OTHERS = (_TICKETS, _CHAIN, "sslcacertificatefile", "sslcadnrequestfile", "sslcarevocationfile")
"""Issuers of the server's own certificate and of clients', those that these are told, and who is revoked."""
_STAPLING, _RESPONDER_S = "sslusestapling", 10
"""And the time that mod_ssl gives a responder unless it is told otherwise."""
_TICKET_KEY = 48
"""Bytes that a key of tickets has (`ssl_init_ticket_key`)."""
_LARGEST_KEY = 1 << 20
_WHOLE_KEY = re.compile(rb"0|MI|.*-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*-----END \1-----", re.DOTALL)
"""Where a key may be whole: without its first line Apache takes it too."""
_WITH_PHRASE = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
_DIALOG = "sslpassphrasedialog"
_ASKS_SOMEBODY = re.compile(r"builtin$|.*/(?:ask-for-passphrase|systemd-ask-password|httpd-ssl-pass-dialog)\b", re.I)
"""Whom nobody may answer in a reload: a terminal, and the programs that Debian and Red Hat ship for it."""
_MOST_FILES = 1 << 16
"""Verdicts that are remembered, of some hundred bytes each."""
_SETTLED_NS = 3_000_000_000
"""What was changed since may be changed again without another time: a file system counts in steps of up to 2 s."""
_OF_ANOTHER = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""OpenSSL's reasons where a key is not the certificate's; the last one where it is of another kind."""


def fatal(configuration: Configuration, root: Path, started: int) -> str:
    """Why mod_ssl would end Apache in a reload; empty where nothing is seen that would.

    Args:
        configuration: as it is on disk.
        root: ServerRoot.
        started: when Apache was, in clock ticks since boot.
    """
    return _unfit(configuration, root) or _asking(configuration, root, started) or _lacking(configuration)


def _unfit(configuration: Configuration, root: Path) -> str:
    """Which file of TLS is not what it is to be; empty for none.

    The first key of a virtual host is the first certificate's, and so on. Where TLS is off nobody looks at them.
    """
    names = (_ENGINE, _CERTIFICATE, _KEY, *_OTHERS)
    hosts: dict[str, dict[str, list[Directive]]] = {}
    for one in configuration.named(*names, *OF_MD):
        hosts.setdefault(one.section, {name: [] for name in names})[OF_MD.get(one.name, one.name)].append(one)
    pairs: dict[tuple[Path | None, Path | None], tuple[Directive, Directive]] = {}
    single: dict[Path | None, Directive] = {}
    checked = any(one.args[:1] not in ((), ("none",)) for one in configuration.named("sslcarevocationcheck"))
    for section, host in hosts.items():
        engines, certificates, keys, tickets, chains, issuers, told, revoked = host.values()
        # What stands outside of virtual hosts is theirs too, whose engine may be on.
        if section and engines and all(" ".join(one.args).lower() == "off" for one in engines):
            continue
        for one in (*certificates, *keys, *tickets, *chains, *issuers, *told, *(revoked if checked else ())):
            single.setdefault(file_of(one, root), one)
        if len(certificates) == len(keys):  # else a certificate's file may hold its key
            for certificate, key in zip(certificates, keys, strict=True):  # many hosts may have the same
                pairs.setdefault((file_of(certificate, root), file_of(key, root)), (certificate, key))
    for one in _proxied(configuration):
        single.setdefault(file_of(one, root), one)
    for file, one in single.items():
        if file is not None and _spoilt(file, OF_MD.get(one.name, one.name)):
            return f"{file} ({one.where}) is not whole, or is no such file: put back what was there"
    for files, (certificate, key) in pairs.items():
        if _apart(*files):
            return f"the key in {key.where} is not that of the certificate in {certificate.where}: put both there"
    return ""


def _asking(configuration: Configuration, root: Path, started: int) -> str:
    """Why mod_ssl would ask somebody for a pass phrase and end Apache without it; empty where it would not.

    Of a key with one it keeps what it has read at its start, for as long as the file has the same time
    (`ssl_load_encrypted_pkey` in modules/ssl/ssl_engine_pphrase.c). A certificate's file may hold its key.
    """
    dialogs = [" ".join(one.args) for one in configuration.named(_DIALOG) if one.args]
    if dialogs and not _ASKS_SOMEBODY.match(dialogs[-1]):
        return ""
    off = {one.section for one in configuration.named(_ENGINE) if " ".join(one.args).lower() == "off"}
    for one in configuration.named(_KEY, _CERTIFICATE, *OF_MD):
        file = None if one.section and one.section in off else file_of(one, root)
        if file is not None and changed_after([file], started) and _has_phrase(file):
            return (
                f"{file} ({one.where}) was replaced since its start by a key with a pass phrase, for which a reload "
                "would ask: take that off, have SSLPassPhraseDialog name a program that knows it, or restart Apache"
            )
    return ""


def _has_phrase(file: Path) -> bool:
    """Whether a file surely holds a key with a pass phrase."""
    try:
        fd = open_trusted(file)
    except (UsageError, OSError):
        return False
    try:
        return _WITH_PHRASE.search(os.read(fd, _LARGEST_KEY)) is not None
    except OSError:
        return False
    finally:
        os.close(fd)


def _proxied(configuration: Configuration) -> Iterable[Directive]:
    """What names the issuers of servers behind it, or those that are revoked, where it speaks TLS with them."""
    on = {one.section: one.args[0].lower() == "on" for one in configuration.named("sslproxyengine") if one.args}
    checks = (one.args[:1] for one in configuration.named("sslproxycarevocationcheck"))
    revoked = ("sslproxycarevocationfile",) if any(said not in ((), ("none",)) for said in checks) else ()
    named = configuration.named("sslproxycacertificatefile", *revoked)
    return (one for one in named if on.get(one.section, on.get("", False)))


def _lacking(configuration: Configuration) -> str:
    """What the TLS of a virtual host needs and nothing gives it, as far as that is known; empty for nothing."""
    if configuration.uncertain or configuration.named("sslopensslconfcmd"):  # which may give it
        return ""
    engines = {one.section: one for one in configuration.named(_ENGINE) if one.args and _within_host(one)}
    stapled = {one.section: one.args[0].lower() == "on" for one in configuration.named(_STAPLING) if one.args}
    certified = {one.section for one in configuration.named(_CERTIFICATE)}
    for section, engine in engines.items():
        if engine.args[0].lower() != "on":
            continue
        if certified.isdisjoint({section, ""}) and "md_module" not in configuration.modules:
            return f"TLS is on in {engine.where} without an SSLCertificateFile: add one"
        if stapled.get(section, stapled.get("")) and not configuration.named("sslstaplingcache"):
            return f"SSLUseStapling is on for {engine.where} without an SSLStaplingCache: add one"
    return ""


def _within_host(one: Directive) -> bool:
    """Whether a directive stands in a virtual host, and in no macro."""
    return [section for section, _ in one.context] == ["virtualhost"]


def ports(configuration: Configuration, there: Iterable[int]) -> frozenset[int]:
    """The ports at which clients shake hands for TLS too.

    Args:
        configuration: as it is on disk.
        there: all ports at which it listens: those of a virtual host that names none.
    """
    found: set[int] = set()
    for one in configuration.named(_ENGINE):
        if one.args[:1] and one.args[0].lower() == "on":
            hosts = [addresses.split() for section, addresses in one.context if section == "virtualhost"]
            named = [address.rpartition(":")[2] for address in (hosts[-1] if hosts else [""])]
            found.update(*({int(port)} if port.isdecimal() else there for port in named))
    return frozenset(found)


def stapling_s(configuration: Configuration) -> int | None:
    """How long a handshake may wait for an OCSP responder, in seconds; None where nothing is stapled."""
    if not any(one.args[0].lower() == "on" for one in configuration.named(_STAPLING) if one.args):
        return None
    named = [one.args[0] for one in configuration.named("sslstaplingrespondertimeout") if one.args]
    known = [int(said) for said in named if said.isdecimal()]
    return max(known, default=_RESPONDER_S)


def _spoilt(file: Path, directive: str) -> bool:
    """Whether a file surely does not hold the key, the certificates or the list that this directive is to name."""
    return _remembered(_spoilt_now, (file,), directive)


def _apart(certificate: Path | None, key: Path | None) -> bool:
    """Whether a key is surely not the certificate's; what others could change is not read."""
    return certificate is not None and key is not None and _remembered(_apart_now, (certificate, key))


_Mark = tuple[int, int, int, int, int]
"""Device, inode, size, and the times of the last change of a file's content and of the file."""


def _remembered(judge: Callable[..., bool], files: tuple[Path, ...], *more: str) -> bool:
    """What is judged of files, anew only where one of them has changed since; False where they are not read.

    TLS takes milliseconds for each host, on the machine of the server, before each change.
    """
    try:
        marks = tuple(map(_mark, files))
        settled = all(time.time_ns() - changed > _SETTLED_NS for *_, changed in marks)
        return _judged(judge, files, marks, *more) if settled else judge(*files, *more)
    except (UsageError, OSError):
        return False


def _mark(file: Path) -> _Mark:
    """What differs once a file has changed.

    Raises:
        OSError: it cannot be looked at.
    """
    found = os.stat(file)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(_MOST_FILES)
def _judged(judge: Callable[..., bool], files: tuple[Path, ...], marks: tuple[_Mark, ...], *more: str) -> bool:
    """What is judged of files with these marks.

    Raises:
        UsageError: they are not read, as others could change them.
        OSError: they cannot be read, or have changed meanwhile.
    """
    found = judge(*files, *more)
    if marks != tuple(map(_mark, files)):
        raise OSError
    return found


def _spoilt_now(file: Path, directive: str) -> bool:
    """Whether `_spoilt`, by what the file holds.

    Raises:
        UsageError: it is not read.
        OSError: it cannot be read.
    """
    fd = open_trusted(file)
    try:
        if directive == _TICKETS:
            return len(os.read(fd, _TICKET_KEY)) < _TICKET_KEY
        if directive == _KEY:
            return _WHOLE_KEY.match(os.read(fd, _LARGEST_KEY)) is None
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(f"/proc/self/fd/{fd}")
    except ssl.SSLError as error:  # a chain without any certificate is taken
        return directive != _CHAIN or error.reason != "NO_CERTIFICATE_OR_CRL_FOUND"
    finally:
        os.close(fd)
    return False


def _apart_now(certificate: Path, key: Path) -> bool:
    """Whether `_apart`, by what the files hold.

    Raises:
        UsageError: one is not read.
        OSError: one cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # a new one: a key may be that of an earlier certificate
    context.set_ciphers("ALL:@SECLEVEL=0")  # a weak one is Apache's to judge
    opened = list[int]()
    try:
        opened += [open_trusted(certificate)]
        opened += [open_trusted(key)]
        first, second = (f"/proc/self/fd/{fd}" for fd in opened)
        context.load_cert_chain(first, second, str)  # an empty passphrase, so that no terminal is asked
    except ssl.SSLError as error:
        return error.reason in _OF_ANOTHER
    finally:
        for fd in opened:
            os.close(fd)
    return False
