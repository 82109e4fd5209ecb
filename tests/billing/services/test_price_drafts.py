"""Drafts of prices show what they change on last month's use; another person publishes them."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from billing.domain.errors import (
    NotOnTheHourError,
    PriceDraftDecidedError,
    PriceDraftFourEyesError,
    PriceDraftInvalidError,
    PriceInUseError,
    PriceInvalidError,
    PriceKeyInvalidError,
    ReasonMissingError,
)
from billing.domain.pricing.price_draft import PRICES_MAX, DraftedPrice
from billing.models import Price, PriceDraft
from billing.services.pricing.price_drafts import draft_prices, publish_draft, reject_draft
from tenants.domain.errors import DomainError
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    SMALL_GROUP,
    Ledger,
    Use,
    accrue_everything,
    assign,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_organization, make_project
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
LATER = AT.replace(minute=0, second=0, microsecond=0) + 48 * HOUR
NEW_YEAR = [DraftedPrice("small", "*", Decimal(3)), DraftedPrice("large", "H100/*", Decimal(8))]


def draft(ledger: Ledger, **fields: Any) -> PriceDraft:  # noqa: ANN401 - Any argument.
    given = {"prices": NEW_YEAR, "valid_from": LATER, "reason": "A new year.", **fields}
    return draft_prices(price_book=ledger.book, actor=DORA, at=AT, **given)


def publish(made: PriceDraft, **fields: Any) -> PriceDraft:  # noqa: ANN401 - As above.
    given = {"is_four_eyes": True, "actor": ERIC, "at": AT, **fields}
    return publish_draft(draft_id=made.pk, **given)


@shared_rows
def ledger() -> Ledger:
    """Acme's October at 2.00 for small units, and Umbrella's by the same book."""
    made = make_ledger()
    make_price(made.book, "9.00", size="large")
    other = make_project(make_organization("umbrella"), "virus")
    assign(other.organization, made.book)
    uses = [
        Use(made.llm),
        Use(made.vision, 1800),
        Use(made.llm, 1800, size="large", price_group="H100/whole"),
        Use(other, 60),
    ]
    sealed_window(made.cluster, uses)
    accrue_everything()
    return made


def test_a_draft_shows_what_each_organization_would_have_paid(ledger: Ledger) -> None:
    made = draft(ledger)

    assert (made.month, made.effects) == (
        "2026-10",
        [
            {"organization": "acme", "before": "7.50", "after": "8.50", "unpriced_unit_seconds": 0},
            {
                "organization": "umbrella",
                "before": "0.03",
                "after": "0.05",
                "unpriced_unit_seconds": 0,
            },
        ],
    )
    assert Price.objects.count() == 2
    entry = AuditEntry.objects.get(action="billing:price_draft:propose")
    assert (entry.facts["reason"], entry.facts["valid_from"]) == ("A new year.", LATER.isoformat())


def test_another_person_publishes_all_prices_together(ledger: Ledger) -> None:
    made = draft(ledger)

    with pytest.raises(PriceDraftFourEyesError):
        publish(made, actor=DORA)
    published = publish(made, note="Checked.")

    assert (published.state, published.decided_by) == ("published", "eric")
    rows = Price.objects.filter(valid__startswith=LATER).order_by("size")
    assert [(row.size, row.price_group, row.unit_price) for row in rows] == [
        ("large", "H100/*", Decimal(8)),
        ("small", "*", Decimal(3)),
    ]


def test_one_price_that_is_refused_publishes_none(ledger: Ledger) -> None:
    wrong = [DraftedPrice("large", "A100/*", Decimal(1)), DraftedPrice("small", "*", Decimal(3))]
    made = draft(ledger, prices=wrong, valid_from=MONTH_START)
    before, entries = Price.objects.count(), AuditEntry.objects.count()

    with pytest.raises(DomainError):
        publish(made)

    assert (Price.objects.count(), AuditEntry.objects.count()) == (before, entries)
    assert PriceDraft.objects.get().state == "proposed"


def test_a_draft_into_charged_hours_is_not_published(ledger: Ledger) -> None:
    made = draft(
        ledger, prices=[DraftedPrice("small", SMALL_GROUP, Decimal(1))], valid_from=MONTH_START
    )

    with pytest.raises(PriceInUseError):
        publish(made)


@pytest.mark.parametrize("decide", ["publish", "reject"])
def test_a_draft_is_decided_once(ledger: Ledger, decide: str) -> None:
    made = draft(ledger)
    if decide == "publish":
        publish(made)
    else:
        reject_draft(draft_id=made.pk, note="Too dear.", actor=ERIC, at=AT)

    with pytest.raises(PriceDraftDecidedError):
        publish(made)
    with pytest.raises(PriceDraftDecidedError):
        reject_draft(draft_id=made.pk, note="Too dear.", actor=ERIC, at=AT)


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"reason": " "}, ReasonMissingError),
        ({"prices": []}, PriceDraftInvalidError),
        ({"prices": [NEW_YEAR[0]] * 2}, PriceDraftInvalidError),
        ({"prices": [NEW_YEAR[0]] * (PRICES_MAX + 1)}, PriceDraftInvalidError),
        ({"prices": [DraftedPrice("small", "*", Decimal(-1))]}, PriceInvalidError),
        ({"prices": [DraftedPrice("huge", "*", Decimal(1))]}, PriceKeyInvalidError),
        ({"valid_from": AT.replace(minute=30)}, NotOnTheHourError),
    ],
)
def test_a_draft_that_cannot_be_is_refused(
    ledger: Ledger, fields: dict[str, Any], refusal: type[DomainError]
) -> None:
    with pytest.raises(refusal) as refused:
        draft(ledger, **fields)

    assert refused.value.field
    assert not PriceDraft.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda: PriceDraft.objects.update(prices=[]),
        lambda: PriceDraft.objects.update(requested_by_id="8"),
        lambda: PriceDraft.objects.all().delete(),
    ],
    ids=["prices", "proposer", "deleted"],
)
def test_what_was_proposed_stays(ledger: Ledger, change: Callable[[], object]) -> None:
    draft(ledger)

    with pytest.raises(DatabaseError), transaction.atomic():
        change()

    assert len(PriceDraft.objects.get().prices) == 2


def test_a_draft_replaces_a_wrong_first_price_by_any_factor(ledger: Ledger) -> None:
    wrong = make_price(ledger.book, "2000", price_group=SMALL_GROUP, begin_at=LATER)
    right = DraftedPrice("small", SMALL_GROUP, Decimal(2), replaces=wrong.pk)

    publish(draft(ledger, prices=[right]))

    price = Price.objects.get(price_group=SMALL_GROUP, superseded_at__isnull=True)
    assert (price.unit_price, price.replaces_id, price.valid.lower) == (
        Decimal(2),
        wrong.pk,
        LATER,
    )
    wrong.refresh_from_db()
    assert wrong.superseded_at == AT
