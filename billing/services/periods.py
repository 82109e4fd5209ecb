"""Opening billing periods: computed once from the organization's zone and then kept."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.domain.documents.invoicing import InvoiceState
from billing.domain.period import HourSpan, Month, fit_between, month_hours, month_of
from billing.models import BillingPeriod, Invoice, PeriodState
from billing.selectors.locks import lock_organization
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.models.organization import LifecycleState
from tenants.services.audit import record

MONTHS_AHEAD_MAX = 240
"""A window further than this from the clock is a mistake, not a backlog."""


def open_period(
    *, organization: Organization, label: str, actor: Actor, at: datetime
) -> BillingPeriod:
    """Return the period of a month, opened if it was not there.

    Args:
        organization: The organization.
        label: The month, such as "2026-10".
        actor: The account that opens it.
        at: When.

    Raises:
        PeriodLabelInvalidError: The label names no month.
    """
    month = Month.parse(label)
    with transaction.atomic():
        lock_organization(organization.pk)
        ensure_months({organization.pk: (month, month)}, actor=actor, at=at)
        return BillingPeriod.objects.get(organization=organization, label=label)


def ensure_periods(
    hours: dict[UUID, tuple[datetime, datetime]], *, actor: Actor, at: datetime
) -> int:
    """Open every missing period between two hours, and the one of now; return how many.

    The number of statements does not depend on the number of organizations or months.

    Args:
        hours: Organization to its first and last hour of usage.
        actor: The account that opens them.
        at: Now, which always gets an open period to post late usage to.
    """
    uncovered = _uncovered(hours, at=at)
    if not uncovered:
        return 0
    zones = _zones(uncovered)
    months = {
        key: (
            min(month_of(hours[key][0], zone), month_of(at, zone)),
            max(month_of(hours[key][1], zone), month_of(at, zone)),
        )
        for key, zone in zones.items()
    }
    return ensure_months(months, actor=actor, at=at)


def open_current_periods(*, actor: Actor, at: datetime) -> int:
    """Open this month's period of every active organization that lacks it; return how many."""
    active = Organization.objects.filter(state=LifecycleState.ACTIVE).order_by("pk")
    now = dict.fromkeys(active.values_list("pk", flat=True), (at, at))
    return ensure_periods(now, actor=actor, at=at)


def ensure_months(months: dict[UUID, tuple[Month, Month]], *, actor: Actor, at: datetime) -> int:
    """Open every missing period from one month to another, both included; return how many."""
    with transaction.atomic():
        stored = _stored(months)
        missing = [
            period
            for key, zone in _zones(months).items()
            for period in _missing(key, zone, *months[key], stored=stored.get(key, {}), at=at)
        ]
        if not missing:
            return 0
        BillingPeriod.objects.bulk_create(missing, ignore_conflicts=True)
        record(
            actor=actor,
            at=at,
            action="billing:period:open",
            object_kind="billing_period",
            object_id=missing[0].pk,
            organization_id=missing[0].organization_id if len(months) == 1 else None,
            facts={"periods": [f"{p.organization_id} {p.label}" for p in missing]},
        )
    return len(missing)


def postpone_draft(*, period_id: UUID, at: datetime) -> None:
    """Note that a month could not be drafted, so that the sweep tries all others before it."""
    BillingPeriod.objects.filter(pk=period_id, state=PeriodState.OPEN).update(draft_refused_at=at)


def note_checked_draft(*, period_id: UUID, at: datetime) -> None:
    """Note that a month's draft was compared with its charges."""
    drafts = Invoice.objects.filter(period=period_id, run=1, state=InvoiceState.DRAFT.value)
    drafts.update(checked_at=at)


def _uncovered(hours: Mapping[UUID, tuple[datetime, datetime]], *, at: datetime) -> list[UUID]:
    """Return the organizations whose periods leave out an hour of theirs, or one up to now.

    It is asked with every accrual, for every organization; the answer is nearly always none.
    """
    values: dict[str, Any] = {
        "organizations": list(hours),
        "first": [first for first, _ in hours.values()],
        "last": [last for _, last in hours.values()],
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_UNCOVERED, values)
        return [key for (key,) in cursor.fetchall()]


def _zones(organization_ids: Iterable[UUID]) -> dict[UUID, ZoneInfo]:
    rows = Organization.objects.filter(pk__in=list(organization_ids)).order_by("pk")
    return {key: ZoneInfo(name) for key, name in rows.values_list("pk", "time_zone")}


def _stored(months: Mapping[UUID, tuple[Month, Month]]) -> dict[UUID, dict[str, HourSpan]]:
    """Return the hours of stored months, with the one before and the one after those asked for."""
    stored: dict[UUID, dict[str, HourSpan]] = {}
    if not months:
        return stored
    before = min(first for first, _ in months.values()).shift(-1)
    after = max(last for _, last in months.values()).shift(1)
    rows = BillingPeriod.objects.filter(
        organization__in=list(months), label__gte=before.label, label__lte=after.label
    )
    for key, label, hours in rows.order_by().values_list("organization", "label", "hours"):
        stored.setdefault(key, {})[label] = HourSpan(hours.lower, hours.upper)
    return stored


def _missing(
    organization_id: UUID,
    zone: ZoneInfo,
    first: Month,
    last: Month,
    *,
    stored: dict[str, HourSpan],
    at: datetime,
) -> list[BillingPeriod]:
    known = dict(stored)
    made: list[BillingPeriod] = []
    month = first
    for _ in range(MONTHS_AHEAD_MAX):
        if month > last:
            return made
        if month.label not in known:
            span = _fitted(month, zone, known)
            known[month.label] = span
            made.append(
                BillingPeriod(
                    organization_id=organization_id,
                    label=month.label,
                    hours=DateTimeTZRange(span.begin_at, span.end_at),
                    state=PeriodState.OPEN,
                    created_at=at,
                )
            )
        month = month.shift(1)
    raise ValueError(f"{first.label} to {last.label} is longer than {MONTHS_AHEAD_MAX} months")


def _fitted(month: Month, zone: ZoneInfo, known: dict[str, HourSpan]) -> HourSpan:
    before = known.get(month.shift(-1).label)
    after = known.get(month.shift(1).label)
    return fit_between(
        month_hours(month, zone),
        previous_end_at=before.end_at if before else None,
        next_begin_at=after.begin_at if after else None,
    )


_UNCOVERED: Final = f"""
SELECT e.organization_id
  FROM (SELECT organization_id,
               tstzrange(least(first_at, %(at)s), greatest(last_at, %(at)s), '[]') AS hours
          FROM unnest(%(organizations)s::uuid[], %(first)s::timestamptz[], %(last)s::timestamptz[])
               AS e(organization_id, first_at, last_at)) e
 WHERE (SELECT range_agg(p.hours) FROM {BillingPeriod._meta.db_table} p
         WHERE p.organization_id = e.organization_id AND p.hours && e.hours)
       @> e.hours IS NOT TRUE
"""  # noqa: S608, SLF001 - Table names of own models; _meta is a documented Django API.
