"""API tokens as text: `gl_<prefix>_<secret>`, and the keyed digest that is kept of the secret."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

PREFIX_LENGTH: Final = 12
SECRET_LENGTH: Final = 64
LIFETIME_MAX: Final = timedelta(days=365)
_TEXT = re.compile(rf"^gl_([0-9a-f]{{{PREFIX_LENGTH}}})_([0-9a-f]{{{SECRET_LENGTH}}})$")


@dataclass(frozen=True)
class TokenText:
    """The two parts of a token's text: one finds the row, the other proves the holder."""

    prefix: str
    secret: str

    def __str__(self) -> str:
        """Return the text a client sends."""
        return f"gl_{self.prefix}_{self.secret}"

    def __repr__(self) -> str:
        """Return what may stand in a log or a traceback: never the secret."""
        return f"TokenText(prefix={self.prefix!r})"


def parse_token(text: str) -> TokenText | None:
    """Return the parts of a token's text, or None when it has not its form."""
    found = _TEXT.fullmatch(text)
    return TokenText(found[1], found[2]) if found else None


def token_digest(secret: str, *, pepper: str) -> bytes:
    """Return HMAC-SHA256 of a secret under the pepper, 32 bytes.

    The secret has 256 random bits, so a slow password hash would add nothing. Source: RFC 2104.
    """
    return hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).digest()


def is_same_digest(one: bytes, other: bytes) -> bool:
    """Whether two digests are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)
