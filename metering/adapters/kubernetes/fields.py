"""Raw JSON values read with suspicion: text, times, whole units, maps and lists.

Two kinds of wrong are kept apart. What no API server sends, such as a pod without a uid, makes the
whole response invalid, and it is requested again. An invalid field of an object, such as half a
GPU, would be repeated for ever: it is noted on the object as a defect, for review.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from tenants.domain.errors import SourceUnavailableError

UNITS_MAX: Final = 2**31 - 1
QUANTITY_CHARACTERS_MAX: Final = 32
"""Longer ones would only make big exponents and much work."""
EARLIEST: Final = datetime(2014, 6, 1, tzinfo=UTC)
"""Kubernetes is not older; an earlier time is a zero or a broken clock."""
AHEAD: Final = timedelta(days=1)
"""How far a cluster's clock may be ahead of ours before its times are rejected."""
DELETION_AHEAD: Final = timedelta(days=400)
"""A deletion lies ahead by the pod's grace period, which a user may set to a year."""
SHOWN_CHARACTERS: Final = 40


def bad_answer(why: str) -> SourceUnavailableError:
    """Return the error for a response that no API server sends."""
    return SourceUnavailableError(f"The answer cannot be believed: {why}.", reason="bad_answer")


def mapping(value: object, name: str) -> dict[str, Any]:
    """Return a JSON object; what is null or missing is empty.

    Raises:
        SourceUnavailableError: `bad_answer`.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_answer(f"{name} is not an object")
    return value


def listing(value: object, name: str) -> list[Any]:
    """Return a JSON array; what is null or missing is empty.

    Raises:
        SourceUnavailableError: `bad_answer`.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad_answer(f"{name} is not a list")
    return value


def objects(value: object, name: str) -> list[dict[str, Any]]:
    """Return a JSON array of objects; what is null or missing is empty.

    Raises:
        SourceUnavailableError: `bad_answer`.
    """
    return [mapping(entry, name) for entry in listing(value, name)]


def required(value: object, name: str, *, characters_max: int = 253) -> str:
    """Return text that every object has, such as its uid.

    Raises:
        SourceUnavailableError: `bad_answer`: it is missing, too long, or holds what no name does.
    """
    if not isinstance(value, str) or not value or len(value) > characters_max:
        raise bad_answer(f"{name} is missing or no text")
    if not value.isprintable():
        raise bad_answer(f"{name} holds control characters")
    return value


def shown(value: object, *, characters_max: int) -> str:
    """Return explanatory text, shortened and without characters PostgreSQL cannot store.

    Any user with permission to create pods controls part of it, so it must never stop a stream.
    """
    if not isinstance(value, str):
        return ""
    cut = value[:characters_max]
    return cut if cut.isprintable() else "".join(one for one in cut if one.isprintable())


class ObjectReader:
    """One object while it is read: when it came, and its invalid fields.

    Args:
        seen_at: When it arrived; later times are invalid.
    """

    def __init__(self, seen_at: datetime) -> None:
        """Nothing is wrong yet."""
        self.seen_at = seen_at
        self._defects: list[str] = []

    @property
    def defects(self) -> tuple[str, ...]:
        """Return what is wrong, one sentence each, in the order in which it was read."""
        return tuple(self._defects)

    def note(self, sentence: str) -> None:
        """Keep one thing that is wrong."""
        self._defects.append(sentence)

    def moment(self, value: object, name: str, *, ahead: timedelta = AHEAD) -> datetime | None:
        """Return a time in whole seconds; None without one, or with a defect."""
        if value is None:
            return None
        at = read_time(value) if isinstance(value, str) else None
        if at is None or not EARLIEST <= at <= self.seen_at + ahead:
            self.note(f"{name} cannot be {_quoted(value)}.")
            return None
        return at

    def units(self, value: object, name: str) -> int | None:
        """Return whole units, 0 or more; None with a defect."""
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:  # noqa: PLR2004 - Below UNITS_MAX.
            return int(value)
        units = _units_of(str(value))
        if units is None:
            self.note(f"{name} cannot be {_quoted(value)}.")
        return units


@lru_cache(maxsize=4096)
def read_time(text: str) -> datetime | None:
    """Return an RFC 3339 time floored to whole seconds; None when it is none."""
    try:
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        return None


def _units_of(text: str) -> int | None:
    """Return the whole units of a quantity such as "2", "1k" or "1000m"; None when there are none.

    Extended resources are whole: the API server refuses a fraction.
    """
    if len(text) > QUANTITY_CHARACTERS_MAX:
        return None
    try:
        units: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    if not units.is_finite() or not 0 <= units <= UNITS_MAX or units != units.to_integral_value():
        return None
    return int(units)


def _quoted(value: object) -> str:
    return f'"{shown(str(value), characters_max=SHOWN_CHARACTERS)}"'
