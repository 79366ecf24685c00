"""What a reload ends: Apache itself, although its own test passes, and requests that processes of modules serve.

`-t` reads the configuration and no more. In a reload every module looks at what it names too (`ap_run_post_config` in
server/main.c); where one fails, the parent ends and nobody is served ("AH00016: Configuration Failed"). That comes
about without an edit of any file that `-t` reads: a certificate was replaced and not its key (AH02565), or a
certificate, a key or a list of revoked ones was written half, as on a full disk, or is a page of errors; or the
directory of the pid file is gone (AH00100), or a log cannot be opened any more (AH00015), as on a disk that an error
has made read-only. Until somebody reloads, nobody notices. Or ListenCoresBucketsRatio was
taken out since the start: Apache keeps the number of its sockets, and cannot open the second at an address any more
(AH00072). Or a virtual host that was just written has TLS and no certificate (AH02572), or no cache for stapled
answers (AH01958). Or a module reads, or runs, a file only then. What only Apache knows (macros, keys with a
passphrase) is not judged.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import read_text
from trimtab.plants._in_use import in_use
from trimtab.plants.apache.configuration import Configuration
from trimtab.plants.apache.syntax import Directive
from trimtab.trust import open_trusted

_ENGINE, _CERTIFICATE, _KEY = "sslengine", "sslcertificatefile", "sslcertificatekeyfile"
_ADDRESS = re.compile(r"(?:(?:\[([\da-fA-F:]+)\]|([\d.]+)):)?(\d{1,5})")
"""What `Listen` names, without a host's name, which only Apache resolves."""
_TICKETS, _CHAIN = "sslsessionticketkeyfile", "sslcertificatechainfile"
_OTHERS = (_TICKETS, _CHAIN, "sslcacertificatefile", "sslcarevocationfile")
"""Issuers of the server's own certificate and of clients', and the list of those that are revoked."""
_LOGS = ("errorlog", "customlog", "transferlog", "globallog", "forensiclog")
_ONE_LOG = ("errorlog", "forensiclog")
"""Of which a server has one, the last that is named."""
_PLAIN = re.compile(r"/[\w./+-]+")
"""A program that APR cannot take for another: it takes quotes and backslashes away, a shell more."""
_NO_LOG = re.compile(r"syslog$|journald$|/dev/|/proc/", re.I)
"""What they name beside files."""
_STAPLING, _RESPONDER_S = "sslusestapling", 10
"""And the time that mod_ssl gives a responder unless it is told otherwise."""
_TICKET_KEY = 48
"""Bytes that a key of tickets has (`ssl_init_ticket_key`)."""
_LARGEST_KEY = 1 << 20
_WHOLE_KEY = re.compile(rb"0|MI|.*-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*-----END \1-----", re.DOTALL)
"""Where a key may be whole: without its first line Apache takes it too."""
_LATE = ("perlrequire", "perlpostconfigrequire", "jkworkersfile")
"""What names files that modules read, or run, after all that `-t` looks at, and by whose mistakes they end Apache."""
_PRELOAD = re.compile(r'^\s*opcache\.preload\s*=\s*"?(/[^";\n]*?)"?\s*(?:;.*)?$', re.M)
_FASTCGI, _DAEMONS, _BUCKETS = "fcgid_module", "wsgidaemonprocess", "listencoresbucketsratio"
_APPLICATIONS = ("wsgiscriptalias", "wsgiscriptaliasmatch")
_MEMBERS, _CHECKED = ("balancermember", "proxypass", "proxyset"), re.compile(r"hcmethod=(?!none$)|hctemplate=", re.I)
_OF_A_HOST = ("servername", "documentroot")
_NO_FILE = re.compile(r"[^/]*:|.*\$\{")
"""An address such as "pkcs11:", a variable that is not known."""
_OF_ANOTHER = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""OpenSSL's reasons where a key is not the certificate's; the last one where it is of another kind."""


def fatal(configuration: Configuration, server_root: Path, buckets: int) -> str:
    """Why a reload would end Apache; empty where nothing is seen that would.

    Args:
        configuration: as it is on disk.
        server_root: ServerRoot before any directive sets it.
        buckets: how many sockets it has at each address.
    """
    if buckets > 1 and _ratio(configuration) in ((), ("0",)):
        return "it was started with ListenCoresBucketsRatio, which its files no longer set: put that back"
    for one in (*configuration.named("pidfile")[-1:], *configuration.named("forensiclog")):  # made anew where gone
        file = _file(one, Path())
        if file is not None and file.is_absolute() and not os.path.lexists(file.parent):
            return f"the directory of {one.args[0]} ({one.where}) is not there: make it"
    return _tls(configuration, _root(configuration, server_root)) or _lacking(configuration)


def unopened(configuration: Configuration, server_root: Path, view: Path) -> str:
    """Which log a reload could not open, or by which program it could not be written; empty for none.

    Args:
        configuration: as it is on disk.
        server_root: ServerRoot before any directive sets it.
        view: the root directory as Apache sees it: a mount may be read-only for us alone.
    """
    root, logs = _root(configuration, server_root), configuration.named(*_LOGS)
    last = {(one.name, one.section): one for one in logs}
    for one in (one for one in logs if one.name not in _ONE_LOG or last[one.name, one.section] is one):
        name = one.args[0] if one.args else ""
        if name.startswith("|"):
            program = (name.lstrip("|").split() or [""])[0]
            if _PLAIN.fullmatch(program) and _gone(_seen(Path(program), view)):
                return f"{program}, which writes a log ({one.where}), is not there: put it back"
            continue
        file = None if _NO_LOG.match(name) else _file(one, root)
        if file is not None and (why := _shut(_seen(file, view))):
            return f"the log {file} ({one.where}) {why}: mend that"
    return ""


def unread(configuration: Configuration, server_root: Path) -> list[Path]:
    """Files of modules that Apache's own test does not look into, and in which a mistake ends it in a reload.

    Args:
        configuration: as it is on disk.
        server_root: ServerRoot before any directive sets it.
    """
    root = _root(configuration, server_root)
    named = [file for one in configuration.named(*_LATE) if (file := _file(one, root)) is not None]
    return [*named, *(Path(one) for ini in configuration.named("") for one in _preloaded(ini.file))]


def _preloaded(ini: Path) -> list[str]:
    """What a file of mod_php's own has run before the first request."""
    try:
        return _PRELOAD.findall(read_text(open_trusted(ini), ini))
    except (UsageError, OSError):
        return []


