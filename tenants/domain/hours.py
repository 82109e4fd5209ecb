"""Whole UTC hours: the grain at which namespaces change hands and clusters are metered."""

from datetime import UTC, datetime


def is_whole_hour(moment: datetime) -> bool:
    """Whether an aware time is the start of a UTC hour.

    Raises:
        ValueError: The time has no zone.
    """
    return moment == floor_hour(moment)


def floor_hour(moment: datetime) -> datetime:
    """Return the start of the UTC hour that an aware time lies in.

    Raises:
        ValueError: The time has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone")
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def hours_text(begin_at: datetime, end_at: datetime | None) -> str:
    """Return a range of hours as text, in UTC; without an end it is open-ended."""
    begin = f"{begin_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    if end_at is None:
        return f"since {begin}"
    return f"{begin} to {end_at.astimezone(UTC):%Y-%m-%d %H:%M}"
