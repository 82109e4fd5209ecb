"""A price may be for one cluster: accrual, questions, drafts and repricing agree on it."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from billing.domain.errors import PriceInUseError, PriceKeyInvalidError, PriceOverlapError
from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import BillingPeriod, Charge, Price
from billing.selectors.pricing.price_lookup import which_price
from billing.selectors.verification import check_charges
from billing.services.pricing.price_drafts import draft_prices, publish_draft
from billing.services.pricing.price_history import withdraw_price
from billing.services.pricing.prices import set_price
from billing.services.repricing import approve_repricing, reprice_period
from billing.tasks import tick
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry, Cluster
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    SMALL_GROUP,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_discount_book,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, bind, make_cluster
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
LATER = AT.replace(minute=0, second=0, microsecond=0) + 48 * HOUR


@shared_rows
def ledger() -> Ledger:
    """Acme, billed 2.00 for any small unit, on a cluster of its own and on Oslo."""
    made = make_ledger()
    bind(make_cluster("oslo"), "ns", made.llm)
    return made


def oslo() -> Cluster:
    return Cluster.objects.get(slug="oslo")


def put(ledger: Ledger, price: str, **fields: Any) -> Price:  # noqa: ANN401 - Any column.
    given = {"size": "small", "valid_from": MONTH_START, "cluster": oslo(), **fields}
    return set_price(price_book=ledger.book, unit_price=Decimal(price), actor=DORA, at=AT, **given)


def use_both(ledger: Ledger) -> None:
    for cluster in (ledger.cluster, oslo()):
        sealed_window(cluster, [Use(ledger.llm)])
    accrue_everything()


def charges() -> list[tuple[str, str, int]]:
    rows = Charge.objects.order_by("pk").select_related("cluster")
    return sorted((c.cluster.slug, f"{c.unit_price:.2f}", c.unit_seconds) for c in rows)


def asked(ledger: Ledger, cluster: Cluster | None, hour: datetime = MONTH_START) -> str:
    found = which_price(
        organization_id=ledger.organization.pk,
        size="small",
        price_group=SMALL_GROUP,
        cluster_id=None if cluster is None else cluster.pk,
        hour=hour,
    )
    return f"{found.unit_price:.2f}"


def test_use_on_the_cluster_is_charged_at_its_price_and_other_use_is_not(ledger: Ledger) -> None:
    price = put(ledger, "1.50")

    use_both(ledger)

    assert charges() == [(ledger.cluster.slug, "2.00", 3600), ("oslo", "1.50", 3600)]
    assert [asked(ledger, one) for one in (oslo(), ledger.cluster, None)] == [
        "1.50",
        "2.00",
        "2.00",
    ]
    assert check_charges({}).differences == ()
    facts = AuditEntry.objects.get(object_id=price.pk, action="billing:price:set").facts
    assert facts["cluster_id"] == str(oslo().pk)


def test_the_group_goes_before_the_cluster(ledger: Ledger) -> None:
    put(ledger, "1.50")
    put(ledger, "3.00", price_group=SMALL_GROUP, cluster=None)

    use_both(ledger)

    assert charges() == [(ledger.cluster.slug, "3.00", 3600), ("oslo", "3.00", 3600)]


def test_a_discount_book_has_the_cluster_prices_of_its_base(ledger: Ledger) -> None:
    book = make_discount_book("academic", ledger.book, "20")
    put(ledger, "1.50")
    ledger.organization.price_book_assignments.update(superseded_at=AT)
    ledger.organization.price_book_assignments.create(
        price_book=book, valid=(MONTH_START, None), published_at=AT
    )

    use_both(ledger)

    assert charges() == [(ledger.cluster.slug, "1.60", 3600), ("oslo", "1.20", 3600)]
    assert {f"{c.list_unit_price:.2f}" for c in Charge.objects.all()} == {"2.00", "1.50"}


def test_prices_of_a_key_follow_each_other_cluster_by_cluster(ledger: Ledger) -> None:
    first = put(ledger, "1.50")

    with pytest.raises(PriceOverlapError):
        put(ledger, "1.40")
    second = put(ledger, "1.40", valid_from=LATER)

    first.refresh_from_db()
    assert (first.valid.upper, second.valid.lower) == (LATER, LATER)
    assert first.sku_price_id == second.sku_price_id
    assert Price.objects.get(cluster__isnull=True, size="small").valid.upper is None
    withdraw_price(price_id=second.pk, reason="Not agreed.", actor=DORA, at=AT)
    assert asked(ledger, oslo(), LATER) == "1.50"


def test_a_price_of_a_cluster_is_refused_where_its_use_is_charged_already(ledger: Ledger) -> None:
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()
    put(ledger, "1.50")
    sealed_window(oslo(), [Use(ledger.llm)])
    accrue_everything()

    with pytest.raises(PriceInUseError):
        put(ledger, "1.80", price_group="H100/*")
    with pytest.raises(PriceInUseError):
        put(ledger, "1.80", cluster=ledger.cluster)

    assert Price.objects.filter(cluster__isnull=False).count() == 1


def test_charges_at_a_price_of_any_cluster_are_repriced_to_that_of_theirs(ledger: Ledger) -> None:
    use_both(ledger)
    put(ledger, "1.50", reason="Left out.")

    month = BillingPeriod.objects.get(label="2026-10")
    made = reprice_period(
        period_id=month.pk, reason="Left out.", is_four_eyes=True, actor=DORA, at=AT
    )
    approve_repricing(repricing_id=made.pk, is_four_eyes=True, actor=ERIC, at=AT)
    tick(at=AT, actor=TICK)

    assert (str(made.before), str(made.after)) == ("2.00", "1.50")
    assert charges() == [
        (ledger.cluster.slug, "2.00", 3600),
        ("oslo", "1.50", 3600),
        ("oslo", "2.00", -3600),
        ("oslo", "2.00", 3600),
    ]


def test_a_draft_previews_and_publishes_a_price_of_a_cluster(ledger: Ledger) -> None:
    use_both(ledger)
    given: dict[str, Any] = {"valid_from": LATER, "reason": "New.", "actor": DORA, "at": AT}
    price = DraftedPrice("small", "*", Decimal(1), cluster=oslo().pk)

    with pytest.raises(PriceKeyInvalidError):
        draft_prices(
            price_book=ledger.book,
            prices=[DraftedPrice("small", "*", Decimal(1), cluster=new_id())],
            **given,
        )
    made = draft_prices(price_book=ledger.book, prices=[price], **given)
    publish_draft(draft_id=made.pk, is_four_eyes=True, actor=ERIC, at=AT)

    assert made.effects == [
        {"organization": "acme", "before": "4.00", "after": "3.00", "unpriced_unit_seconds": 0}
    ]
    assert Price.objects.get(cluster=oslo()).unit_price == 1


def test_the_database_holds_the_key_of_a_price(ledger: Ledger) -> None:
    price = put(ledger, "1.50")

    with pytest.raises(IntegrityError), transaction.atomic():
        make_price(ledger.book, "1.60", cluster=oslo())
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE billing_price SET cluster_id = NULL WHERE id = %s", [price.pk])

    price.refresh_from_db()
    assert price.cluster == oslo()