def taken(configuration: Configuration, held: Collection[int], pid: int) -> str:
    """Where it is to listen at what another server has (AH00072), so that a reload would end it; empty for nowhere.

    Args:
        configuration: as it is on disk.
        held: the ports at which it listens now.
        pid: its first process.
    """
    for one in configuration.named("listen"):
        found = _ADDRESS.fullmatch(one.args[0]) if one.args else None
        if found is None or int(found[3]) in held or any("reuseport" in word for word in one.args):
            continue
        host = found[1] or found[2] or "::"
        if in_use((socket.AF_INET6 if ":" in host else socket.AF_INET, (host, int(found[3]))), pid):
            return f"another server listens at {one.args[0]} ({one.where}): end that, or take the line out"
    return ""


def _tls(configuration: Configuration, root: Path) -> str:
    """Why mod_ssl would end Apache; empty where nothing is seen.

    The first key of a virtual host is the first certificate's, and so on. Where TLS is off nobody looks at them.
    """
    names = (_ENGINE, _CERTIFICATE, _KEY, *_OTHERS)
    hosts: dict[str, dict[str, list[Directive]]] = {}
    for one in configuration.named(*names):
        hosts.setdefault(one.section, {name: [] for name in names})[one.name].append(one)
    pairs: dict[tuple[Path | None, Path | None], tuple[Directive, Directive]] = {}
    single: dict[Path | None, Directive] = {}
    checked = any(one.args[:1] not in ((), ("none",)) for one in configuration.named("sslcarevocationcheck"))
    for section, host in hosts.items():
        engines, certificates, keys, tickets, chains, issuers, revoked = host.values()
        # What stands outside of virtual hosts is theirs too, whose engine may be on.
        if section and engines and all(" ".join(one.args).lower() == "off" for one in engines):
            continue
        for one in (*certificates, *keys, *tickets, *chains, *issuers, *(revoked if checked else ())):
            single.setdefault(_file(one, root), one)
        if len(certificates) == len(keys):  # else a certificate's file may hold its key
            for certificate, key in zip(certificates, keys, strict=True):  # many hosts may have the same
                pairs.setdefault((_file(certificate, root), _file(key, root)), (certificate, key))
    for one in _proxied(configuration):
        single.setdefault(_file(one, root), one)
    for file, one in single.items():
        if file is not None and _spoilt(file, one.name):
            return f"{file} ({one.where}) is not whole, or is no such file: put back what was there"
    for files, (certificate, key) in pairs.items():
        if _apart(*files):
            return f"the key in {key.where} is not that of the certificate in {certificate.where}: put both there"
    return ""


