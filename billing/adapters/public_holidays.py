"""Public holidays of countries, from the library `holidays`; what is published keeps its own."""

from collections.abc import Collection
from dataclasses import replace
from datetime import date, datetime

import holidays

from billing.domain.pricing.price_calendar import CalendarInvalidError, CalendarRule

YEARS_MAX = 12
LANGUAGE = "en_US"
"""Of the names, where the library has it; without one they are in that of the machine."""


def public_holidays(
    country: str, *, subdivision: str = "", first_year: int, last_year: int
) -> dict[date, str]:
    """Return the names of a country's public holidays, by date.

    Args:
        country: In ISO 3166, such as "DE".
        subdivision: Its part in ISO 3166-2 without the country, such as "BY"; "" for none.
        first_year: The first year.
        last_year: The last one; at most YEARS_MAX years in all.

    Raises:
        CalendarInvalidError: Country, subdivision or years are not known.
    """
    if not 0 <= last_year - first_year < YEARS_MAX:
        raise CalendarInvalidError(
            f"Holidays are of 1 to {YEARS_MAX} years.",
            field="last_year",
            facts={"first_year": first_year, "last_year": last_year},
        )
    try:
        found = holidays.country_holidays(
            country,
            subdiv=subdivision or None,
            years=range(first_year, last_year + 1),
            language=LANGUAGE,
        )
    except NotImplementedError as error:
        raise CalendarInvalidError(
            "The country or its subdivision is not known.",
            field="country",
            facts={"country": country, "subdivision": subdivision},
        ) from error
    return dict(sorted(found.items()))


def with_public_holidays(
    rule: CalendarRule, *, valid_from: datetime, left_out: Collection[date] = ()
) -> CalendarRule:
    """Return a calendar with the public holidays of its country beside its own.

    Args:
        rule: With a country, or without one; its own holidays keep their names.
        valid_from: Its first hour; holidays are those from the year before on, which west of UTC
            its first hours are in.
        left_out: Dates that are no holidays here.
    """
    found = dict(rule.holidays)
    if rule.country and rule.last_year is not None:
        found = found | {
            day: name
            for day, name in public_holidays(
                rule.country,
                subdivision=rule.subdivision,
                first_year=valid_from.year - 1,
                last_year=rule.last_year,
            ).items()
            if day not in found
        }
    return replace(rule, holidays={day: found[day] for day in sorted(found) if day not in left_out})
