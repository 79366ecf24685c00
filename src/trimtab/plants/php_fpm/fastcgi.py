"""One FastCGI request as bytes, and the content of its reply (the FastCGI specification, version 1).

The connection is not kept: the server ends it after the reply, so that whoever reads to its end has all of it, and
the worker is free again at once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from trimtab.errors import NotMeasured

_VERSION = 1
_BEGIN, _END, _PARAMS, STDIN, _STDOUT, _STDERR = 1, 3, 4, 5, 6, 7
_RESPONDER = 1
_ID = 1
_HEADER = struct.Struct(">BBHHBx")


def request(params: Mapping[str, str]) -> bytes:
    """A request without a body.

    Args:
        params: the variables of CGI, such as SCRIPT_FILENAME.
    """
    pairs = b"".join(_pair(name.encode(), value.encode()) for name, value in params.items())
    begin = struct.pack(">HB5x", _RESPONDER, 0)
    return record(_BEGIN, begin) + record(_PARAMS, pairs) + record(_PARAMS, b"") + record(STDIN, b"")


def page(path: str, query: str = "") -> bytes:
    """A GET request that FPM itself answers, such as for its status page.

    Args:
        path: the page, such as "/status".
        query: the query after the question mark.
    """
    asked = {"SCRIPT_NAME": path, "SCRIPT_FILENAME": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}
    return request(asked)


def reply(data: bytes) -> tuple[int, bytes]:
    """The status of a whole reply and its body.

    Raises:
        NotMeasured: it is not FastCGI, or is cut short.
    """
    out, at = bytearray(), 0
    while at + _HEADER.size <= len(data):
        version, kind, _, length, padding = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        if version != _VERSION or at + length > len(data):
            raise NotMeasured("what came is not FastCGI, or not all of it")
        if kind == _STDOUT:
            out += data[at : at + length]
        elif kind == _END:
            return _parted(bytes(out))
        at += length + padding
    raise NotMeasured("the connection ended before the reply did: the pool's configuration may have been reloaded")


def _parted(out: bytes) -> tuple[int, bytes]:
    """Status and body of a CGI reply; one that names no status is 200."""
    head, separator, body = out.partition(b"\r\n\r\n")
    if not separator:
        raise NotMeasured("the FastCGI reply has no header")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"status" and value.split()[:1] and value.split()[0].isdigit():
            return int(value.split()[0]), body
    return 200, body


def record(kind: int, content: bytes) -> bytes:
    """One record of the request: its header and its content.

    Args:
        kind: its type, such as `STDIN`.
        content: what it holds; nothing ends the stream of that type.
    """
    return _HEADER.pack(_VERSION, kind, _ID, len(content), 0) + content


def _pair(name: bytes, value: bytes) -> bytes:
    return _length(len(name)) + _length(len(value)) + name + value


def _length(size: int) -> bytes:
    return bytes((size,)) if size < 128 else struct.pack(">I", size | 1 << 31)
