"""Many closers over many organizations at once, one of them cut off: one winner each, no gap."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import UUID

import pytest
from django.db import OperationalError, connection, connections

from billing.models import BillingPeriod, Invoice, InvoiceSeries
from billing.selectors.verification import check_invoices, check_lines, check_numbers
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    Use,
    accrue_everything,
    make_ledger,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.sampling import soaked

pytestmark = pytest.mark.usefixtures("committed_db")
WAIT_SECONDS = 120
CLOSERS = 8
DIES_AT = 40
"""In the middle of the third invoice."""


def drafts_of(organizations: int) -> list[UUID]:
    """Return the drafts of so many organizations on one cluster, all of October."""
    ledgers = [make_ledger(f"lab-{n:02d}", bound_hours=BOUND_HOURS) for n in range(organizations)]
    sealed_window(ledgers[0].cluster, [Use(ledger.llm) for ledger in ledgers])
    seal_rest_of_month(ledgers[0].cluster, hours=BOUND_HOURS)
    accrue_everything()
    periods = BillingPeriod.objects.filter(label="2026-10").order_by("organization__slug")
    return [
        draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS).pk
        for period in periods
    ]


def close_all(drafts: list[UUID], *, dies_at: int | None) -> Counter[str]:
    """Finalize draft after draft; the connection ends at a statement if it is to die."""
    done: Counter[str] = Counter()
    statements = count(1)

    def cut(execute, sql, params, many, context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Django's wrapper.
        if next(statements) == dies_at:
            connection.connection.close()
        return execute(sql, params, many, context)

    try:
        with connection.execute_wrapper(cut):
            for draft in drafts:
                done[
                    finalize_invoice(
                        invoice_id=draft, actor=ERIC, at=AT, terms=SITE_TERMS
                    ).reference
                ] += 1
    except OperationalError:
        if dies_at is None:
            raise
        done["died"] += 1
    finally:
        connections.close_all()
    return done


def orders(drafts: list[UUID], closers: int) -> Iterator[list[UUID]]:
    """Yield the drafts in another order for each closer, two of them from behind."""
    for closer in range(closers):
        first = closer * len(drafts) // closers
        order = drafts[first:] + drafts[:first]
        yield order[::-1] if closer % 4 == 3 else order


@pytest.mark.parametrize("organizations", [16, soaked(60)])
def test_eight_closers_finalize_each_invoice_once(organizations: int) -> None:
    drafts = drafts_of(organizations)

    with ThreadPoolExecutor(max_workers=CLOSERS) as pool:
        running = [
            pool.submit(close_all, order, dies_at=DIES_AT if closer == 0 else None)
            for closer, order in enumerate(orders(drafts, CLOSERS))
        ]
        results = [closer.result(WAIT_SECONDS) for closer in running]

    assert results[0]["died"] == 1
    final = Invoice.objects.filter(state="final").order_by("number")
    references = [invoice.reference for invoice in final]
    assert [invoice.number for invoice in final] == list(range(1, organizations + 1))
    assert InvoiceSeries.objects.get().next_number == organizations + 1
    assert all(set(result) == set(references) for result in results[1:])
    assert list(final) == sorted(final, key=lambda invoice: invoice.finalized_at or AT)
    entries = AuditEntry.objects.filter(action="billing:invoice:finalize")
    assert Counter(entries.values_list("object_id", flat=True)) == dict.fromkeys(
        map(str, drafts), 1
    )
    assert set(BillingPeriod.objects.filter(label="2026-10").values_list("state")) == {("closed",)}
    for check in (check_invoices, check_lines, check_numbers):
        assert check({}).differences == ()
