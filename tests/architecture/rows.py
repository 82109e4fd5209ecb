"""Rows of every list of the API: one set after another, each of an organization of its own."""

from datetime import timedelta
from decimal import Decimal

from billing.models import (
    BillingPeriod,
    Invoice,
    Issuer,
    MinimumCharge,
    PriceCalendar,
    PriceDraft,
    ProjectRoute,
    Recipient,
    Repricing,
    TaxRate,
    TaxTreatment,
    TierSchedule,
)
from billing.services.accrual import accrue_windows
from metering.domain.catalogue.sizing import DEFAULT_RULES, rule_to_json, rules_digest
from metering.domain.corrections.correction import CorrectionState
from metering.models import (
    CapacityRecord,
    CatalogueVersion,
    ExceptionKind,
    MeteringException,
    MeteringWindow,
)
from quotas.models import EnforcementTarget, PreemptionPolicy, QuotaRequest, QuotaSuspension
from tenants.domain.actors import system_actor
from tenants.domain.identity.roles import Role
from tenants.services.identity.tokens import create_service_account, issue_token
from tests.architecture.ledger_rows import make_ledger_rows
from tests.support.billing.late import correct
from tests.support.billing.ledger import TICK, Ledger, Use, make_ledger, sealed_window
from tests.support.builders import AT, MONTH_START, grant, make_user
from tests.support.flows.asking_estate import make_asking
from tests.support.flows.fair_use import make_loan
from tests.support.metering.derived_rows import make_derived_rows
from tests.support.metering.device_rows import make_device_usage
from tests.support.quotas.builders import (
    hold,
    make_grant,
    make_limit,
    make_policy,
    make_refusal,
    make_reservation,
)
from tests.support.quotas.preempting import make_plan, protect

SEED = system_actor("seed")


def make_set(number: int) -> None:
    """Make at least one row of every list; no two sets share any."""
    ledger = make_ledger(f"org-{number}", cluster_slug=f"cluster-{number}")
    uses = [Use(ledger.llm), Use(ledger.vision, size="large", price_group="H100/whole")]
    window = sealed_window(ledger.cluster, uses)
    accrue_windows(window_ids=[window.pk], actor=TICK, at=AT)
    _make_people(ledger, number)
    _make_metering(window)
    _make_catalogue(number)
    make_derived_rows(window, ledger.llm)
    correct(window, ledger.llm, 60, state=CorrectionState.PROPOSED)
    _make_device(window)
    _make_quotas(ledger, number)
    _make_invoice(ledger)
    _make_repricing(ledger)
    make_ledger_rows(ledger, number)


def _make_people(ledger: Ledger, number: int) -> None:
    member = make_user(f"member-{number}")
    grant(member, Role.MEMBER, project=ledger.llm)
    account = create_service_account(
        organization=ledger.organization, slug=f"bot-{number}", name="Bot", actor=SEED, at=AT
    )
    issue_token(
        name="nightly",
        expires_at=AT + timedelta(days=30),
        service_account=account,
        actor=SEED,
        at=AT,
    )


def _make_catalogue(number: int) -> None:
    CatalogueVersion.objects.create(
        version=100 + number,
        rules=[rule_to_json(rule) for rule in DEFAULT_RULES],
        digest=rules_digest(DEFAULT_RULES),
        created_at=AT,
    )


def _make_metering(window: MeteringWindow) -> None:
    MeteringException.objects.create(
        cluster=window.cluster,
        window=window,
        window_start=window.start_at,
        kind=ExceptionKind.UNKNOWN_DEVICE,
        subject="pod",
        summary="No rule knows it.",
        remedy="Add one.",
        created_at=AT,
    )


def _make_device(window: MeteringWindow) -> None:
    """Make capacity and a device's row in an hour that is not sealed; a sealed one takes none."""
    start_at = window.start_at + timedelta(hours=1)
    later = MeteringWindow.objects.create(
        cluster=window.cluster, start_at=start_at, not_before=start_at
    )
    CapacityRecord.objects.create(
        window=later,
        window_start=start_at,
        cluster=window.cluster,
        node="node-1",
        resource="nvidia_com_gpu",
        size="large",
        price_group="H100/whole",
        allocatable_units=8,
        capacity_unit_seconds=28_800,
        billed_unit_seconds=3_600,
        held_unit_seconds=0,
        idle_unit_seconds=25_200,
    )
    make_device_usage(
        later,
        node="node-1",
        uuid="GPU-1",
        attribution="idle",
        begin_at=start_at,
        end_at=start_at + timedelta(hours=1),
    )


