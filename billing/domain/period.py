"""Billing periods: a calendar month of a time zone, cut into whole UTC hours.

Usage is recorded in UTC hours, so a month begins at the UTC hour in which its local midnight lies;
in zones off the hour (India, Nepal) that is up to 45 minutes early. Months follow each other
without gap or overlap. A period is computed once and stored; a later change of tzdata never moves
it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Self

from billing.domain.errors import NotOnTheHourError, PeriodLabelInvalidError

HOUR: Final = timedelta(hours=1)
MONTHS_PER_YEAR: Final = 12
MONTH_NAMES: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_LABEL: Final = re.compile(r"(20\d\d|21\d\d)-(0[1-9]|1[0-2])")


@dataclass(frozen=True, order=True)
class Month:
    """A calendar month, from 2000-01 to 2199-12."""

    year: int
    month: int

    @classmethod
    def parse(cls, label: str, *, field: str = "label") -> Self:
        """Return the month a label such as "2026-10" names.

        Args:
            label: Year and month.
            field: What a refusal names as wrong.

        Raises:
            PeriodLabelInvalidError: The label names no month.
        """
        if (found := _LABEL.fullmatch(label)) is None:
            raise PeriodLabelInvalidError(
                "The label does not name a month.", field=field, facts={"label": label}
            )
        return cls(int(found[1]), int(found[2]))

    @property
    def label(self) -> str:
        """The month as text, such as "2026-10"; text order is time order."""
        return f"{self.year:04}-{self.month:02}"

    @property
    def words(self) -> str:
        """The month as people read it, such as "October 2026"."""
        return f"{MONTH_NAMES[self.month - 1]} {self.year}"

    def shift(self, months: int) -> "Month":
        """Return the month so many later, or earlier when negative."""
        index = self.year * MONTHS_PER_YEAR + self.month - 1 + months
        return Month(index // MONTHS_PER_YEAR, index % MONTHS_PER_YEAR + 1)


@dataclass(frozen=True)
class HourSpan:
    """Whole UTC hours from `begin_at`, included, to `end_at`, excluded."""

    begin_at: datetime
    end_at: datetime

    @property
    def hours(self) -> int:
        """How many hours it is long."""
        return (self.end_at - self.begin_at) // HOUR

    def __contains__(self, at: datetime) -> bool:
        """Whether a moment lies inside."""
        return self.begin_at <= at < self.end_at


def floor_hour(at: datetime) -> datetime:
    """Return the begin of the UTC hour a moment lies in."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def require_hour(at: datetime, *, field: str) -> datetime:
    """Return a moment in UTC that must be a whole hour.

    Raises:
        NotOnTheHourError: It has no zone, or is between two hours.
    """
    if at.tzinfo is None or at != floor_hour(at):
        raise NotOnTheHourError(
            "The time is not a whole UTC hour.", field=field, facts={"at": at.isoformat()}
        )
    return at.astimezone(UTC)


def month_hours(month: Month, zone: tzinfo) -> HourSpan:
    """Return the UTC hours of a month as people in a zone count it.

    A local midnight that happens twice counts the first time; one that is skipped counts as the
    moment of the skip.
    """
    return HourSpan(_first_hour(month, zone), _first_hour(month.shift(1), zone))


def month_of(at: datetime, zone: tzinfo) -> Month:
    """Return the month whose hours contain a moment."""
    local = at.astimezone(zone)
    month = Month(local.year, local.month)
    if at >= _first_hour(month.shift(1), zone):
        return month.shift(1)
    return month


def fit_between(
    span: HourSpan, *, previous_end_at: datetime | None, next_begin_at: datetime | None
) -> HourSpan:
    """Return a month's hours cut to join neighbours that were stored earlier.

    It matters only after an organization has changed its zone.

    Args:
        span: The month's hours in the zone now.
        previous_end_at: Where the stored month before ends; None when there is none.
        next_begin_at: Where the stored month after begins; None when there is none.
    """
    return HourSpan(previous_end_at or span.begin_at, next_begin_at or span.end_at)


def _first_hour(month: Month, zone: tzinfo) -> datetime:
    return floor_hour(datetime(month.year, month.month, 1, tzinfo=zone))
