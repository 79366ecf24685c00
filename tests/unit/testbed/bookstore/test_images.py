"""Images: the specification's sizes, files that a browser can show, the same each time."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path

from trimtab.testbed.bookstore import images


def test_images_have_the_shares_of_the_specification() -> None:
    sizes = Counter(size // 1024 for size in images.sizes_bytes(1000))
    assert sizes == {5: 450, 10: 350, 50: 150, 100: 40, 250: 10}


def test_a_file_has_its_size_to_the_byte_and_is_a_picture(tmp_path: Path) -> None:
    images.write(tmp_path, 60)
    for number, size in enumerate(images.sizes_bytes(60), 1):
        for path, length in ((f"item/{number}.png", size), (f"thumb/{number}.png", 5120)):
            data = (tmp_path / path).read_bytes()
            assert len(data) == length
            chunks = _chunks(data)
            width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
            assert len(zlib.decompress(chunks[b"IDAT"])) == (width + 1) * height


def test_the_same_number_gives_the_same_images(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        images.write(tmp_path / name, 50)
    for path in (tmp_path / "a").rglob("*.png"):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """A PNG's chunks, each with the right check sum, none with anything behind it."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        found[kind] = body
        at += 12 + length
    return found
