"""What was considered for a price: the books and the prices, and why each lost but one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q

from billing.domain.pricing.price_book import ANY_TIME
from billing.domain.pricing.price_candidate import ConsideredPrice, PriceOutcome, judge_candidates
from billing.models import (
    BookPrice,
    CustomerClassMembership,
    OrganizationBook,
    PriceBookAssignment,
)

PRICES_MAX: Final = 100
"""Of the keys that may apply in one book; the newest, where there are more."""


@dataclass(frozen=True)
class BookCandidate:
    """An assignment in force in an hour that concerns an organization."""

    assignment: PriceBookAssignment
    outcome: str
    """applies, no_book, other_currency or behind_another."""


@dataclass(frozen=True)
class PriceCandidate:
    """A price of the billed book or of its base, and what became of it."""

    price: BookPrice
    outcome: PriceOutcome


def candidate_books(
    organization_id: UUID, *, hour: datetime, billed: OrganizationBook | None
) -> list[BookCandidate]:
    """Return the assignments of an organization, its class and all in an hour, in their order."""
    joined = CustomerClassMembership.objects.filter(
        organization=organization_id, valid__contains=hour, superseded_at__isnull=True
    ).values("customer_class")
    rows = PriceBookAssignment.objects.filter(
        Q(organization=organization_id)
        | Q(customer_class__in=joined)
        | Q(organization__isnull=True, customer_class__isnull=True),
        valid__contains=hour,
        superseded_at__isnull=True,
    ).select_related("organization", "customer_class", "price_book")
    ordered = sorted(rows, key=lambda row: (row.organization is None, row.customer_class is None))
    return [BookCandidate(row, _outcome(row, billed)) for row in ordered]


def _outcome(row: PriceBookAssignment, billed: OrganizationBook | None) -> str:
    if row.price_book is None:
        return "no_book"
    if billed is not None and row.pk == billed.pk:
        return "applies"
    is_behind = billed is not None and billed.price_book.currency == row.price_book.currency
    return "behind_another" if is_behind else "other_currency"


def candidate_prices(
    price_book_id: UUID,
    *,
    size: str,
    groups: Iterable[str],
    cluster_id: UUID | None,
    band: str | None,
    hour: datetime,
) -> list[PriceCandidate]:
    """Return the prices of a book whose keys may apply, the most specific first.

    Args:
        price_book_id: The book; prices of its base are among them.
        size: As used.
        groups: That apply to the share, the most specific first.
        cluster_id: Where it is used; None for clusters without a price of their own.
        band: The time-of-use band of the hour; None where it is not known.
        hour: The begin of the hour.
    """
    ranks = list(groups)
    rows = BookPrice.objects.filter(price_book=price_book_id, size=size, price_group__in=ranks)
    newest = rows.order_by("-valid", "pk")[:PRICES_MAX]
    ordered = sorted(
        newest,
        key=lambda row: (
            ranks.index(row.price_group),
            row.cluster_id is None,
            row.band == ANY_TIME,
            not row.is_own,
        ),
    )
    outcomes = judge_candidates(
        [
            ConsideredPrice(
                key=(
                    row.price_group,
                    None if row.cluster_id is None else str(row.cluster_id),
                    row.band,
                ),
                is_own=row.is_own,
                is_superseded=row.superseded_at is not None,
                is_in_force=row.valid.lower <= hour
                and (row.valid.upper is None or hour < row.valid.upper),
            )
            for row in ordered
        ],
        cluster=None if cluster_id is None else str(cluster_id),
        band=band,
    )
    return [PriceCandidate(row, outcome) for row, outcome in zip(ordered, outcomes, strict=True)]
