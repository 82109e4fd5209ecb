"""What lines are made of: days, charges, usage records, persons; and the line a note corrects."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connection
from django.db.models import (
    Count,
    DateField,
    DecimalField,
    F,
    Func,
    Max,
    Min,
    QuerySet,
    Sum,
    Value,
)

from billing.domain.costs import FIRST_DAY, LAST_DAY
from billing.domain.documents.annex import OwnerUse, annex_document
from billing.domain.documents.document import Document
from billing.domain.documents.errors import UsageAnnexMissingError
from billing.domain.documents.invoicing import InvoiceState, LineKind
from billing.domain.money import Money, cost_of
from billing.models import Charge, Invoice, InvoiceLine
from billing.selectors.documents.corrections import LINE_KEY
from billing.selectors.documents.membership import charges_at_any_price, charges_with_key
from metering.selectors.collection.records import UseKey

_PRODUCT = DecimalField(max_digits=60, decimal_places=10)


@dataclass(frozen=True)
class LineDay:
    """What a line has of one day, local to the organization.

    Attributes:
        product: Unit-seconds times the price per unit-hour, exact.
        cost: What the day alone costs, rounded.
    """

    day: date
    charges: int
    unit_seconds: int
    product: Decimal
    cost: Money


def charges_behind(charges: QuerySet[Charge], line: InvoiceLine) -> QuerySet[Charge]:
    """Return the charges of a line, of a draft those of now; none of one without quantity."""
    if line.kind != LineKind.USAGE.value or line.invoice.corrects_id is not None:
        return charges.none()
    return charges_with_key(charges, line)


def days_of_line(charges: QuerySet[Charge], line: InvoiceLine) -> tuple[LineDay, ...]:
    """Return what a line adds up, by day; one statement, a month of rows at most.

    Args:
        charges: Those that may be read.
        line: With its invoice and organization.
    """
    currency = line.invoice.currency
    summed = (
        with_local_day(charges_behind(charges, line), line.invoice.organization.time_zone)
        .order_by("local_day")
        .values("local_day")
        .annotate(
            charges=Count("pk"),
            used=Sum("unit_seconds"),
            product=Sum(F("unit_seconds") * F("unit_price"), output_field=_PRODUCT),
        )
    )
    return tuple(
        LineDay(
            day=row["local_day"],
            charges=row["charges"],
            unit_seconds=int(row["used"]),
            product=row["product"],
            cost=cost_of(row["product"], currency=currency),
        )
        for row in summed
    )


@dataclass(frozen=True)
class ChargedPrice:
    """The days on which one price of a thing was charged, local to the organization."""

    unit_price: Decimal
    first_day: date
    last_day: date
    unit_seconds: int


def price_spans(charges: QuerySet[Charge], line: InvoiceLine) -> tuple[ChargedPrice, ...]:
    """Return every price of what a line is about in its month, the first day first.

    One statement. Of a line without quantity, or of a note, there is none.

    Args:
        charges: Those that may be read.
        line: With its invoice and organization.
    """
    if line.kind != LineKind.USAGE.value or line.invoice.corrects_id is not None:
        return ()
    alike = charges_at_any_price(charges, line)
    rows = (
        with_local_day(alike, line.invoice.organization.time_zone)
        .order_by()
        .values("unit_price")
        .annotate(first=Min("local_day"), last=Max("local_day"), used=Sum("unit_seconds"))
    )
    spans = [
        ChargedPrice(row["unit_price"], row["first"], row["last"], int(row["used"])) for row in rows
    ]
    return tuple(sorted(spans, key=lambda span: (span.first_day, span.last_day, span.unit_price)))


def charges_of_day(charges: QuerySet[Charge], line: InvoiceLine, day: date) -> QuerySet[Charge]:
    """Return the charges of one day of a line, in the order of their hours."""
    rows = with_local_day(charges_behind(charges, line), line.invoice.organization.time_zone)
    return rows.filter(local_day=day).order_by("window_start", "owner", "pk")


def with_local_day(charges: QuerySet[Any], time_zone: str | None = None) -> QuerySet[Any]:
    """Return charges with `local_day`, as ADR 0073 defines it.

    Args:
        charges: Any.
        time_zone: Of their organization; None for that of each.
    """
    zone = F("organization__time_zone") if time_zone is None else Value(time_zone)
    day = Func(F("window_start"), zone, function="billing_local_day", output_field=DateField())
    found: QuerySet[Any] = charges.annotate(local_day=day)
    return found


def of_local_day(charges: QuerySet[Charge], day: date) -> QuerySet[Charge]:
    """Return the charges of a day, local to the organization of each."""
    if not FIRST_DAY <= day <= LAST_DAY:
        return charges.none()
    midnight = datetime.combine(day, time(), tzinfo=UTC)
    near = charges.filter(
        window_start__gt=midnight - timedelta(days=1), window_start__lt=midnight + timedelta(days=2)
    )
    return with_local_day(near).filter(local_day=day)


def corrected_line(line: InvoiceLine) -> InvoiceLine | None:
    """Return the line of the document that a credit or debit note corrects; None without one."""
    if line.invoice.corrects_id is None:
        return None
    key = {name: getattr(line, name) for name in LINE_KEY}
    lines = InvoiceLine.objects.filter(invoice=line.invoice.corrects_id, **key)
    return lines.select_related("invoice__period").first()


def usage_annex(invoice: Invoice, *, is_on: bool) -> Document:
    """Return the usage annex of a final invoice; one statement.

    Args:
        invoice: With its document.
        is_on: Whether the site lets annexes name persons.

    Raises:
        UsageAnnexMissingError: It is off, or there is none of such a document.
    """
    if not is_on:
        raise UsageAnnexMissingError("Usage annexes, which name persons, are off.")
    if invoice.state != InvoiceState.FINAL.value or invoice.corrects_id is not None:
        raise UsageAnnexMissingError("Drafts, credit notes and debit notes have no usage annex.")
    with connection.cursor() as cursor:
        cursor.execute(_USES, {"invoice": invoice.pk, "period": invoice.period_id})
        uses = [OwnerUse(position, owner, int(used)) for position, owner, used in cursor.fetchall()]
    return annex_document(invoice.document, uses)


# Each charge is read once, and belongs to the line with its key and month.
_USES: Final = """
WITH lines AS MATERIALIZED (
  SELECT l.position, l.project_id, l.size, l.price_group, l.unit_price, m.hours
    FROM billing_invoiceline l
    JOIN billing_invoice i ON i.id = l.invoice_id
    JOIN billing_billingperiod m ON m.id = coalesce(l.service_period_id, i.period_id)
   WHERE l.invoice_id = %(invoice)s AND l.kind = 'usage')
