"""Public identifiers: UUID version 7, so that keys made later sort later.

Source: RFC 9562, section 5.7. The clock and the random bits are passed in.
"""

import secrets
import time
from uuid import UUID

RANDOM_BITS_A = 12
RANDOM_BITS_B = 62


def uuid7(*, unix_ms: int, random_a: int, random_b: int) -> UUID:
    """Return the UUIDv7 of a time and its random bits.

    Args:
        unix_ms: Milliseconds since the epoch, 48 bits.
        random_a: 12 random bits.
        random_b: 62 random bits.

    Raises:
        ValueError: A part does not fit its field.
    """
    if not 0 <= unix_ms < 1 << 48:
        raise ValueError("unix_ms must fit in 48 bits")
    if not 0 <= random_a < 1 << RANDOM_BITS_A or not 0 <= random_b < 1 << RANDOM_BITS_B:
        raise ValueError("random parts must fit in 12 and 62 bits")
    value = unix_ms << 80 | 0x7 << 76 | random_a << 64 | 0b10 << 62 | random_b
    return UUID(int=value)


def new_id() -> UUID:
    """Return a new UUIDv7; only this function reads the clock for identifiers."""
    return uuid7(
        unix_ms=time.time_ns() // 1_000_000,
        random_a=secrets.randbits(RANDOM_BITS_A),
        random_b=secrets.randbits(RANDOM_BITS_B),
    )
