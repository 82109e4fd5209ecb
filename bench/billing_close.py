"""Closing a month of many organizations: previews beside a bare GROUP BY, drafts, finals, memory.

The reference of the preview is `_BARE`: one statement that adds up the same charges by the key of a
line, and looks nothing else up.
"""

import resource
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

from bench.billing_stage import MONTH_START, execute, make_stage, meter
from bench.harness import (
    Bound,
    Figure,
    against_plain_work,
    invariant,
    is_smoke,
    ledger_database,
    measured,
    measurement,
    ratio,
)

ORGANIZATIONS = 50 if is_smoke() else 1_000
HOURS = 24 if is_smoke() else 744
PODS = 7 * ORGANIZATIONS - ORGANIZATIONS // 4
"""An hour: 5,000,000 records in the month."""
LARGE = 3_000 if is_smoke() else 3_000_000
LARGE_HOURS = 20
AT = MONTH_START + timedelta(hours=745)
PREVIEW_MAX = 2
DRAFTS_MAX, FINALS_MAX, LARGE_MAX = 215, 860, 60
"""Against the plain work."""
MEMORY_MAX_MIB = 290
_BARE = """
SELECT organization_id, project_id, size, price_group, unit_price, sum(unit_seconds)
  FROM billing_charge WHERE window_start >= %(begin)s AND window_start < %(end)s
 GROUP BY 1, 2, 3, 4, 5
"""
_UPDATED = """
SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables WHERE relname LIKE 'billing_charge%'
"""


def run() -> Iterator[Figure]:
    """Yield the figures of a close."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415

    stage = make_stage(ORGANIZATIONS, bound_hours=HOURS)
    _publish_tiers()
    meter(stage, begin=MONTH_START, hours=HOURS, pods=PODS)
    while accrue_pending(at=AT, actor=ACTOR)[0]:
        pass
    execute("VACUUM ANALYZE billing_charge", connection_name="owner")
    yield measurement("billing_close.charges", Charge.objects.count(), "charges")
    yield from _preview()
    yield from _close(stage["organizations"])
    large = {**stage, "organizations": stage["organizations"][:1], "count": 1}
    large["projects"] = stage["projects"][:1]
    yield from _large(large)


def _publish_tiers() -> None:
    """Give every organization 10 % off above 100 unit-hours of the month."""
    from billing.domain.pricing.tier_schedule import (  # noqa: PLC0415 - Django is set up by now.
        TierBand,
        TierBasis,
        TierKind,
        TierRule,
        TierScope,
        TierSpan,
    )
    from billing.models import PriceBook  # noqa: PLC0415
    from billing.services.pricing.tiers import publish_tiers  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    rule = TierRule(
        name="Volume",
        basis=TierBasis.QUANTITY,
        kind=TierKind.GRADUATED,
        scope=TierScope.ORGANIZATION,
        span=TierSpan.PERIOD,
        first_month="2026-10",
        last_month="2026-12",
        bands=(TierBand(Decimal(0), Decimal(0)), TierBand(Decimal(100), Decimal(10))),
    )
    publish_tiers(
        price_book=PriceBook.objects.get(), rule=rule, actor=system_actor("bench"), at=MONTH_START
    )


def _preview() -> Iterator[Figure]:
    from billing.models import BillingPeriod  # noqa: PLC0415 - Django is set up by now.
    from billing.selectors.documents.previews import preview_lines  # noqa: PLC0415

    with measured() as bare:
        execute(_BARE, {"begin": MONTH_START, "end": AT})
    months = BillingPeriod.objects.filter(label="2026-10").select_related("organization")
    with measured() as previews:
        lines = preview_lines(list(months))
    tiers = sum(line.kind == "tier" for found in lines.values() for line in found)
    yield invariant("billing_close.tier_lines", tiers, "lines", ORGANIZATIONS)
    yield measurement("billing_close.bare_group_by", bare.seconds, "s")
    yield ratio(
        "billing_close.previews_to_bare_group_by",
        previews.seconds / bare.seconds,
        Bound.AT_MOST,
        PREVIEW_MAX,
    )


def _close(organizations: list[UUID]) -> Iterator[Figure]:
    """Draft and finalize every month as two people, one after the other, as the admin's page does.

    Its slices of time are left out.
    """
    from billing.adapters.terms import invoice_terms  # noqa: PLC0415 - Django is set up by now.
    from billing.models import BillingPeriod, Invoice  # noqa: PLC0415
    from billing.services.finalizing import finalize_invoice  # noqa: PLC0415
    from billing.tasks import settle_periods  # noqa: PLC0415
    from tenants.domain.actors import Actor, ActorKind  # noqa: PLC0415

    first, second = (Actor(ActorKind.PERSON, id=name, label=name) for name in ("a", "b"))
    with measured() as drafting:
        settle_periods(at=AT, actor=first)
    months = BillingPeriod.objects.filter(label="2026-10", organization__in=organizations)
    drafts = list(months.order_by("organization").values_list("invoices", flat=True))
    finalize = partial(finalize_invoice, actor=second, at=AT, terms=invoice_terms())
    with measured() as finalizing:
        counts = _finalize(drafts, finalize)
    final = Invoice.objects.filter(state="final").count()
    yield invariant("billing_close.finals", final, "invoices", ORGANIZATIONS)
    yield from against_plain_work("billing_close.drafts", drafting.seconds, DRAFTS_MAX)
    yield from against_plain_work(
        "billing_close.finals_with_digest_and_audit", finalizing.seconds, FINALS_MAX
    )
    yield invariant("billing_close.more_statements_for_the_last", counts[1] - counts[0], "", 0)
    yield invariant("billing_close.charges_updated", _updated(), "charges", 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    yield Figure(
        "billing_close.memory", Decimal(peak), "MiB", Bound.AT_MOST, Decimal(MEMORY_MAX_MIB)
    )


def _finalize(drafts: list[UUID], finalize: Callable[..., object]) -> list[int]:
    """Finalize drafts, read some together, and return the statements of the first and the last."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    from billing.admin.month_steps import READ_TOGETHER  # noqa: PLC0415
    from billing.selectors.documents.finals import read_finals  # noqa: PLC0415
    from tenants.services.turns import with_readings  # noqa: PLC0415

    counts = []
    read = partial(read_finals, at=AT)
    readings = with_readings(drafts, read, together=READ_TOGETHER, event="bench", at=AT)
    for number, (draft, reading) in enumerate(readings):
        if number in {0, len(drafts) - 1}:
            with CaptureQueriesContext(connection) as statements:
                finalize(invoice_id=draft, reading=reading)
            counts.append(len(statements))
        else:
            finalize(invoice_id=draft, reading=reading)
    return counts


