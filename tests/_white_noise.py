"""White binary signals of any length, by the generator that excites a server."""

from __future__ import annotations

from trimtab.identification.park_miller import bit, seeded


def binary(seed: int, length: int) -> tuple[int, ...]:
    """A white binary signal.

    Args:
        seed: any whole number.
        length: how many bits.
    """
    state, bits = seeded(seed), []
    for _ in range(length):
        state, one = bit(state)
        bits.append(one)
    return tuple(bits)
