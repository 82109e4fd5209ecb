"""Late truth on its way: sealed, invoiced, reported later, and billed by the next invoice, once."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from billing.domain.money import price_of
from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine
from billing.selectors.documents.membership import billed_charges
from billing.services.closing import review_period
from billing.services.finalizing import finalize_invoice
from billing.tasks import accrue_late, accrue_pending
from metering.models import MeteringException, MeteringWindow, UsageCorrection
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.corrections.rechecking import recheck_due
from metering.services.corrections.review import approve_correction, ask_correction
from tenants.domain.actors import Actor, ActorKind
from tenants.models import Cluster, Project
from tenants.services.namespaces import bind_namespace
from tests.support.billing.ledger import DORA, ERIC, TICK, assign, make_book, make_price
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ReplayedSource, ended_pod, observation, pod, ticks, worker
from tests.support.shared_rows import shared_rows

LAST_HOUR = datetime(2026, 10, 31, 23, tzinfo=UTC)
MONTH_OVER = LAST_HOUR + timedelta(hours=1)
FRANK = Actor(kind=ActorKind.PERSON, id="7", label="frank")
FAYE = Actor(kind=ActorKind.PERSON, id="8", label="faye")
PRICE = Decimal("2.9001")
LARGE = "Large unit, H100 whole device"

pytestmark = pytest.mark.django_db


@shared_rows
def project() -> Project:
    """A project whose namespaces were bound for October's last hour and November's first."""
    project = make_project(make_organization())
    book = make_book()
    assign(project.organization, book)
    make_price(book, str(PRICE), size="large")
    cluster = make_cluster(metered_from=LAST_HOUR)
    bind(
        cluster,
        "team-nlp",
        project,
        begin_at=LAST_HOUR,
        end_at=MONTH_OVER + timedelta(hours=1),
    )
    return project


def see(metering: Worker, hour: datetime, *lives: tuple[str, int, str]) -> None:
    """Let the source tell pods of an hour: name, seconds and namespace."""
    shift = hour - datetime(2026, 10, 5, 13, tzinfo=UTC)
    pods = []
    for uid, seconds, namespace in lives:
        reported = ended_pod(uid, 0, seconds, namespace=namespace)
        moved = {
            name: getattr(reported, name) + shift
            for name in (
                "scheduled_at",
                "first_seen_at",
                "last_seen_at",
                "finished_at",
                "terminal_seen_at",
            )
        }
        pods.append(pod(uid, namespace=namespace, **moved))
    source = metering.source
    assert isinstance(source, ReplayedSource)
    source.seen[hour] = observation(
        *pods, start_at=hour, end_at=hour + timedelta(hours=1), ticks=ticks(start_at=hour)
    )


def run(metering: Worker, at: datetime) -> None:
    """Meter, look again and accrue whatever is due."""
    meter_due(worker=metering, at=at)
    recheck_due(worker=metering, at=at)
    accrue_pending(at=at, actor=TICK)
    accrue_late(at=at, actor=TICK)


def invoice(label: str, at: datetime) -> Invoice:
    """Review and finalize a month, which may cost many times the one before."""
    period = BillingPeriod.objects.get(label=label)
    review_period(
        period_id=period.pk, actor=DORA, at=at, acknowledgement="Checked.", terms=SITE_TERMS
    )
    drafted = Invoice.objects.get(period=period, state="draft")
    return finalize_invoice(invoice_id=drafted.pk, actor=ERIC, at=at, terms=SITE_TERMS)


def lines(made: Invoice) -> list[tuple[str, int, str]]:
    return [
        (line["description"], line["unit_seconds"], line["amount"])
        for line in made.document["lines"]
    ]


def oracle(*seconds: int) -> Decimal:
    """Return what all of a month's use costs at once."""
    return price_of(sum(seconds), unit_price=PRICE, currency="EUR").amount


def billed_by_month() -> dict[str, Decimal]:
    """Return what final invoices have billed by the month of the use."""
    found: Counter[str] = Counter()
    for line in InvoiceLine.objects.filter(invoice__state="final"):
        month = line.service_period or line.invoice.period
        found[month.label] += line.amount  # type: ignore[assignment]
    return dict(found)  # type: ignore[arg-type]


