"""The oracle: what the invoices must say, computed from the scenario itself.

It shares no code with the product: it knows the scenario's pods, the plan's prices, and the rules
that the documentation states. A source that samples cannot know everything, so the oracle has
two quantities: what was true, and what could be known from the successful scrapes. Invoices
must equal the second; the difference between the two is listed by cause. Of a cluster whose API
was watched all the time everything could be known.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from zoneinfo import ZoneInfo

from simulator.cluster.scenario import (
    Pod,
    Scenario,
    SimulatedCluster,
)
from simulator.cluster.tenancy import OrganizationPlan, PlannedBook

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
GAP_IN_SCRAPES = Decimal("2.5")
"""Two scrapes further apart than this many scrapes have an outage between them."""


@dataclass(frozen=True)
class Usage:
    """One pod's stretch that can be known and is billable."""

    organization: str
    project: str
    size: str
    price_group: str
    units: int
    begin_at: datetime
    end_at: datetime


@dataclass(frozen=True)
class Unknowable:
    """Where truth and what could be known differ: signed unit-seconds, true minus known."""

    cluster: str
    pod: str
    cause: str
    unit_seconds: int


@dataclass
class ExpectedInvoice:
    """What one organization's invoice must say.

    Attributes:
        unit_seconds: By size.
        lines: Amount by (project, size, price group, unit price).
    """

    organization: str
    currency: str
    unit_seconds: dict[str, int] = field(default_factory=dict)
    lines: dict[tuple[str, str, str, Decimal], Decimal] = field(default_factory=dict)

    @property
    def total(self) -> Decimal:
        """The sum of the rounded lines."""
        return sum(self.lines.values(), Decimal("0.00"))


@dataclass(frozen=True)
class OracleVerdict:
    """The oracle's result for one month."""

    invoices: tuple[ExpectedInvoice, ...]
    unknowable: tuple[Unknowable, ...]


def month_hours(plan: OrganizationPlan, *, year: int, month: int) -> tuple[datetime, datetime]:
    """Return [begin, end) of a month in an organization's zone, floored to whole UTC hours."""
    zone = ZoneInfo(plan.time_zone)
    begin = datetime(year, month, 1, tzinfo=zone)
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone)
    floor = [moment.astimezone(UTC).replace(minute=0, second=0) for moment in (begin, end)]
    return floor[0], floor[1]


def judge(
    scenario: Scenario,
    books: Iterable[PlannedBook],
    *,
    year: int,
    month: int,
    since: datetime | None = None,
    watched: Collection[str] = (),
) -> OracleVerdict:
    """Return what every invoice of a month must say, and what could not be known.

    Args:
        scenario: The world, at least until the end of the month in every zone.
        books: Prices by currency.
        year: Of the month.
        month: 1 to 12.
        since: First metered hour, when that is later than the month's; None when it is not.
        watched: Clusters whose API was watched without a break.
    """
    by_currency = {book.currency: book for book in books}
    usages, unknowable = _know_everything(scenario, watched=watched)
    invoices = []
    spans = []
    for plan in scenario.organizations:
        first_hour, end = month_hours(plan, year=year, month=month)
        begin = max(first_hour, since or first_hour)
        spans.append((begin, end))
        own = (usage for usage in usages if usage.organization == plan.slug)
        book = by_currency[plan.billing_currency]
        prices = _PriceList(book, year=year, month=month)
        invoices.append(_invoice(plan, prices, own, begin=begin, end=end))
    first, last = min(s[0] for s in spans), max(s[1] for s in spans)
    inside = tuple(u for at, u in unknowable if first <= at < last)
    return OracleVerdict(invoices=tuple(invoices), unknowable=inside)