def _make_quotas(ledger: Ledger, number: int) -> None:
    make_limit(ledger.organization)
    make_grant(make_limit(ledger.organization, ledger.llm), 1)
    QuotaSuspension.objects.create(organization=ledger.organization, reason="Arrears.", begin_at=AT)
    make_policy(ledger.organization, ledger.llm)
    hold(ledger.cluster, f"{ledger.organization.slug}-llm", units=2)
    QuotaRequest.objects.create(
        organization=ledger.organization,
        project=ledger.llm,
        size="large",
        requested_units=4,
        justification="Training.",
        requested_by=make_user(f"asker-{number}"),
        created_at=AT,
    )
    make_asking(ledger.organization, ledger.llm, make_user(f"renewer-{number}"))
    make_plan(ledger.organization)
    PreemptionPolicy.objects.create(organization=ledger.organization)
    protect(ledger.organization, ledger.llm)
    make_loan(ledger.organization, ledger.llm)
    EnforcementTarget.objects.create(
        cluster=ledger.cluster,
        namespace=f"{ledger.organization.slug}-llm",
        project=ledger.llm,
        not_before=MONTH_START,
    )
    make_reservation(ledger.cluster, ledger.llm)
    make_refusal(ledger.cluster, ledger.llm)


def _make_invoice(ledger: Ledger) -> None:
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    Invoice.objects.create(
        organization=ledger.organization,
        period=period,
        series="GL",
        currency="EUR",
        total=Decimal("2.00"),
        drafted_by="dora",
        drafted_by_id="7",
        drafted_at=AT,
    )


def _make_route(ledger: Ledger) -> None:
    slug, count = ledger.organization.slug, Issuer.objects.count()
    issuer = Issuer.objects.create(
        slug=slug,
        name="Labs",
        address="Lab 1",
        series=f"S{count}",
        credit_series=f"S{count}-CN",
        created_at=AT,
    )
    recipient = Recipient.objects.create(
        organization=ledger.organization, slug="physics", name="Physics", created_at=AT
    )
    ProjectRoute.objects.create(
        organization=ledger.organization,
        project=ledger.llm,
        issuer=issuer,
        recipient=recipient,
        created_at=AT,
    )


def _make_calendar(ledger: Ledger) -> None:
    PriceCalendar.objects.create(
        price_book=ledger.book,
        time_zone="UTC",
        bands=[{"band": "night", "days": ["mon"], "from": "00:00", "to": "06:00"}],
        begin_at=AT + timedelta(days=1),
        published_at=AT,
    )


def _make_repricing(ledger: Ledger) -> None:
    _make_route(ledger)
    _make_calendar(ledger)
    TaxRate.objects.create(
        country="DE",
        category="S",
        rate=19,
        valid_from=AT.date() + TaxRate.objects.count() * timedelta(days=1),
        published_at=AT,
    )
    MinimumCharge.objects.create(
        organization=ledger.organization,
        amount=5,
        currency="EUR",
        first_month="2027-01",
        published_at=AT,
    )
    TierSchedule.objects.create(
        price_book=ledger.book,
        name="Bulk",
        basis="quantity",
        kind="graduated",
        scope="project",
        span="period",
        first_month="2026-10",
        last_month="2026-12",
        bands=[],
        published_at=AT,
    )
    TaxTreatment.objects.create(
        organization=ledger.organization,
        country="DE",
        category="S",
        valid_from=AT.date(),
        published_at=AT,
    )
    PriceDraft.objects.create(
        price_book=ledger.book,
        valid_from=AT,
        prices=[],
        month="2026-10",
        effects=[],
        reason="New.",
        requested_at=AT,
    )
    period = BillingPeriod.objects.filter(organization=ledger.organization).earliest("label")
    Repricing.objects.create(
        organization=ledger.organization,
        period=period,
        reason="Wrong.",
        changes=[],
        currency="EUR",
        before=0,
        after=0,
        requested_at=AT,
    )
