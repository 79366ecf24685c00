"""What a reload ends: Apache itself, although its own test passes, and requests that processes of modules serve.

`-t` reads the configuration and no more. In a reload every module looks at what it names too (`ap_run_post_config` in
server/main.c); where one fails, the parent ends and nobody is served ("AH00016: Configuration Failed"). That comes
about without an edit of any file that `-t` reads: a certificate or a key was replaced (`tls`); the directory of the
pid file is gone (AH00100), or the list of types (AH01597); or a log cannot be opened any more (AH00015), as on a disk
that an error has made read-only. Until somebody reloads, nobody notices. Or ListenCoresBucketsRatio was taken out
since the start: Apache keeps the number of its sockets, and cannot open the second at an address any more (AH00072).
Or a module reads, or runs, a file only then.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.files import read_text
from trimtab.plants._in_use import in_use
from trimtab.plants._view import gone, seen
from trimtab.plants.apache import tls
from trimtab.plants.apache.configuration import Configuration
from trimtab.plants.apache.process import Parent
from trimtab.plants.apache.syntax import Directive, file_of
from trimtab.trust import open_trusted

_ADDRESS = re.compile(r"(?:(?:\[([\da-fA-F:]+)\]|([\d.]+)):)?(\d{1,5})")
"""What `Listen` names, without a host's name, which only Apache resolves."""
_SHARED = re.compile(r"shmcb(?::|$)", re.I)
"""A cache in memory that Apache's processes share."""
_JK_LOG = "jklogfile"
_LOGS = ("errorlog", "customlog", "transferlog", "globallog", "forensiclog", _JK_LOG)
_ONE_LOG = ("errorlog", "forensiclog", _JK_LOG)
"""Of which a server has one, the last that is named."""
_PLAIN = re.compile(r"/[\w./+-]+")
"""A program that APR cannot take for another: it takes quotes and backslashes away, a shell more."""
_NO_LOG = re.compile(r"syslog$|journald$|/dev/|/proc/", re.I)
"""What they name beside files."""
_LATE = ("perlrequire", "perlpostconfigrequire", "jkworkersfile")
"""What names files that modules read, or run, after all that `-t` looks at, and by whose mistakes they end Apache."""
_PERL_OWN = re.compile(r"-(?:I ?|Mlib=)(/\S+)")
_PERL_SITE = ("/etc/perl", "/usr/local/lib/site_perl")
"""Where Debian has an operator's own modules; mod_perl looks in ServerRoot and its lib/perl too."""
_PRELOAD = re.compile(r'^\s*opcache\.preload\s*=\s*"?(/[^";\n]*?)"?\s*(?:;.*)?$', re.M)
_TYPES = "typesconfig"
_IN_A_FILE = re.compile(r"dbm:([^$]+)$", re.I)
"""A cache of mod_ssl's that is a file."""
_FASTCGI, _DAEMONS, _BUCKETS = "fcgid_module", "wsgidaemonprocess", "listencoresbucketsratio"
_APPLICATIONS = ("wsgiscriptalias", "wsgiscriptaliasmatch")
_RUN_BY = {"mod_wsgi": _APPLICATIONS, "mod_perl": ("perlresponsehandler",), "mod_python": ("pythonhandler",)}
_MEMBERS, _CHECKED = ("balancermember", "proxypass", "proxyset"), re.compile(r"hcmethod=(?!none$)|hctemplate=", re.I)
_OF_A_HOST = ("servername", "documentroot")


def fatal(configuration: Configuration, server_root: Path, parent: Parent) -> str:
    """Why a reload would end Apache; empty where nothing is seen that would.

    Args:
        configuration: as it is on disk.
        server_root: ServerRoot before any directive sets it.
        parent: its first process.
    """
    if parent.buckets > 1 and _ratio(configuration) in ((), ("0",)):
        return "it was started with ListenCoresBucketsRatio, which its files no longer set: put that back"
    root, view = configuration.root(server_root), Path(f"/proc/{parent.pid}/root")
    for one, path in _made(configuration, root):
        if gone(seen(path.parent, view)):
            return f"the directory of {one.args[0]} ({one.where}) is not there: make it"
    for one in (*configuration.named(_TYPES)[-1:], *configuration.named(*tls.OF_MD)):
        file = file_of(one, root)
        if file is not None and (gone(there := seen(file, view)) or there.is_dir()):
            return f"{one.args[0]} ({one.where}) is no file: put back what was there"
    return tls.fatal(configuration, root, parent.started)


def _made(configuration: Configuration, root: Path) -> Iterator[tuple[Directive, Path]]:
    """Directives and their files, which are made anew where they are gone, if their directory is there."""
    for one in (*configuration.named("pidfile")[-1:], *configuration.named("forensiclog")):
        file = file_of(one, Path())
        if file is not None and file.is_absolute():
            yield one, file
    # mod_jk's are opened after all that `-t` looks at (`jk_post_config` in its mod_jk.c).
    for one in {one.section: one for one in configuration.named(_JK_LOG)}.values():
        if (file := file_of(one, root)) is not None and not one.args[0].startswith("|"):
            yield one, file
    for one in configuration.named("sslsessioncache", "sslstaplingcache"):
        if found := _IN_A_FILE.match(one.args[0] if one.args else ""):
            yield one, root / found[1]


