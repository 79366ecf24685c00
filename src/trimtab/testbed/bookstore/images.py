"""The images of books: covers in TPC-W's sizes, the same on every machine.

A cover is a small picture in four colours; a private chunk of random bytes, which browsers skip and nothing can
compress, brings its file to the size that is asked for.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

THUMBNAIL_BYTES = 5 * 1024
SIZES_KIB = (5, 10, 50, 100, 250)
SHARES = (0.45, 0.35, 0.15, 0.04, 0.01)
_SEED = 3
_PATTERNS = 8
_PADDING = b"paDd"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def sizes_bytes(items: int) -> list[int]:
    """The size of each book's image: exactly the specification's shares, in a random order."""
    bounds = np.rint(np.cumsum(SHARES) * items).astype(int)
    sorted_sizes = np.repeat(np.array(SIZES_KIB) * 1024, np.diff(bounds, prepend=0))
    found: list[int] = np.random.default_rng(_SEED).permutation(sorted_sizes).tolist()
    return found


def write(directory: Path, items: int) -> None:
    """Writes `item/N.png` and `thumb/N.png` for each book N.

    Args:
        directory: target directory, which exists.
        items: how many books.
    """
    rng = np.random.default_rng([_SEED, items])
    noise = rng.bytes(2 * max(SIZES_KIB) * 1024)
    covers = [_picture(200, 300, pattern) for pattern in range(_PATTERNS)]
    thumbnails = [_picture(75, 110, pattern) for pattern in range(_PATTERNS)]
    for name in ("item", "thumb"):
        (directory / name).mkdir(mode=0o755)
    for number, size in enumerate(sizes_bytes(items), 1):
        colours, pattern = _colours(rng), number % _PATTERNS
        start = int(rng.integers(0, len(noise) // 2))
        for name, picture, length in (("item", covers, size), ("thumb", thumbnails, THUMBNAIL_BYTES)):
            (directory / name / f"{number}.png").write_bytes(_png(picture[pattern], colours, length, noise[start:]))


def _png(picture: tuple[bytes, bytes], colours: bytes, length: int, noise: bytes) -> bytes:
    """A file of exactly this many bytes."""
    header, pixels = picture
    before = _SIGNATURE + header + _chunk(b"PLTE", colours)
    after = pixels + _chunk(b"IEND", b"")
    padding = length - len(before) - len(after) - len(_chunk(_PADDING, b""))
    return before + _chunk(_PADDING, noise[:padding]) + after


def _picture(width: int, height: int, pattern: int) -> tuple[bytes, bytes]:
    """Header and pixels of a cover: a spine, a frame and one of eight ornaments, as numbers of colours."""
    x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    u, v = x - 0.54, (y - 0.42) * height / width
    ornaments = (
        np.hypot(u, v) < 0.25,
        np.abs(u) + np.abs(v) < 0.32,
        np.abs(np.hypot(u, v) - 0.22) < 0.05,
        (np.abs(u) < 0.28) & ((v * 12).astype(int) % 2 == 0) & (np.abs(v) < 0.4),
        np.abs(v - 0.1 * np.sin(u * 20)) < 0.06,
        (np.abs(u) < 0.05) | (np.abs(v) < 0.05),
        (np.hypot(u * 5 % 1 - 0.5, v * 5 % 1 - 0.5) < 0.25) & (np.abs(v) < 0.4),
        (v < 0.3) & (np.abs(u) < (v + 0.4) * 0.4),
    )
    pixels = np.zeros((height, width), np.uint8)
    pixels[ornaments[pattern] & (y < 0.75)] = 1
    pixels[(y > 0.8) & (y < 0.86) & (x > 0.2) & (x < 0.88)] = 2
    pixels[x < 0.08] = 3
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
    return header, _chunk(b"IDAT", zlib.compress(rows, 9))


def _colours(rng: np.random.Generator) -> bytes:
    """Ground, ornament, title and spine."""
    ground = rng.integers(40, 170, 3)
    ornament = np.clip(ground + rng.integers(50, 86), 0, 255)
    return bytes([*ground, *ornament, 245, 240, 225, *(ground // 2)])


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
