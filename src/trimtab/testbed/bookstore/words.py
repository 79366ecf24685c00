"""Texts for a population: pronounceable, of given lengths, cut from one long text."""

from __future__ import annotations

import numpy as np

SYLLABLES = ("BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG")
_PARTS = tuple(a + b for a in ("", "b", "d", "f", "g", "l", "m", "n", "p", "r", "s", "st", "t", "v") for b in "aeiou")
_POOL = 1 << 17


def digsyl(number: int, digits: int = 0) -> str:
    """A number in syllables, one for each decimal digit (TPC-W, clause 4.6.2.8).

    Args:
        number: not negative.
        digits: at least as many, with "BA" on the left.
    """
    return "".join(SYLLABLES[int(digit)] for digit in str(number).zfill(digits))


class Words:
    """Draws texts.

    Args:
        rng: source of randomness.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        parts = [_PARTS[i] for i in rng.integers(0, len(_PARTS), _POOL).tolist()]
        self._letters = "".join(parts)
        ends = np.cumsum(rng.integers(1, 5, _POOL // 2))
        starts = np.concatenate(([0], ends[:-1]))
        words = ["".join(parts[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True) if b <= _POOL]
        self._text = " ".join(words)
        self._begins = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
        self._digits = "".join(map(str, rng.integers(0, 10, _POOL).tolist()))

    def texts(self, n: int, least: int, most: int) -> list[str]:
        """Some texts of several words, with a length between two bounds."""
        usable = self._begins[self._begins < len(self._text) - most]
        begins = usable[self._rng.integers(0, len(usable), n)]
        pairs = zip(begins.tolist(), self._lengths(n, least, most), strict=True)
        # A text that ends at the end of a word would lose its last blank on the way through a form.
        return [self._text[at : at + length - 1] + "o" if length else "" for at, length in pairs]

    def names(self, n: int, least: int, most: int) -> list[str]:
        """Some capitalised words, with a length between two bounds."""
        return [name.capitalize() for name in self._cut(self._letters, n, least, most)]

    def digits(self, n: int, least: int, most: int) -> list[str]:
        """Some rows of digits, with a length between two bounds."""
        return self._cut(self._digits, n, least, most)

    def _cut(self, pool: str, n: int, least: int, most: int) -> list[str]:
        begins = self._rng.integers(0, len(pool) - most, n).tolist()
        return [pool[at : at + length] for at, length in zip(begins, self._lengths(n, least, most), strict=True)]

    def _lengths(self, n: int, least: int, most: int) -> list[int]:
        found: list[int] = self._rng.integers(least, most + 1, n).tolist()
        return found
