"""The backlog: the last hours of the last month of a fleet, and what its invoices must say."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from simulator.cluster.demo_tenancy import ORGANIZATIONS
from simulator.cluster.fleet_scenario import fleet_scenario
from simulator.cluster.scenario import Scenario
from simulator.cluster.tenancy import PlannedBook
from simulator.demo.oracle import OracleVerdict, judge, month_hours
from simulator.demo.plan import PRICE_BOOKS

HOUR: Final = timedelta(hours=1)
SEED: Final = 20_261_018
HISTORY_MARGIN: Final = timedelta(hours=2)
"""History begins so long before the first hour and ends so long after the last one."""
SCENARIO_MARGIN: Final = timedelta(days=1)


@dataclass(frozen=True)
class Backlog:
    """Hours of some clusters that are due at once.

    Attributes:
        scenario: What was true in the clusters.
        year: Of the month that is billed.
        month: 1 to 12.
        begin_at: First hour.
        end_at: End of the last hour.
    """

    scenario: Scenario
    year: int
    month: int
    begin_at: datetime
    end_at: datetime

    @classmethod
    def before(cls, at: datetime, *, clusters: int, hours: int | None) -> Self:
        """Return the last hours of the last month that is over in every zone.

        Args:
            at: Now.
            clusters: How many.
            hours: Of each cluster; None for the whole month.
        """
        first = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        last = first - timedelta(days=1)
        spans = [month_hours(plan, year=last.year, month=last.month) for plan in ORGANIZATIONS]
        begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
        if hours is not None:
            begin = end - timedelta(hours=hours)
        return cls(
            scenario=fleet_scenario(SEED, begin, end + SCENARIO_MARGIN, clusters=clusters),
            year=last.year,
            month=last.month,
            begin_at=begin,
            end_at=end,
        )

    @property
    def label(self) -> str:
        """Return the month, as billing periods are labelled."""
        return f"{self.year:04d}-{self.month:02d}"

    def parts(self, count: int) -> list[datetime]:
        """Return the ends of equal parts, in whole hours; the last is the end."""
        hours = (self.end_at - self.begin_at) // HOUR
        return [self.begin_at + hours * number // count * HOUR for number in range(1, count + 1)]

    @property
    def windows(self) -> int:
        """Return how many hours there are in all clusters together."""
        hours = (self.end_at - self.begin_at) // HOUR
        return hours * len(self.scenario.clusters)

    @property
    def books(self) -> tuple[PlannedBook, ...]:
        """Return the demo's prices, without those that changed before the first hour."""
        day = self.begin_at.astimezone(UTC).day
        is_whole = self.begin_at.astimezone(UTC).month != self.month
        return tuple(
            replace(
                book,
                prices=tuple(
                    price
                    for price in book.prices
                    if price.from_day == 0 or is_whole or price.from_day > day
                ),
            )
            for book in PRICE_BOOKS
        )

    def verdict(self) -> OracleVerdict:
        """Return what the invoices of the month must say."""
        return judge(
            self.scenario, self.books, year=self.year, month=self.month, since=self.begin_at
        )
