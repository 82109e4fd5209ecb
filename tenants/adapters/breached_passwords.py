"""A password validator that reads the operator's list of passwords known from data breaches."""

import hashlib
import re
from pathlib import Path
from typing import BinaryIO

from django.core.exceptions import ValidationError

_LINE = re.compile(rb"([0-9A-F]{40})(?::[0-9]+)?\r?\n?")


class BreachedPasswordValidator:
    """Refuses passwords with a SHA-1 listed in a file of `SHA1:count` lines, sorted by SHA-1.

    This is the download format of Have I Been Pwned. The file is searched by bisection
    at each use, so it takes no memory and may be replaced at any time.
    """

    def __init__(self, *, path: Path | None = None) -> None:
        """Keep where the file is; without one every password passes."""
        self.path = path

    def validate(self, password: str, user: object = None) -> None:  # noqa: ARG002 - Django's signature.
        """Refuse a password of the file.

        Raises:
            ValidationError: It is in the file.
        """
        if self.path is None:
            return
        digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper()
        with self.path.open("rb") as lines:
            if _is_listed(digest.encode(), lines):
                raise ValidationError(
                    "This password is known from a data breach. Choose another one.",
                    code="password_breached",
                )

    def get_help_text(self) -> str:
        """Return the help text for forms."""
        return "Your password can't be one that is known from a data breach." if self.path else ""


def _is_listed(digest: bytes, lines: BinaryIO) -> bool:
    """Whether a sorted file has a digest; `low` is always the start of a line.

    Raises:
        ValueError: A line has another format, so the password cannot be checked.
    """
    low, high = 0, lines.seek(0, 2)
    while low < high:
        middle = (low + high) // 2
        lines.seek(middle)
        if middle > low:
            lines.readline()
        start = lines.tell()
        if start >= high:
            lines.seek(low)
            start = low
        line = lines.readline()
        found = _LINE.fullmatch(line.upper())
        if found is None:
            raise ValueError("BREACHED_PASSWORDS_FILE has a line that is not SHA1:count.")
        if found[1] == digest:
            return True
        if found[1] < digest:
            low = start + len(line)
        else:
            high = middle + 1 if start > low else low
    return False