def unopened(configuration: Configuration, server_root: Path, view: Path) -> str:
    """Which log a reload could not open, or no program would write, or which store mod_md could not; empty for none.

    Args:
        configuration: as it is on disk.
        server_root: ServerRoot before any directive sets it.
        view: the root directory as Apache sees it: a mount may be read-only for us alone.
    """
    root, logs = configuration.root(server_root), configuration.named(*_LOGS)
    last = {(one.name, one.section): one for one in logs}
    for one in (one for one in logs if one.name not in _ONE_LOG or last[one.name, one.section] is one):
        name = one.args[0] if one.args else ""
        if name.startswith("|"):
            program = (name.lstrip("|").split() or [""])[0]
            if _PLAIN.fullmatch(program) and gone(seen(Path(program), view)):
                return f"{program}, which writes a log ({one.where}), is not there: put it back"
            continue
        file = None if _NO_LOG.match(name) else file_of(one, root)
        if file is not None and (why := _shut(seen(file, view))):
            return f"the log {file} ({one.where}) {why}: mend that"
    if "md_module" in configuration.modules:  # which sets owners there each time
        stores = [file_of(one, root) for one in configuration.named("mdstoredir")] or [root / "md"]
        if stores[-1] is not None and (why := _shut(seen(stores[-1] / "md_store.json", view))):
            return f"mod_md's store {stores[-1]} {why}: mend that"
    return ""


def unread(configuration: Configuration, server_root: Path) -> list[Path]:
    """Files of modules that Apache's own test does not look into, and in which a mistake ends it in a reload.

    Args:
        configuration: as it is on disk.
        server_root: ServerRoot before any directive sets it.
    """
    root = configuration.root(server_root)
    named = [file for one in configuration.named(*_LATE) if (file := file_of(one, root)) is not None]
    preloaded = (Path(one) for ini in configuration.named("") for one in _preloaded(ini.file))
    return [*named, *_perl_modules(configuration, root), *preloaded]


def _perl_modules(configuration: Configuration, root: Path) -> Iterator[Path]:
    """Files of PerlModule's modules where they are the operator's own; a package's come with it."""
    switches = " ".join(word for one in configuration.named("perlswitches") for word in one.args)
    where = (*_PERL_OWN.findall(switches), *_PERL_SITE, root, root / "lib" / "perl")
    for name in (name for one in configuration.named("perlmodule") for name in one.args):
        found = (file for base in where if (file := Path(base, f"{name.replace('::', '/')}.pm")).is_file())
        yield from itertools.islice(found, 1)


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

    Those of mod_perl, mod_python and mod_wsgi end with Apache's processes, or its daemons, and Passenger's with its
    watchdog.
    """
    for module, names in _RUN_BY.items():
        if found := configuration.named(*names):
            return f"{module}'s ({found[0].where})"
    return "Passenger's" if "passenger_module" in configuration.modules else ""


def logged_in(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Modules that keep in memory who has logged in, which a reload makes anew, and how it is avoided.

    mod_auth_openidc does unless it is told otherwise (`oidc_cache_shm_post_config` in its src/cache/shm.c), and
    mod_auth_mellon always (`am_global_init` in its mod_auth_mellon.c).
    """
    caches = {one.args[0].lower() for one in configuration.named("oidccachetype") if one.args}
    kinds = [one.args[0].lower() for one in configuration.named("oidcsessiontype") if one.args]
    in_cookies = kinds != [] and all(kind.startswith("client-cookie") for kind in kinds)
    if not in_cookies and (not caches or "shm" in caches):
        for one in configuration.named("oidcredirecturi")[:1]:
            yield f"mod_auth_openidc ({one.where})", " ('OIDCCacheType file' spares them that)"
    for one in configuration.named("mellonenable"):
        if one.args and one.args[0].lower() != "off":
            yield f"mod_auth_mellon ({one.where})", ""
            return


def cached(configuration: Configuration) -> str:
    """Where answers are kept in shared memory, which a reload makes anew; empty for nowhere.

    mod_cache_socache keeps them there, or elsewhere, as in a memcached.
    """
    kept = (one.where for one in configuration.named("cachesocache") if one.args and _SHARED.match(one.args[0]))
    enabled = any(one.args[:1] == ("socache",) for one in configuration.named("cacheenable"))
    return next(kept, "") if enabled else ""


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


def tried_again(configuration: Configuration) -> str:
    """Where members of balancers are that a reload has tried again though they do not answer; empty for nowhere.

    Those with health checks are lost for longer, until the next check (`ended`).
    """
    members = configuration.named(_MEMBERS[0])
    if len(members) < 2 or _checked(configuration) or keeps_members(configuration):
        return ""
    return members[0].where


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


def _shut(log: Path) -> str:
    """Why a file surely cannot be opened for writing; empty where nothing is seen."""
    there = log.parent if gone(log) else log
    try:
        kind = there.stat().st_mode
        if there == log and stat.S_ISDIR(kind):
            return "is a directory"
        ordinary = stat.S_ISREG(kind) or stat.S_ISDIR(kind)  # a device may be written to
        return "is on a file system that is read-only" if ordinary and os.statvfs(there).f_flag & os.ST_RDONLY else ""
    except OSError:
        return ""
