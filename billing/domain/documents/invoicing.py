"""Composing lines: charges of a period become lines, each rounded once (see `owed_of`).

It allocates no number and touches no ledger: a preview and the real thing are the same function.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from billing.domain.documents.money_notes import MoneyNote, owed_of
from billing.domain.errors import AmountTooLargeError, InvoiceFinalError
from billing.domain.money import Money
from billing.domain.period import Month
from metering.domain.catalogue.units import is_burst, without_burst

_SIZE_ORDER: Final = {"small": 0, "medium": 1, "large": 2}
_SHAPES: Final = {"whole": "whole device"}
AMOUNT_LIMIT: Final = Decimal(10) ** 16
"""Lines and totals are stored as NUMERIC(20, 4)."""


@dataclass(frozen=True)
class ChargeSum:
    """Unit-seconds of charges that share everything a line is made by.

    Attributes:
        project_id: The project's key as text.
        project: Its slug, which lines are ordered by.
        unit_price: Per unit-hour.
        service_month: The earlier month they are of, such as "2026-10"; "" for the invoice's own.
        service_period_id: That month's key as text; "" likewise.
        billed_unit_seconds: What final invoices have billed of the same already.
        billed_amount: With which amounts, credit and debit notes included.
        notes: Credit and debit notes of money alone among them, in their order.
    """

    project_id: str
    project: str
    project_name: str
    cost_center: str
    size: str
    price_group: str
    unit_price: Decimal
    unit_seconds: int
    service_month: str = ""
    service_period_id: str = ""
    billed_unit_seconds: int = 0
    billed_amount: Decimal = Decimal(0)
    notes: tuple[MoneyNote, ...] = ()


class LineKind(StrEnum):
    """What a line is about: use at a price, or money without quantity.

    That is the discount of a tier, what a month lacks to a minimum charge, or a credit for use that
    broken hardware spoiled.
    """

    USAGE = "usage"
    TIER = "tier"
    MINIMUM = "minimum"
    CREDIT = "credit"


@dataclass(frozen=True)
class TierShare:
    """What a band of a tier schedule gives one project in a span, less what was billed of it.

    Attributes:
        schedule_id: The schedule's key as text.
        span: The first month of the span, such as "2026-10".
        band: From 1.
        shown: How it was computed, as printed.
    """

    schedule_id: str
    span: str
    band: int
    amount: Money
    shown: Mapping[str, str]


@dataclass(frozen=True)
class Line:
    """One project's use of one size and price group at one price in one month; see ChargeSum."""

    position: int
    project_id: str
    project: str
    project_name: str
    cost_center: str
    size: str
    price_group: str
    description: str
    unit_seconds: int
    unit_price: Decimal
    amount: Money
    service_month: str = ""
    service_period_id: str = ""
    billed_unit_seconds: int = 0
    billed_amount: Money | None = None
    """What final documents have for the same, credit and debit notes included; None without any."""
    kind: str = LineKind.USAGE.value
    tier: TierShare | None = None
    minimum: Mapping[str, str] | None = None
    """How a minimum line was computed, as printed."""
    credit: Mapping[str, str] | None = None
    """How a credit line was computed, as printed."""


def compose_lines(charges: Iterable[ChargeSum], *, currency: str) -> tuple[Line, ...]:
    """Return the lines of an invoice, by project, month, size, price group and price.

    Whole unit-seconds are added first, so the lines do not depend on how or in which order the
    charges came. What adds up to 0 makes a line of 0, so that every charge has its line.
    """
    sums: Counter[ChargeSum] = Counter()
    for charge in charges:
        sums[_without_quantity(charge)] += charge.unit_seconds
    ordered = sorted(sums, key=_order)
    return tuple(
        _line(key, unit_seconds=sums[key], position=position, currency=currency)
        for position, key in enumerate(ordered, start=1)
    )


def total_of(lines: Iterable[Line], *, currency: str) -> Money:
    """Return the sum of what was rounded."""
    return sum((line.amount for line in lines), start=Money.zero(currency))


def require_amounts(lines: Iterable[Line], *, currency: str) -> Money:
    """Return the total of lines, all of which the ledger can keep.

    Raises:
        AmountTooLargeError: A line or the total is not below AMOUNT_LIMIT.
    """
    every = tuple(lines)
    for line in every:
        require_amount(line.amount, what=f"Line {line.position} of {line.project}", field="amount")
    total = total_of(every, currency=currency)
    require_amount(total, what="The total", field="total")
    return total


