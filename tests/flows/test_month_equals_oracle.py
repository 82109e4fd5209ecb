"""Three days of the demo's world through the services: the oracle agrees to the unit-second."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import connection

from billing.models import Charge, Invoice
from billing.selectors.documents.membership import billed_charges, unbilled_charges
from metering.models import CapacityRecord, MeteringException, MeteringWindow, UsageRecord
from metering.services.collection.sweeping import CollectionSweep
from simulator.demo.comparison import compare
from tests.support.flows.metered_month import (
    HOURS_METERED,
    METERED_FROM,
    MONTH_OVER,
    OUTAGE_HOUR,
    MeteredMonth,
    play_month,
)
from tests.support.sampling import soaked

BERLIN_OVER = datetime(2026, 10, 31, 23, tzinfo=UTC)
NEW_LARGE_PRICE, OLD_LARGE_PRICE = Decimal("2.7507"), Decimal("2.9001")

# Each counts what breaks the chain from a line of an invoice down to what a pod held.
LINES_WITHOUT_THEIR_CHARGES = """
SELECT count(*) FROM billing_invoiceline l
 LEFT JOIN LATERAL (
   SELECT sum(c.unit_seconds) AS total
     FROM billing_charge c
     JOIN billing_invoice i ON i.id = l.invoice_id AND i.period_id = c.period_id
     JOIN billing_billingperiod s ON s.id = coalesce(l.service_period_id, i.period_id)
    WHERE (c.project_id, c.size, c.price_group, c.unit_price)
        = (l.project_id, l.size, l.price_group, l.unit_price)
      AND s.hours @> c.window_start) charged ON true
 WHERE charged.total IS DISTINCT FROM l.unit_seconds
"""
CHARGES_WITHOUT_THEIR_USAGE = """
SELECT count(*) FROM billing_charge c
 LEFT JOIN LATERAL (
   SELECT sum(u.unit_seconds) AS total FROM metering_usage u
    WHERE (u.window_id, u.window_start, u.organization_id, u.project_id, u.owner, u.size,
           u.price_group)
        = (c.window_id, c.window_start, c.organization_id, c.project_id, c.owner, c.size,
           c.price_group)
      AND u.correction_id IS NOT DISTINCT FROM c.correction_id) used ON true
 WHERE used.total IS DISTINCT FROM c.unit_seconds
"""
USAGE_WITHOUT_ITS_ALLOCATION = """
SELECT count(*) FROM metering_usage u
 LEFT JOIN metering_podallocation a
   ON (a.cluster_id, a.pod_uid, a.resource) = (u.cluster_id, u.pod_uid, u.resource)
 WHERE a.id IS NULL
    OR (a.namespace, a.size, a.price_group, a.units, a.owner)
       IS DISTINCT FROM (u.namespace, u.size, u.price_group, u.units, a.owner)
    OR u.begin_at < a.begin_at OR u.end_at > coalesce(a.end_at, 'infinity')
"""
CHARGES_AT_ANOTHER_PRICE = """
SELECT count(*) FROM billing_charge c
  JOIN billing_price p ON p.id = c.price_id
  JOIN billing_pricebook b ON b.id = p.price_book_id
 WHERE p.unit_price <> c.unit_price OR b.currency <> c.currency OR p.size <> c.size
    OR p.price_group NOT IN (c.price_group, '*') OR NOT p.valid @> c.window_start
"""
CAPACITY_THAT_DOES_NOT_ADD_UP = """
SELECT count(*) FROM metering_capacityrecord k
 LEFT JOIN LATERAL (
   SELECT coalesce(sum(u.unit_seconds), 0) AS total FROM metering_usage u
    WHERE (u.window_id, u.window_start, u.node, u.resource)
        = (k.window_id, k.window_start, k.node, k.resource)) used ON true
 WHERE k.capacity_unit_seconds
       <> k.billed_unit_seconds + k.held_unit_seconds + k.idle_unit_seconds
    OR k.billed_unit_seconds <> used.total OR k.idle_unit_seconds < 0
"""
USAGE_OUTSIDE_ITS_HOUR = """
SELECT count(*) FROM metering_usage u
 WHERE u.begin_at < u.window_start OR u.end_at > u.window_start + interval '1 hour'
    OR u.seconds <> extract(epoch FROM u.end_at - u.begin_at)
    OR u.unit_seconds <> u.units * u.seconds