def test_what_comes_after_the_invoice_is_a_labelled_line_of_the_next(project: Project) -> None:
    metering = worker()
    see(metering, LAST_HOUR, ("a", 1001, "team-nlp"))
    see(metering, MONTH_OVER, ("n", 3600, "team-nlp"))
    run(metering, MONTH_OVER + timedelta(minutes=20))
    october = invoice("2026-10", MONTH_OVER + timedelta(minutes=30))
    assert lines(october) == [(LARGE, 1001, "0.81")]

    see(metering, LAST_HOUR, ("a", 1001, "team-nlp"), ("late", 1001, "team-nlp"))
    run(metering, MONTH_OVER + timedelta(hours=6, minutes=1))
    see(metering, LAST_HOUR, ("late", 1001, "team-nlp"), ("later", 1001, "team-nlp"))
    run(metering, MONTH_OVER + timedelta(hours=25))

    november = invoice("2026-11", MONTH_OVER + timedelta(days=31))
    assert lines(november) == [
        (LARGE, 3600, "2.90"),
        (f"{LARGE}, late usage of October 2026", 2002, "1.61"),
    ]
    assert billed_by_month() == {"2026-10": oracle(1001, 1001, 1001), "2026-11": oracle(3600)}
    october.refresh_from_db()
    assert lines(october) == [(LARGE, 1001, "0.81")]
    assert project.charges.count() == billed_charges(Charge.objects.all()).count() == 4


def test_what_an_exception_held_is_billed_once_its_namespace_is_bound(project: Project) -> None:
    metering = worker()
    see(metering, LAST_HOUR, ("a", 1001, "team-nlp"), ("s", 1800, "stray"))
    see(metering, MONTH_OVER, ("n", 3600, "team-nlp"))
    run(metering, MONTH_OVER + timedelta(minutes=20))
    invoice("2026-10", MONTH_OVER + timedelta(minutes=30))
    held = MeteringException.objects.get()
    assert (held.kind, held.state, held.held_unit_seconds) == ("unbound_namespace", "open", 1800)
    run(metering, MONTH_OVER + timedelta(hours=2))

    bind_namespace(
        cluster=Cluster.objects.get(),
        namespace="stray",
        project=project,
        valid_from=LAST_HOUR,
        valid_until=MONTH_OVER + timedelta(hours=1),
        actor=FRANK,
        at=MONTH_OVER + timedelta(hours=3),
    )
    run(metering, MONTH_OVER + timedelta(hours=3, minutes=5))

    correction = UsageCorrection.objects.get()
    assert (correction.cause, correction.unit_seconds) == ("released", 1800)
    held.refresh_from_db()
    assert held.resolution == f"Billed by usage correction {correction.pk}."
    november = invoice("2026-11", MONTH_OVER + timedelta(days=31))
    assert lines(november)[1] == (f"{LARGE}, late usage of October 2026", 1800, "1.45")
    assert billed_by_month()["2026-10"] == oracle(1001, 1800)


@pytest.mark.usefixtures("project")
def test_a_retraction_after_the_invoice_is_given_back() -> None:
    metering = worker()
    see(metering, LAST_HOUR, ("a", 1001, "team-nlp"))
    see(metering, MONTH_OVER, ("n", 3600, "team-nlp"))
    run(metering, MONTH_OVER + timedelta(minutes=20))
    invoice("2026-10", MONTH_OVER + timedelta(minutes=30))
    run(metering, MONTH_OVER + timedelta(hours=2))
    record = MeteringWindow.objects.get(start_at=LAST_HOUR).records.get()

    asked = ask_correction(
        record=record,
        unit_seconds=None,
        reason="The node was broken.",
        is_four_eyes=True,
        actor=FRANK,
        at=MONTH_OVER + timedelta(hours=3),
    )
    approve_correction(
        correction_id=asked.pk, is_four_eyes=True, actor=FAYE, at=MONTH_OVER + timedelta(hours=4)
    )
    run(metering, MONTH_OVER + timedelta(hours=25))

    november = invoice("2026-11", MONTH_OVER + timedelta(days=31))
    assert lines(november) == [
        (LARGE, 3600, "2.90"),
        (f"{LARGE}, correction of October 2026", -1001, "-0.81"),
    ]
    assert billed_by_month() == {"2026-10": Decimal("0.00"), "2026-11": oracle(3600)}
    assert november.total == oracle(3600) - oracle(1001)