def _updated() -> int:
    """Return how many updates of charges the database has counted."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(_UPDATED)
        return int(cursor.fetchone()[0])


def _large(stage: dict[str, object]) -> Iterator[Figure]:
    """Close one organization's November of many charges."""
    from billing.adapters.terms import invoice_terms  # noqa: PLC0415 - Django is set up by now.
    from billing.models import BillingPeriod, Invoice  # noqa: PLC0415
    from billing.services.closing import review_period  # noqa: PLC0415
    from billing.services.finalizing import finalize_invoice  # noqa: PLC0415
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415
    from metering.services.collection.windows import ensure_partitions  # noqa: PLC0415
    from tenants.domain.actors import Actor, ActorKind  # noqa: PLC0415

    begin = MONTH_START + timedelta(hours=744)
    later = begin + timedelta(days=31)
    ensure_partitions(from_month=begin, months=1)
    meter(stage, begin=begin, hours=LARGE_HOURS, pods=LARGE // LARGE_HOURS)
    while accrue_pending(at=later, actor=ACTOR)[0]:
        pass
    execute("VACUUM ANALYZE billing_charge", connection_name="owner")
    period = BillingPeriod.objects.get(
        label="2026-11",
        organization=stage["organizations"][0],  # type: ignore[index]
    )
    terms = invoice_terms()
    first, second = (Actor(ActorKind.PERSON, id=name, label=name) for name in ("a", "b"))
    with measured() as closing:
        review_period(
            period_id=period.pk,
            actor=first,
            at=later,
            terms=terms,
            acknowledgement="A bench.",
        )
        draft = Invoice.objects.get(period=period)
        final = finalize_invoice(invoice_id=draft.pk, actor=second, at=later, terms=terms)
    yield invariant("billing_close.large_hours", final.unit_seconds // 3600, "unit-hours", LARGE)
    yield from against_plain_work("billing_close.large_organization", closing.seconds, LARGE_MAX)