"""
BROKEN = {
    "lines without their charges": LINES_WITHOUT_THEIR_CHARGES,
    "charges without their usage": CHARGES_WITHOUT_THEIR_USAGE,
    "usage without its allocation": USAGE_WITHOUT_ITS_ALLOCATION,
    "charges at another price": CHARGES_AT_ANOTHER_PRICE,
    "capacity that does not add up": CAPACITY_THAT_DOES_NOT_ADD_UP,
    "usage outside its hour": USAGE_OUTSIDE_ITS_HOUR,
}


def count(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        (found,) = cursor.fetchone()
    return int(found)


@pytest.mark.parametrize("number", [7, soaked(20_261_001)])
def test_the_invoices_of_a_month_equal_the_oracles(
    committed_db: str,  # noqa: ARG001 - The database comes first.
    number: int,
) -> None:
    month = play_month(number)

    _expect_every_hour_settled(month)
    _expect_the_oracles_invoices(month)
    _expect_edges_where_they_belong()
    _expect_held_where_excepted()
    assert {name: count(query) for name, query in BROKEN.items()} == dict.fromkeys(BROKEN, 0)


def _expect_every_hour_settled(month: MeteredMonth) -> None:
    """All hours but the outage's were sealed by one sweep; that one waited for a person."""
    november = MeteringWindow.objects.filter(start_at__gte=MONTH_OVER).count()
    october = MeteringWindow.objects.filter(start_at__lt=MONTH_OVER)
    assert october.count() == 2 * HOURS_METERED
    assert month.gaps == (OUTAGE_HOUR,)
    assert month.first_sweep == CollectionSweep(
        opened=2 * HOURS_METERED + november, sealed=2 * HOURS_METERED + november - 1, retried=1
    )
    assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}
    accepted = MeteringWindow.objects.get(accepts_low_coverage=True)
    assert (accepted.cluster.slug, accepted.start_at) == ("hopper", OUTAGE_HOUR)


def _expect_the_oracles_invoices(month: MeteredMonth) -> None:
    comparisons = compare(month.verdict, month.invoices)
    assert [one.organization for one in comparisons] == ["northwind", "contoso", "fabrikam"]
    for one in comparisons:
        assert one.differing_lines == ()
        assert one.invoiced_total == one.expected_total
        assert one.invoiced_unit_seconds == one.expected_unit_seconds
        assert one.is_equal
        assert one.invoiced_total > Decimal(100)
    assert [invoice.reference for invoice in month.invoices] == [
        f"GL-{invoice.issue_year}-{number:06d}" for number, invoice in enumerate(month.invoices, 1)
    ]
    causes = {one.cause for one in month.verdict.unknowable}
    assert "vanished between two scrapes" in causes
    hidden = {one.pod for one in month.verdict.unknowable}
    assert {"perception/ends-in-the-gap", "agents/lives-in-the-gap"} <= hidden


def _expect_edges_where_they_belong() -> None:
    """The price changes at its hour, and Berlin's month ends an hour before UTC's."""
    large = Charge.objects.filter(currency="EUR", size="large")
    change = datetime(2026, 10, 31, tzinfo=UTC)
    before, after = large.filter(window_start__lt=change), large.filter(window_start__gte=change)
    assert set(before.values_list("unit_price", flat=True)) == {OLD_LARGE_PRICE}
    assert set(after.values_list("unit_price", flat=True)) == {NEW_LARGE_PRICE}
    last_hours = Charge.objects.filter(window_start=BERLIN_OVER)
    northwind = last_hours.filter(organization__slug="northwind")
    assert set(northwind.values_list("period__label", flat=True)) == {"2026-11"}
    assert not billed_charges(northwind).exists()
    others = last_hours.exclude(organization__slug="northwind")
    assert set(others.values_list("period__label", flat=True)) == {"2026-10"}
    assert not unbilled_charges(others).exists()
    assert not Charge.objects.filter(window_start__lt=METERED_FROM).exists()
    assert not UsageRecord.objects.filter(begin_at__lt=METERED_FROM).exists()
    assert Invoice.objects.exclude(period__label="2026-10").count() == 0


def _expect_held_where_excepted() -> None:
    """What capacity holds is what exceptions hold, cluster by cluster; neither is on a bill."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cluster_id, sum(held_unit_seconds)::bigint FROM metering_capacityrecord"
            " GROUP BY 1 HAVING sum(held_unit_seconds) > 0 ORDER BY 1"
        )
        held = dict(cursor.fetchall())
        cursor.execute(
            "SELECT cluster_id, sum(held_unit_seconds)::bigint FROM metering_meteringexception"
            " GROUP BY 1 HAVING sum(held_unit_seconds) > 0 ORDER BY 1"
        )
        excepted = dict(cursor.fetchall())
    assert held == excepted
    assert held
    unbound = MeteringException.objects.filter(kind="unbound_namespace")
    assert set(unbound.values_list("namespace", flat=True)) == {"scratch-dana"}
    assert not UsageRecord.objects.filter(namespace="scratch-dana").exists()
    assert CapacityRecord.objects.filter(idle_unit_seconds__gt=0).exists()
