"""The rule by which a connection belongs to a class, checked and compared with other rules."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import unquote_to_bytes

import msgspec

from trimtab.errors import UsageError

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?|\[[0-9a-fA-F:.]+\]")
_NO_BYTE = re.compile(r"%(?![0-9a-fA-F]{2})|%00")
_MAPPED_BITS = 96
"""Of an address of IPv4 within IPv6, before it begins."""
_TEXT = "a printable text of 1 to 1024 characters"
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024, description=_TEXT)]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Conditions that must all hold; one that is None is not asked.

    Args:
        source: prefix of the client's address, such as "127.0.1.0/24".
        local: address and port that the client connected to, such as "127.0.0.1:8080" or ":8080".
        host: value of the request's Host header, without the port, in lower case.
        path: beginning of the request's path, such as "/buy".
        cookie: a cookie by "name", or with its value as "name=value".
        header: a header by "Name", or with its value as "Name: value".
        server_name: server name of the TLS handshake, in lower case.
    """

    source: Text | None = None
    local: Text | None = None
    host: Text | None = None
    path: Text | None = None
    cookie: Text | None = None
    header: Text | None = None
    server_name: Text | None = None

    @property
    def parts(self) -> dict[str, str]:
        """The conditions that are asked, by the key that a SPEC gives them."""
        values = zip(self.__struct_encode_fields__, msgspec.structs.astuple(self), strict=True)
        return {key: value for key, value in values if value is not None}

    def covers(self, other: Rule) -> bool:
        """Whether every connection that fits `other` fits this rule too, as far as the two texts tell."""
        theirs = other.parts
        return all(key in theirs and _COVERS[key](value, theirs[key]) for key, value in self.parts.items())

    def to_wire(self) -> dict[str, str]:
        """The rule as the gate reads it."""
        return {("path_prefix" if k == "path" else k.replace("-", "_")): v for k, v in self.parts.items()}

    def __str__(self) -> str:
        return "{ " + ", ".join(f'{key} = "{value}"' for key, value in self.parts.items()) + " }"


def checked(given: Rule, ports: tuple[int, ...]) -> Rule:
    """A rule of `match` as the gate needs it.

    Args:
        given: the rule as the SPEC has it.
        ports: the ports that are gated.

    Raises:
        UsageError: it asks for nothing, or a value is not one of its kind.
    """
    if not given.parts:
        raise UsageError('match has {}: write tables such as { source = "127.0.1.0/24" }')
    values: dict[str, str] = {}
    for key, value in given.parts.items():
        if not value.isprintable():
            raise UsageError(f"{key} {value!r} is not {_TEXT}")
        values[key.replace("-", "_")] = _CHECKS[key](value)
    rule = Rule(**values)
    if rule.local is not None and int(rule.local.rpartition(":")[2]) not in ports:
        raise UsageError(f"local {rule.local!r} is on a port that is not in listen, so it never holds")
    return rule


def endpoint(text: str, what: str, any_address: bool = False) -> str:
    """An address and a port, checked.

    Args:
        text: such as "127.0.0.1:9117" or "[::1]:9117".
        what: the key it stands under.
        any_address: whether the address may be left out.

    Raises:
        UsageError: it is none.
    """
    address, colon, port = text.rpartition(":")
    allowed = "address:port" + (" or :port" if any_address else "")
    if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{what} {text!r} is not {allowed} with a port of 1 to 65535")
    if address or not any_address:
        bare = address[1:-1] if address.startswith("[") and address.endswith("]") else address
        try:
            version = ipaddress.ip_address(bare).version
        except ValueError:
            raise UsageError(f"{what} {text!r} is not {allowed}: {address!r} is no address") from None
        if (version == 6) != (bare != address):
            raise UsageError(f"{what} {text!r} is not {allowed}: write an address of IPv6 in brackets")
        if version == 6 and (mapped := ipaddress.IPv6Address(bare).ipv4_mapped) is not None:
            raise UsageError(f"{what} {text!r} is an address of IPv4: write {mapped}:{int(port)}")
    return f"{address}:{int(port)}"


def _source(text: str) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"source {text!r} is not a prefix such as 127.0.1.0/24: {error}") from None
    mapped = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    if mapped is not None and network.prefixlen >= _MAPPED_BITS:
        raise UsageError(f"source {text!r} is one of IPv4: write {mapped}/{network.prefixlen - _MAPPED_BITS}")
    return str(network)


def _path(text: str) -> str:
    if not text.startswith("/") or " " in text:
        raise UsageError(f"path {text!r} is not the beginning of a path: it starts with / and has no space")
    # As native/gate/src/path.rs has it.
    resolved = unquote_to_bytes(text)
    if _NO_BYTE.search(text) or any(part in resolved for part in (b"//", b"/./", b"/../")):
        raise UsageError(
            f"path {text!r} is not how a resolved path begins: leave out //, /./ and /../, and write a % as %25"
        )
    return text


def _name(key: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not _HOST.fullmatch(text):
            raise UsageError(f"{key} {text!r} is not a host name without a port")
        return text.lower()

    return check


def _pair(key: str, separator: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        name, found, value = text.partition(separator)
        if not _TOKEN.fullmatch(name) or (found and not value.strip()):
            raise UsageError(f'{key} {text!r} is not "name" or "name{separator}{" " * (key == "header")}value"')
        if key == "header" and found:
            return f"{name}: {value.strip()}"
        return text

    return check


_CHECKS: dict[str, Callable[[str], str]] = {
    "source": _source,
    "local": lambda text: endpoint(text, "local", any_address=True),
    "host": _name("host"),
    "path": _path,
    "cookie": _pair("cookie", "="),
    "header": _pair("header", ":"),
    "server-name": _name("server-name"),
}


def _source_covers(wide: str, narrow: str) -> bool:
    one, other = ipaddress.ip_network(wide), ipaddress.ip_network(narrow)
    return one.version == other.version and other.subnet_of(one)  # type: ignore[arg-type]


def _header_covers(wide: str, narrow: str) -> bool:
    name, colon, value = wide.partition(":")
    other, _, its = narrow.partition(":")
    return name.lower() == other.lower() and (not colon or value == its)


_COVERS: dict[str, Callable[[str, str], bool]] = {
    "source": _source_covers,
    "local": lambda wide, narrow: wide == narrow or (wide[0] == ":" and narrow.endswith(wide)),
    "host": str.__eq__,
    "path": lambda wide, narrow: narrow.startswith(wide),
    "cookie": lambda wide, narrow: wide == narrow or narrow.startswith(f"{wide}="),
    "header": _header_covers,
    "server-name": str.__eq__,
}
