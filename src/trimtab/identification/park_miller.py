"""White noise by the minimal standard generator of Park and Miller (1988), [37] of lu2001.

Promises the same bits from the same seed on every machine and in every version of Python, so that an identification
experiment can be repeated and replayed.

    x(i+1) = 16807 x(i) mod (2^31 - 1)                                                    (PM)

| paper       | here       | unit | shape  |
|-------------|------------|------|--------|
| a           | MULTIPLIER | -    | scalar |
| m           | MODULUS    | -    | scalar |
| seed, x(i)  | state      | -    | scalar |

The high half of the range makes a 1 and the low half a 0, because the low bits of such a generator are worse than
its high ones.

Departures from the paper
- The generator must not be seeded with 0 or 2^31 - 1; any whole number may be given here, and is folded into what
  it accepts.
- Small seeds give small first values (16807 / 2^31 = 7.8e-6), so experiments with the seeds 1 and 2 would begin
  alike. The first `WARM` values are thrown away.
"""

from __future__ import annotations

MULTIPLIER = 16807
MODULUS = 2**31 - 1
WARM = 16


def following(state: int) -> int:
    """The state after one more draw.

    Args:
        state: 1 to 2^31 - 2.
    """
    return MULTIPLIER * state % MODULUS  # Eq. (PM)


def seeded(seed: int) -> int:
    """The state that a seed begins with.

    Args:
        seed: any whole number.
    """
    state = seed % (MODULUS - 1) + 1
    for _ in range(WARM):
        state = following(state)
    return state


def bit(state: int) -> tuple[int, int]:
    """The next state and the bit that it makes: 0 or 1, each in half of the draws."""
    state = following(state)
    return state, int(2 * state > MODULUS)
