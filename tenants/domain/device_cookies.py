"""Device cookies: a browser in which an account has signed in, and by which password.

Source: OWASP, "Slow down online guessing attacks with device cookies".
"""

import hashlib
from dataclasses import dataclass
from typing import Final

PROOF_LENGTH: Final = 16


@dataclass(frozen=True)
class Device:
    """A browser in which an account has signed in, as its signed cookie says."""

    user_id: int
    number: str
    proof: str
    """Of the password that was good there: a cookie from before the last change says nothing."""


NO_DEVICE: Final = Device(user_id=0, number="", proof="")


def proof_of(password_hash: str) -> str:
    """Return what a cookie says of an account's present password: a digest of its hash."""
    return hashlib.sha256(password_hash.encode()).hexdigest()[:PROOF_LENGTH]