def require_amount(amount: Money, *, what: str, field: str) -> None:
    """Refuse an amount that the ledger cannot keep.

    Raises:
        AmountTooLargeError: It is not below AMOUNT_LIMIT.
    """
    if abs(amount.amount) >= AMOUNT_LIMIT:
        raise AmountTooLargeError(
            f"{what} has more than 16 digits before the point.",
            field=field,
            facts={"amount": str(amount.amount), "currency": amount.currency},
        )


def describe(*, size: str, price_group: str, service_month: str = "", unit_seconds: int = 0) -> str:
    """Return what a line is for, such as "Small unit, H100 1g.10gb".

    What preemptible pods held says so: "Small unit, H100 1g.10gb, preemptible".
    A line about an earlier month says so: ", late usage of October 2026", or ", correction of
    October 2026" when nothing or less than nothing is left of it.
    """
    model, _, shape = without_burst(price_group).partition("/")
    parts = [_describe_shape(part) for part in shape.split("/") if part]
    words = [f"{size.capitalize()} unit", " ".join([model, *parts])]
    if is_burst(price_group):
        words.append("preemptible")
    if service_month:
        what = "late usage" if unit_seconds > 0 else "correction"
        words.append(f"{what} of {Month.parse(service_month).words}")
    return ", ".join(words)


def _describe_shape(shape: str) -> str:
    share, of, replicas = shape.partition("of")
    if of and share.isdigit() and replicas.isdigit():
        return f"share {share} of {replicas}"
    return _SHAPES.get(shape, shape)


def _without_quantity(charge: ChargeSum) -> ChargeSum:
    return ChargeSum(
        project_id=charge.project_id,
        project=charge.project,
        project_name=charge.project_name,
        cost_center=charge.cost_center,
        size=charge.size,
        price_group=charge.price_group,
        unit_price=charge.unit_price.normalize(),
        unit_seconds=0,
        service_month=charge.service_month,
        service_period_id=charge.service_period_id,
        billed_unit_seconds=charge.billed_unit_seconds,
        billed_amount=charge.billed_amount,
        notes=charge.notes,
    )


def _order(key: ChargeSum) -> tuple[str, str, str, int, str, Decimal]:
    return (
        key.project,
        key.project_id,
        key.service_month,
        _SIZE_ORDER.get(key.size, len(_SIZE_ORDER)),
        key.price_group,
        key.unit_price,
    )


def _line(key: ChargeSum, *, unit_seconds: int, position: int, currency: str) -> Line:
    before = Money(key.billed_amount, currency)
    owed = owed_of(
        key.billed_unit_seconds + unit_seconds,
        notes=key.notes,
        unit_price=key.unit_price,
        currency=currency,
    )
    return Line(
        position=position,
        project_id=key.project_id,
        project=key.project,
        project_name=key.project_name,
        cost_center=key.cost_center,
        size=key.size,
        price_group=key.price_group,
        description=describe(
            size=key.size,
            price_group=key.price_group,
            service_month=key.service_month,
            unit_seconds=unit_seconds,
        ),
        unit_seconds=unit_seconds,
        unit_price=key.unit_price,
        amount=owed + -before,
        service_month=key.service_month,
        service_period_id=key.service_period_id,
        billed_unit_seconds=key.billed_unit_seconds,
        billed_amount=before if key.billed_unit_seconds or before.minor_units else None,
    )


def reference_of(series: str, number: int) -> str:
    """Return a number as printed, such as "GL-2026-000012"."""
    return f"{series}-{number:06d}"


class InvoiceState(StrEnum):
    """State of an invoice."""

    DRAFT = "draft"
    FINAL = "final"


class InvoiceKind(StrEnum):
    """Which sort of document it is: a credit note gives money back, the others ask for it."""

    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    DEBIT_NOTE = "debit_note"


OWED_KINDS: Final = (InvoiceKind.INVOICE.value, InvoiceKind.DEBIT_NOTE.value)
"""Kinds of documents that are open until they are paid or credited."""


class InvoiceMove(StrEnum):
    """What can be done to an invoice."""

    REDRAFT = "redraft"
    DISCARD = "discard"
    FINALIZE = "finalize"


MOVES: Final[dict[InvoiceState, frozenset[InvoiceMove]]] = {
    InvoiceState.DRAFT: frozenset(InvoiceMove),
    InvoiceState.FINAL: frozenset(),
}


def require_move(state: str, move: InvoiceMove, *, reference: str) -> None:
    """Refuse what the state does not allow.

    Raises:
        InvoiceFinalError: The invoice is final.
    """
    if move not in MOVES[InvoiceState(state)]:
        raise InvoiceFinalError(
            f"Invoice {reference} is final and cannot be changed.",
            facts={"reference": reference, "move": move.value},
        )
