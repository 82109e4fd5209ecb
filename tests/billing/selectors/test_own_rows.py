"""Drafting and finalizing read no other organization's rows, whatever the database holds."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.db import connection, transaction

from billing.models import BillingPeriod, InvoiceLine
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.pricing.tiers import publish_tiers
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    HOUR,
    Use,
    accrue_everything,
    make_ledger,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_END

OTHERS: Final = 30
NOVEMBER_OVER: Final = MONTH_END + 31 * 24 * HOUR
OWN_TABLES: Final = (
    "billing_accrualexception",
    "billing_accruedcorrection",
    "billing_accruedusage",
    "billing_charge",
    "billing_duedate",
    "billing_invoice",
    "billing_invoiceline",
    "billing_journalentry",
    "billing_payment",
    "billing_paymentallocation",
    "billing_posting",
    "billing_projectroute",
    "billing_runroute",
    "metering_usagecorrection",
)
"""They grow with organizations, and each row belongs to one."""


PARTITION: Final = re.compile(r"_\d{4}_\d{2}$")


class Reads:
    """Explains each statement that reads before it is executed, and adds up the rows by table."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.rows: dict[str, int] = {}

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:  # noqa: ANN401 - Django's wrapper.
        text = str(sql).lstrip()
        is_plain = "set_config" in text or (text.startswith("INSERT") and "SELECT" not in text)
        if text.startswith(("SELECT", "WITH", "INSERT")) and not is_plain:
            with context["connection"].connection.cursor() as cursor:
                cursor.execute("SAVEPOINT explained")
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", params)
                (plan,) = cursor.fetchone()
                cursor.execute("ROLLBACK TO SAVEPOINT explained")
            self.add(json.loads(plan)[0]["Plan"] if isinstance(plan, str) else plan[0]["Plan"])
        return execute(sql, params, many, context)

    def add(self, node: dict[str, Any]) -> None:
        """Add what a node read of its table, and what those below it did."""
        table = PARTITION.sub("", node.get("Relation Name", ""))
        if table in OWN_TABLES:
            found = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read = round(
                (found + node.get("Rows Removed by Index Recheck", 0)) * node["Actual Loops"]
            )
            self.rows[table] = max(self.rows.get(table, 0), read)
        for below in node.get("Plans", []):
            self.add(below)


@contextmanager
def reading() -> Iterator[dict[str, int]]:
    """Yield the most rows of each table that one node of a plan reads in the block.

    Tables of a test are small enough to be read whole, so reading one whole is made expensive. The
    database is the test's own, and knows what it holds: of a table that has only seen transactions
    rolled back, any index is as good as another.
    """
    reads = Reads()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL seq_page_cost = 1000000000")
    with connection.execute_wrapper(reads):
        yield reads.rows


def test_a_month_is_closed_without_reading_the_rows_of_others(superuser_url: str) -> None:
    ledgers = [make_ledger(f"lab-{n:02d}", bound_hours=BOUND_HOURS) for n in range(OTHERS + 1)]
    for ledger in ledgers:
        publish_tiers(price_book=ledger.book, rule=make_rule(), actor=DORA, at=AT)
    uses = [Use(ledger.llm, owner=f"user-{n}") for ledger in ledgers for n in range(3)]
    sealed_window(ledgers[0].cluster, uses)
    seal_rest_of_month(ledgers[0].cluster, hours=BOUND_HOURS)
    accrue_everything()
    periods = BillingPeriod.objects.filter(label="2026-10").order_by("organization__slug")
    for period in periods:
        draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    sealed_window(ledgers[0].cluster, uses, start_at=MONTH_END)
    accrue_everything()
    own = BillingPeriod.objects.get(label="2026-11", organization=ledgers[0].organization)
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("ANALYZE")

    with transaction.atomic(), reading() as drafting:
        draft = draft_invoice(period_id=own.pk, actor=DORA, at=NOVEMBER_OVER, terms=SITE_TERMS)
    with transaction.atomic(), reading() as finalizing:
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=NOVEMBER_OVER, terms=SITE_TERMS)

    assert drafting["billing_charge"] == finalizing["billing_charge"] == 3
    # Two documents with a line of use and one of a tier, of 31 organizations.
    lines = InvoiceLine.objects.filter(invoice__organization=own.organization).count()
    assert (lines, InvoiceLine.objects.count()) == (4, 64)
    assert 2 <= drafting.pop("billing_invoiceline") <= lines
    assert 2 <= finalizing.pop("billing_invoiceline") <= lines
    assert max(drafting.values()) <= 3
    assert max(finalizing.values()) <= 3
