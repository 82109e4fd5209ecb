"""The board of a month: what each organization's month needs next, and from whom."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from billing.domain.closing import is_unusual
from billing.domain.documents.document import utc_text
from billing.domain.documents.document_text import count_text, hours_text


class Shortfall(StrEnum):
    """What must be settled before a month's review."""

    HOURS = "hours"
    CORRECTIONS = "corrections"
    PRICES = "prices"
    TAXES = "taxes"


class MonthStep(StrEnum):
    """What an organization's month needs next."""

    WAIT = "not over"
    RESOLVE = "blocked"
    REVIEW = "ready for review"
    APPROVE = "in review"
    FINALIZE = "approved"
    NOTHING = "closed"


@dataclass(frozen=True)
class MonthFacts:
    """One organization's month as stored.

    Attributes:
        state: Of the period.
        reviewed_by_id: The account that sent it to review; "" before.
        invoice_id: The first invoice of its newest run; None without one.
        reference: Its number, or "draft".
        version: Of its draft, as it is seen on the page.
        total: What the month costs net, credit notes taken off; that of its draft before it is
            final, None without one. In `currency`.
        payable: What the newest run asks for, tax included; None without one.
        documents: How many invoices the newest run has.
        previous: What the month before cost, in the same currency; None if unknown.
        usual: See `billing.domain.closing.USUAL_MONTHS`.
        unaccrued_hours: Hours that are not sealed, or not charged.
        waiting_corrections: Corrections of usage that are not charged.
        unpriced_unit_seconds: Usage that has no price.
        untaxed: Why a document of it has no tax rate, such as "no tax rate of DE, category S, on
            2026-10-31"; "" where each has one.
        held: Open exceptions of metering.
        held_unit_seconds: Usage in them, which is on no bill.
        held_cost: About what that would cost, in `currency`; None where nothing of it has a price.
        held_unpriced: How much of what is held has no price there, in parts of one size.
    """

    period_id: UUID
    organization_id: UUID
    slug: str
    organization: str
    state: str
    begin_at: datetime
    end_at: datetime
    reviewed_by: str
    reviewed_by_id: str
    has_charges: bool
    invoice_id: UUID | None
    reference: str
    version: int
    total: Decimal | None
    payable: Decimal | None
    documents: int
    currency: str
    previous: Decimal | None
    usual: Decimal | None
    unaccrued_hours: int
    first_unaccrued_at: datetime | None
    waiting_corrections: int
    unpriced: int
    unpriced_unit_seconds: int
    untaxed: str = ""
    held: int = 0
    held_unit_seconds: int = 0
    held_cost: Decimal | None = None
    held_unpriced: int = 0

    @property
    def is_blocked(self) -> bool:
        """Whether something must be settled before its review."""
        return bool(
            self.unaccrued_hours or self.waiting_corrections or self.unpriced or self.untaxed
        )

    @property
    def is_unusual(self) -> bool:
        """Whether it is sent to review with a reason only."""
        return self.total is not None and is_unusual(self.total, usual=self.usual)

    @property
    def change(self) -> Decimal | None:
        """Its cost less that of the month before; None where either is unknown."""
        if self.total is None or self.previous is None:
            return None
        return self.total - self.previous


def shortfall_texts(month: MonthFacts) -> dict[Shortfall, str]:
    """Return what must be settled before a month's review, each as text without a full stop."""
    first, corrections = month.first_unaccrued_at, month.waiting_corrections
    since = f", the first at {utc_text(first)}" if first else ""
    unpriced = hours_text(month.unpriced_unit_seconds)
    hours = count_text(month.unaccrued_hours, "hour", "hours")
    texts = {
        Shortfall.HOURS: month.unaccrued_hours and f"{hours} not sealed or not charged{since}",
        Shortfall.CORRECTIONS: corrections
        and f"{count_text(corrections, 'correction', 'corrections')} not charged",
        Shortfall.PRICES: month.unpriced and f"{unpriced} unit-hours without a price",
        Shortfall.TAXES: month.untaxed,
    }
    return {shortfall: text for shortfall, text in texts.items() if isinstance(text, str) and text}


def step_of(month: MonthFacts, *, at: datetime) -> MonthStep:
    """Return what a month needs next."""
    if month.state == "review":
        return MonthStep.APPROVE
    if month.state == "approved":
        return MonthStep.FINALIZE
    if month.state == "closed":
        return MonthStep.NOTHING
    if at < month.end_at:
        return MonthStep.WAIT
    return MonthStep.RESOLVE if month.is_blocked else MonthStep.REVIEW


def to_review(months: Iterable[MonthFacts], *, at: datetime) -> list[MonthFacts]:
    """Return the months that can be sent to review together: those whose cost is usual."""
    return [
        month
        for month in months
        if step_of(month, at=at) is MonthStep.REVIEW and month.has_charges and not month.is_unusual
    ]


def to_finalize(
    months: Iterable[MonthFacts], *, actor_id: str, four_eyes: bool
) -> list[MonthFacts]:
    """Return the months that an account can finalize: those that others sent to review."""
    return [
        month
        for month in months
        if month.state in {"review", "approved"}
        and month.invoice_id is not None
        and not (four_eyes and month.state == "review" and month.reviewed_by_id == actor_id)
    ]
