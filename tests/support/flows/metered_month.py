"""The end of a month of the demo's world, metered and invoiced through the services alone.

The clusters are metered from three days before the month's end, so that whole invoices are made in
seconds: with a price change, an outage, and the hour that Berlin counts to the next month.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.contrib.auth.models import User

from billing.models import BillingPeriod, Invoice
from billing.selectors.pending import pending_window_ids
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.tasks import accrue_pending
from metering.domain.collection.windows import GapPolicy
from metering.models import MeteringWindow
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_due
from simulator.adapters.usage_source import SimulatedUsageSource
from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.scenario import Outage, Scenario
from simulator.cluster.tenancy import PlannedBook, PlannedPrice
from simulator.demo.oracle import OracleVerdict, judge
from simulator.demo.plan import FINANCE_ADMIN, FINANCE_REVIEWER, PLATFORM_ADMIN
from simulator.demo.seeding import Endpoints, seed
from tenants.domain.actors import Actor, system_actor
from tenants.selectors.actors import actor_of_user
from tests.support.billing.site import SITE_TERMS

METERED_FROM = datetime(2026, 10, 29, tzinfo=UTC)
MONTH_OVER = datetime(2026, 11, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 1, 6, tzinfo=UTC)
HOURS_METERED = 72
OUTAGE = Outage(
    datetime(2026, 10, 30, 14, 10, tzinfo=UTC), datetime(2026, 10, 30, 14, 35, tzinfo=UTC)
)
OUTAGE_HOUR = datetime(2026, 10, 30, 14, tzinfo=UTC)
CHANGE_DAY = 31
BOOKS = (
    PlannedBook(
        slug="late-eur",
        name="Late October (EUR)",
        currency="EUR",
        prices=(
            PlannedPrice("small", "*", Decimal("0.4217")),
            PlannedPrice("medium", "*", Decimal("1.3503")),
            PlannedPrice("large", "*", Decimal("2.9001")),
            PlannedPrice("small", "A100/1of4", Decimal("0.3109")),
            PlannedPrice("large", "*", Decimal("2.7507"), from_day=CHANGE_DAY),
        ),
    ),
    PlannedBook(
        slug="late-usd",
        name="Late October (USD)",
        currency="USD",
        prices=(
            PlannedPrice("small", "*", Decimal("0.4603")),
            PlannedPrice("medium", "*", Decimal("1.4909")),
            PlannedPrice("large", "*", Decimal("3.1907")),
            PlannedPrice("small", "*", Decimal("0.5101"), from_day=CHANGE_DAY),
        ),
    ),
)


@dataclass(frozen=True)
class MeteredMonth:
    """What came out, and what should have.

    Attributes:
        first_sweep: What one sweep could do alone, before a person decided on the gap.
        gaps: Hours that waited for a person.
    """

    scenario: Scenario
    verdict: OracleVerdict
    first_sweep: CollectionSweep
    gaps: tuple[datetime, ...]
    invoices: tuple[Invoice, ...]


def play_month(number: int) -> MeteredMonth:
    """Seed, meter, decide, accrue, draft and finalize; return everything that came of it."""
    scenario = demo_scenario(
        number, METERED_FROM, MONTH_OVER + timedelta(days=1), outages=(OUTAGE,)
    )
    _seed(scenario)
    worker = _worker(scenario)
    first_sweep = meter_due(worker=worker, at=NOW)
    gaps = _accept_gaps()
    meter_due(worker=worker, at=NOW)
    while pending_window_ids(limit=1):
        accrue_pending(at=NOW, actor=system_actor("billing.tick"))
    return MeteredMonth(
        scenario=scenario,
        verdict=judge(scenario, BOOKS, year=2026, month=10, since=METERED_FROM),
        first_sweep=first_sweep,
        gaps=gaps,
        invoices=_invoices(),
    )


def person(username: str) -> Actor:
    """Return one of the world's people as an actor."""
    return actor_of_user(User.objects.get(username=username))


def _seed(scenario: Scenario) -> None:
    nowhere = Endpoints(
        prometheus_url="http://127.0.0.1:9/",
        kubernetes_url="https://127.0.0.1:9/",
        credential_reference="kubeconfig:nowhere",
    )
    seed(
        scenario,
        metered_from=METERED_FROM,
        year=2026,
        month=10,
        endpoints={cluster.slug: nowhere for cluster in scenario.clusters},
        password="correct horse battery",
        at=NOW,
        books=BOOKS,
    )


def _worker(scenario: Scenario) -> Worker:
    return Worker(
        name="worker-1",
        source=SimulatedUsageSource(scenario=scenario),
        actor=system_actor("metering.tick"),
    )


def _accept_gaps() -> tuple[datetime, ...]:
    gaps = list(MeteringWindow.objects.filter(state="gap").order_by("start_at"))
    for window in gaps:
        decide_window(
            window_id=window.pk,
            decision=GapPolicy.ACCEPT,
            note="Prometheus was down.",
            actor=person(PLATFORM_ADMIN),
            at=NOW,
        )
    return tuple(window.start_at for window in gaps)


def _invoices() -> tuple[Invoice, ...]:
    for period in BillingPeriod.objects.filter(label="2026-10").order_by("organization__slug"):
        draft = draft_invoice(
            period_id=period.pk, actor=person(FINANCE_ADMIN), at=NOW, terms=SITE_TERMS
        )
        finalize_invoice(
            invoice_id=draft.pk, actor=person(FINANCE_REVIEWER), at=NOW, terms=SITE_TERMS
        )
    return tuple(
        Invoice.objects.select_related("organization", "period")
        .prefetch_related("lines__project")
        .order_by("organization__slug")
    )