def _invoice(
    plan: OrganizationPlan,
    prices: "_PriceList",
    usages: Iterable[Usage],
    *,
    begin: datetime,
    end: datetime,
) -> ExpectedInvoice:
    seconds: dict[tuple[str, str, str, Decimal], int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for usage in usages:
        first, last = max(usage.begin_at, begin), min(usage.end_at, end)
        if last <= first:
            continue
        for price, part in prices.split(usage.size, usage.price_group, first, last):
            amount = usage.units * part
            seconds[(usage.project, usage.size, usage.price_group, price)] += amount
            sizes[usage.size] += amount
    lines = {key: _round(value * key[3] / 3600) for key, value in seconds.items() if value}
    return ExpectedInvoice(
        organization=plan.slug,
        currency=plan.billing_currency,
        unit_seconds=dict(sizes),
        lines=lines,
    )


def _round(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)


class _PriceList:
    """A planned price book, queried by time."""

    def __init__(self, book: PlannedBook, *, year: int, month: int) -> None:
        """Convert days of the month to times."""
        self._steps: dict[tuple[str, str], list[tuple[datetime, Decimal]]] = defaultdict(list)
        for price in book.prices:
            begin = datetime(year, month, price.from_day or 1, tzinfo=UTC)
            moment = datetime.min.replace(tzinfo=UTC) if price.from_day == 0 else begin
            self._steps[(price.size, price.price_group)].append((moment, price.unit_price))

    def split(
        self, size: str, group: str, begin: datetime, end: datetime
    ) -> Iterator[tuple[Decimal, int]]:
        """Yield each price in force within [begin, end), with its seconds, oldest first."""
        steps = self._steps.get((size, group)) or self._steps[(size, "*")]
        for index, (since, price) in enumerate(sorted(steps)):
            until = sorted(steps)[index + 1][0] if index + 1 < len(steps) else end
            first, last = max(begin, since), min(end, until)
            if last > first:
                yield price, (last - first) // SECOND


def _know_everything(
    scenario: Scenario, *, watched: Collection[str]
) -> tuple[list[Usage], list[tuple[datetime, Unknowable]]]:
    usages: list[Usage] = []
    unknowable: list[tuple[datetime, Unknowable]] = []
    for cluster in scenario.clusters:
        scrapes = _Scrapes(cluster, scenario)
        for pod in cluster.pods:
            binding = scenario.bindings.get((cluster.slug, pod.namespace))
            if pod.truth is None or not pod.true_size or binding is None:
                continue
            organization, project = binding
            begin, true_end = pod.truth
            known_end, cause = scrapes.end_of(pod)
            if cluster.slug in watched:
                known_end, cause = true_end or scenario.until, ""
            if known_end is not None and known_end > begin:
                usages.append(
                    Usage(
                        organization=organization.slug,
                        project=project.slug,
                        size=pod.true_size,
                        price_group=pod.true_price_group,
                        units=pod.true_units,
                        begin_at=begin,
                        end_at=known_end,
                    )
                )
            if cause and true_end is not None:
                missing = (true_end - (known_end or begin)) // SECOND * pod.true_units
                name = f"{pod.namespace}/{pod.name}"
                unknowable.append((true_end, Unknowable(cluster.slug, name, cause, missing)))
    return usages, unknowable


class _Scrapes:
    """When the scrapes of one cluster happened, and what they could show of a pod."""

    def __init__(self, cluster: SimulatedCluster, scenario: Scenario) -> None:
        """List the scrapes, from before the first pod that matters to the horizon."""
        self._ticks = cluster.ticks(scenario.begin_at - 2 * HOUR, scenario.until)
        self._gap = timedelta(seconds=int(cluster.scrape_interval_seconds * GAP_IN_SCRAPES))
        self._horizon = scenario.until

    def end_of(self, pod: Pod) -> tuple[datetime | None, str]:
        """Return the end that can be known, and why it is not the true one ("" when it is).

        None for an end means the pod was never seen. A pod that runs on ends at the horizon.
        """
        if pod.deleted_at is None or pod.deleted_at >= self._horizon:
            return pod.finished_at or self._horizon, ""
        gone = bisect_left(self._ticks, pod.deleted_at)
        last = self._ticks[gone - 1] if gone else None
        if last is None or last < pod.created_at:
            return None, "lived between two scrapes"
        if pod.finished_at is not None and last >= pod.finished_at:
            return pod.finished_at, ""
        if gone == len(self._ticks):
            return self._horizon, ""
        following = self._ticks[gone]
        if following - last > self._gap:
            return last, "ended inside an outage"
        middle = last + (following - last) / 2
        return middle.replace(microsecond=0), "vanished between two scrapes"