SELECT l.position, c.owner, sum(c.unit_seconds)
  FROM billing_charge c
  JOIN lines l USING (project_id, size, price_group, unit_price)
 WHERE c.period_id = %(period)s AND l.hours @> c.window_start
   AND c.project_id = ANY (ARRAY(SELECT project_id FROM lines))
 GROUP BY 1, 2
 ORDER BY 1, 2
"""


def use_of(charge: Charge) -> UseKey:
    """Return the key of the usage records that a charge is about."""
    return UseKey(
        window_id=charge.window_id,
        window_start=charge.window_start,
        project_id=charge.project_id,
        owner=charge.owner,
        size=charge.size,
        price_group=charge.price_group,
        correction_id=charge.correction_id,
    )


def charge_of_use(charges: QuerySet[Charge], use: UseKey) -> Charge | None:
    """Return the newest charge of some use; None while it is not charged."""
    rows = charges.filter(
        window_id=use.window_id,
        window_start=use.window_start,
        project=use.project_id,
        owner=use.owner,
        size=use.size,
        price_group=use.price_group,
        correction_id=use.correction_id,
    )
    return rows.order_by("-pk").first()


def money_of_days(days: Collection[LineDay], *, currency: str) -> tuple[Money, Decimal]:
    """Return the sum of rounded days, and the exact product of all."""
    rounded = sum((day.cost for day in days), start=Money.zero(currency))
    return rounded, sum((day.product for day in days), start=Decimal())