def _proxied(configuration: Configuration) -> Iterable[Directive]:
    """What names the issuers of servers behind it, where it speaks TLS with them."""
    on = {one.section: one.args[0].lower() == "on" for one in configuration.named("sslproxyengine") if one.args}
    issuers = configuration.named("sslproxycacertificatefile")
    return (one for one in issuers if on.get(one.section, on.get("", False)))


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


def stapling_s(configuration: Configuration) -> int | None:
    """How long a handshake may wait for an OCSP responder, in seconds; None where nothing is stapled."""
    if not any(one.args[0].lower() == "on" for one in configuration.named(_STAPLING) if one.args):
        return None
    named = [one.args[0] for one in configuration.named("sslstaplingrespondertimeout") if one.args]
    known = [int(said) for said in named if said.isdecimal()]
    return max(known, default=_RESPONDER_S)


def ended(configuration: Configuration, buckets: int, programs: bool) -> str:
    """What a reload does to requests that processes of modules serve, and to connections; empty where to none.

    Apache ends these processes as it reads its configuration again: those of mod_fcgid, which may be loaded and have
    none, at once, with SIGKILL a second later (`kill_all_subprocess` in its fcgid_pm_main.c), and daemons of mod_wsgi
    with SIGKILL after three seconds (APR, and https://github.com/GrahamDumpleton/mod_wsgi/issues/383). Of several
    sockets at an address the parent closes all but the first (`ap_duplicate_listeners` in server/listen.c), and the
    kernel ends what waits there; or new ones come to one that a child of prefork still holds for the length of its
    request, and accepts nothing. What health checks of mod_proxy_hcheck know of a balancer's members is forgotten, so
    all of them are sent requests until the next check (each 30 s as shipped).

    Args:
        configuration: as it is on disk.
        buckets: how many sockets it has at each address.
        programs: whether children of Apache's run programs.
    """
    found = []
    if daemons := configuration.named(_DAEMONS):
        found.append(f"mod_wsgi's daemons ({daemons[0].where}) with requests of more than 3 s")
    if programs and _FASTCGI in configuration.modules:
        found.append("mod_fcgid's programs with requests of more than 1 s")
    if buckets > 1:
        found.append("connections that wait at sockets of ListenCoresBucketsRatio, or has them wait on")
    lost = [f"ends {' and '.join(found)}"] if found else []
    if not daemons and (where := _staying(configuration)):
        lost.append(
            f"leaves each process that has served an application of mod_wsgi ({where}) in its place of ServerLimit "
            "for good, as Python does not end in its threads ('WSGIDestroyInterpreter Off' lets it)"
        )
    if (where := _checked(configuration)) and not keeps_members(configuration):
        lost.append(
            f"sends requests to members of balancers that health checks ({where}) have taken out, until the next "
            "check ('BalancerPersist On' in each virtual host that uses them keeps them out)"
        )
    return f"a reload {' and '.join(lost)}" if lost else ""


def restarted(configuration: Configuration) -> str:
    """Which applications Apache runs itself, and begins anew in a reload; empty for none.

    Those of mod_wsgi end with Apache's processes, or its daemons, and Passenger's with its watchdog.
    """
    if aliases := configuration.named(*_APPLICATIONS):
        return f"mod_wsgi's ({aliases[0].where})"
    return "Passenger's" if "passenger_module" in configuration.modules else ""


def keeps_members(configuration: Configuration) -> bool:
    """Whether members of balancers are after a reload as they were before it, in each host that uses them.

    A virtual host inherits balancers and the way to them, and BalancerPersist it does not (`merge_proxy_config` in
    modules/proxy/mod_proxy.c).
    """
    said = {_host(one): one.args[0].lower() for one in configuration.named("balancerpersist") if one.args}
    using = {_host(one) for one in configuration.directives if any("balancer://" in word for word in one.args)}
    if () in using:
        using |= {_host(one) for one in configuration.named(*_OF_A_HOST)}
    return "on" in said.values() and all(said.get(host) == "on" for host in using)


def _host(one: Directive) -> tuple[object, ...]:
    """The virtual host in which a directive stands, of which several may have one address; empty outside of them."""
    within = [section for section in one.context if section[0] == "virtualhost"]
    return (one.file, *within) if within else ()


def _checked(configuration: Configuration) -> str:
    """Where a member of a balancer has health checks; empty where none has."""
    return next((one.where for one in configuration.named(*_MEMBERS) if any(map(_CHECKED.match, one.args))), "")


def _staying(configuration: Configuration) -> str:
    """Where Apache's own processes with threads run applications of mod_wsgi, and may hang at their end; else empty.

    Python's end waits for threads of Apache's (https://github.com/GrahamDumpleton/mod_wsgi/issues/730 and 799).
    """
    ends = [one.args[0].lower() for one in configuration.named("wsgidestroyinterpreter") if one.args]
    if "prefork.c" in configuration.modules or ends[-1:] == ["off"]:
        return ""
    return next((one.where for one in configuration.named(*_APPLICATIONS)), "")


def _ratio(configuration: Configuration) -> tuple[str, ...]:
    """Arguments of the last ListenCoresBucketsRatio; none where there is none."""
    return next((one.args for one in reversed(configuration.named(_BUCKETS))), ())


def _root(configuration: Configuration, server_root: Path) -> Path:
    """ServerRoot, from which relative paths go."""
    roots = [one.args[0] for one in configuration.named("serverroot") if one.args]
    return Path("/", roots[-1]) if roots else server_root


def _seen(file: Path, view: Path) -> Path:
    """A file as Apache sees it."""
    return view / os.path.realpath(file).lstrip("/")


def _gone(program: Path) -> bool:
    """Whether a file is surely not there."""
    try:
        program.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _shut(log: Path) -> str:
    """Why a file surely cannot be opened for writing; empty where nothing is seen."""
    there = log.parent if _gone(log) else log
    try:
        kind = there.stat().st_mode
        if there == log and stat.S_ISDIR(kind):
            return "is a directory"
        ordinary = stat.S_ISREG(kind) or stat.S_ISDIR(kind)  # a device may be written to
        return "is on a file system that is read-only" if ordinary and os.statvfs(there).f_flag & os.ST_RDONLY else ""
    except OSError:
        return ""


def _file(one: Directive, root: Path) -> Path | None:
    """The file that a directive names; None where that is none, or only Apache knows which."""
    name = one.args[0] if one.args else ""
    known = name and not _NO_FILE.match(name) and "macro" not in (section for section, _ in one.context)
    return root / name if known else None


def _spoilt(file: Path, directive: str) -> bool:
    """Whether a file surely does not hold the key, the certificates or the list that this directive is to name."""
    try:
        fd = open_trusted(file)
    except (UsageError, OSError):
        return False
    try:
        if directive == _TICKETS:
            return len(os.read(fd, _TICKET_KEY)) < _TICKET_KEY
        if directive == _KEY:
            return _WHOLE_KEY.match(os.read(fd, _LARGEST_KEY)) is None
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(f"/proc/self/fd/{fd}")
    except ssl.SSLError as error:  # a chain without any certificate is taken
        return directive != _CHAIN or error.reason != "NO_CERTIFICATE_OR_CRL_FOUND"
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _apart(certificate: Path | None, key: Path | None) -> bool:
    """Whether a key is surely not the certificate's; what others could change is not read."""
    if certificate is None or key is None:
        return False
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
    except (UsageError, OSError):
        return False
    finally:
        for fd in opened:
            os.close(fd)
    return False
