"""An organization is billed by its own book, else by its class's, else by the default book."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.errors import (
    AssignmentInUseError,
    AssignmentOverlapError,
    AssignmentOwnerError,
    CurrencyMismatchError,
    ReasonMissingError,
)
from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import (
    AccrualException,
    BillingPeriod,
    Charge,
    CustomerClass,
    CustomerClassMembership,
    OrganizationBook,
    PriceBook,
)
from billing.selectors.assignment_verification import check_assignments
from billing.selectors.documents.tiers import tier_facts_of
from billing.selectors.pricing.price_lookup import which_price
from billing.selectors.verification import check_charges
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.customer_classes import create_customer_class, set_customer_class
from billing.services.pricing.price_drafts import draft_prices
from billing.services.pricing.price_history import withdraw_membership
from billing.services.pricing.tiers import publish_tiers
from billing.services.repricing import approve_repricing, reprice_period
from billing.tasks import tick
from tenants.domain.refusals import SlugTakenError
from tenants.models import AuditEntry, Organization
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    SMALL_GROUP,
    TICK,
    Ledger,
    Use,
    make_book,
    make_price,
    sealed_window,
)
from tests.support.billing.terms import make_rule
from tests.support.builders import (
    AT,
    MONTH_END,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
LATER = AT.replace(minute=0, second=0, microsecond=0) + 10 * HOUR


def priced(slug: str, price: str) -> PriceBook:
    book = make_book(slug)
    make_price(book, price)
    return book


def assign(book: PriceBook | None, **fields: Any) -> Any:  # noqa: ANN401 - Any column.
    given = {"valid_from": MONTH_START, "actor": DORA, "at": AT, **fields}
    return assign_price_book(price_book=book, **given)


def join(organization: Organization, slug: str | None, **fields: Any) -> CustomerClassMembership:  # noqa: ANN401
    given = {"valid_from": MONTH_START, "actor": DORA, "at": AT, **fields}
    known = None if slug is None else of_slug(slug)
    return set_customer_class(organization=organization, customer_class=known, **given)


def of_slug(slug: str) -> CustomerClass:
    return CustomerClass.objects.get(slug=slug)


@shared_rows
def acme() -> Ledger:
    """Acme without a book; the default one has 4.00, that of academic 3.00."""
    organization = make_organization()
    project = make_project(organization)
    cluster = make_cluster()
    bind(cluster, "ns", project)
    book = priced("default", "4.00")
    assign(book, is_default=True)
    assign(priced("academic", "3.00"), customer_class=of_slug("academic"))
    return Ledger(organization, project, project, cluster, book)


def use(ledger: Ledger, hour: datetime = MONTH_START) -> None:
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=hour)
    tick(at=AT, actor=TICK)


def charges() -> list[str]:
    return [f"{c.unit_price:.2f} {c.unit_seconds}" for c in Charge.objects.order_by("pk")]


def found(organization: Organization) -> list[tuple[str, int, datetime, datetime | None]]:
    rows = OrganizationBook.objects.filter(organization=organization).order_by("valid")
    return [(r.price_book.slug, r.precedence, r.valid.lower, r.valid.upper) for r in rows]


def answer(ledger: Ledger, hour: datetime = MONTH_START) -> str:
    found = which_price(
        organization_id=ledger.organization.pk, size="small", price_group=SMALL_GROUP, hour=hour
    )
    return f"{found.unit_price:.2f}"


def findings() -> tuple[str, ...]:
    return (*check_assignments({}).differences, *check_charges({}).differences)


def test_three_classes_are_there_and_a_site_adds_its_own() -> None:
    assert [c.slug for c in CustomerClass.objects.all()] == ["academic", "external", "internal"]

    create_customer_class(slug="hospital", name="Hospital", actor=DORA, at=AT)

    with pytest.raises(SlugTakenError), transaction.atomic():
        create_customer_class(slug="hospital", name="Another", actor=DORA, at=AT)
    assert CustomerClass.objects.count() == 4


def test_the_default_book_bills_who_has_no_other(acme: Ledger) -> None:
    use(acme)

    assert (charges(), answer(acme)) == (["4.00 3600"], "4.00")
    assert findings() == ()


def test_the_book_of_the_class_goes_before_the_default_one(acme: Ledger) -> None:
    join(acme.organization, "academic")

    use(acme)

    assert (charges(), answer(acme)) == (["3.00 3600"], "3.00")
    assert findings() == ()


def test_the_own_book_goes_before_that_of_the_class_for_its_hours(acme: Ledger) -> None:
    join(acme.organization, "academic")
    assign(priced("own", "2.00"), organization=acme.organization, valid_from=MONTH_START + HOUR)
    assign(None, organization=acme.organization, valid_from=MONTH_START + 2 * HOUR)

    for hour in range(3):
        use(acme, MONTH_START + hour * HOUR)

    assert charges() == ["3.00 3600", "2.00 3600", "3.00 3600"]
    assert found(acme.organization) == [
        ("academic", 2, MONTH_START, MONTH_START + HOUR),
        ("own", 1, MONTH_START + HOUR, MONTH_START + 2 * HOUR),
        ("academic", 2, MONTH_START + 2 * HOUR, None),
    ]
    assert findings() == ()


def test_a_class_without_a_book_leaves_the_default_one(acme: Ledger) -> None:
    join(acme.organization, "external")

    use(acme)

    assert charges() == ["4.00 3600"]


def test_books_in_another_currency_do_not_apply(acme: Ledger) -> None:
    foreign = make_organization("umbrella", billing_currency="USD")

    assert found(foreign) == []
    with pytest.raises(CurrencyMismatchError) as refused:
        join(foreign, "academic")
    assert refused.value.field == "customer_class"
    join(foreign, "internal")
    with pytest.raises(CurrencyMismatchError) as refused:
        assign(acme.book, customer_class=of_slug("internal"))
    assert refused.value.facts["slug"] == "umbrella"


def test_use_without_a_book_is_charged_once_its_class_has_one() -> None:
    organization = make_organization()
    project = make_project(organization)
    ledger = Ledger(organization, project, project, make_cluster(), make_book())
    bind(ledger.cluster, "ns", project)
    use(ledger)
    assert (charges(), AccrualException.objects.get().code) == ([], "no_price_book")

    join(organization, "academic")
    tick(at=AT, actor=TICK)
    assert charges() == []
    assign(priced("academic", "3.00"), customer_class=of_slug("academic"))
    tick(at=AT, actor=TICK)

    assert charges() == ["3.00 3600"]
    assert AccrualException.objects.get().resolved_at is not None


@pytest.mark.parametrize("what", ["class", "book of the class", "default book", "own book"])
def test_charged_hours_move_by_a_replacement_with_a_reason_only(acme: Ledger, what: str) -> None:
    row = join(acme.organization, "academic" if what == "book of the class" else "external")
    use(acme)
    other = priced("other", "1.00")
    move: Callable[..., Any] = {
        "class": lambda **more: join(acme.organization, "academic", **more),
        "book of the class": lambda **more: assign(
            other, customer_class=of_slug("academic"), **more
        ),
        "default book": lambda **more: assign(other, is_default=True, **more),
        "own book": lambda **more: assign(other, organization=acme.organization, **more),
    }[what]
    before = charges()
    kept = {
        "class": row,
        "book of the class": OrganizationBook.objects.get(precedence=2)
        if what == "book of the class"
        else None,
        "default book": OrganizationBook.objects.filter(precedence=3).first(),
    }.get(what)

    refusal = AssignmentInUseError if what == "own book" else AssignmentOverlapError
    with pytest.raises(refusal), transaction.atomic():
        move()
    if kept is not None:
        with pytest.raises(ReasonMissingError), transaction.atomic():
            move(replaces=kept.pk)
    move(reason="Agreed.", **({} if kept is None else {"replaces": kept.pk}))
    assert charges() == before

    period = BillingPeriod.objects.get(label="2026-10")
    asked = reprice_period(
        period_id=period.pk, reason="Moved.", is_four_eyes=True, actor=DORA, at=AT
    )
    approve_repricing(repricing_id=asked.pk, is_four_eyes=True, actor=ERIC, at=AT)
    right = "3.00" if what == "class" else "1.00"
    assert charges() == [*before, f"{before[0].split()[0]} -3600", f"{right} 3600"]
    assert findings() == ()


def test_a_move_within_charged_hours_is_refused(acme: Ledger) -> None:
    join(acme.organization, "external")
    use(acme, MONTH_START + 5 * HOUR)

    with pytest.raises(AssignmentInUseError) as refused:
        join(acme.organization, "academic", valid_from=MONTH_START + 5 * HOUR)
    join(acme.organization, "academic", valid_from=MONTH_START + 6 * HOUR)

    assert refused.value.facts == {
        "last_charged_hour": (MONTH_START + 5 * HOUR).isoformat(),
    }
    assert [row[0] for row in found(acme.organization)] == ["default", "academic"]


def test_hours_charged_by_an_own_book_do_not_keep_a_class(acme: Ledger) -> None:
    assign(priced("own", "2.00"), organization=acme.organization)
    join(acme.organization, "external")
    use(acme, MONTH_START + 5 * HOUR)

    join(acme.organization, "academic", valid_from=MONTH_START + HOUR)

    assert [row[:2] for row in found(acme.organization)] == [("own", 1)]


def test_the_database_keeps_charged_hours_of_classes_and_memberships(acme: Ledger) -> None:
    membership = join(acme.organization, "academic")
    use(acme, MONTH_START + 5 * HOUR)
    ended = (MONTH_START, MONTH_START + 5 * HOUR)

    for rows in (
        CustomerClassMembership.objects.filter(pk=membership.pk),
        of_slug("academic").price_book_assignments.all(),
    ):
        with pytest.raises(DatabaseError, match="is charged already"), transaction.atomic():
            rows.update(valid=ended)
    with pytest.raises(DatabaseError, match="never edited"), transaction.atomic():
        CustomerClassMembership.objects.update(customer_class=of_slug("internal"))
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM billing_customerclassmembership")


def test_a_membership_to_come_is_withdrawn_and_the_one_before_goes_on(acme: Ledger) -> None:
    join(acme.organization, "academic")
    wrong = join(acme.organization, "external", valid_from=LATER)

    withdraw_membership(membership_id=wrong.pk, reason="Not signed.", actor=DORA, at=AT)

    rows = CustomerClassMembership.objects.filter(superseded_at__isnull=True).order_by("valid")
    assert [(r.customer_class, r.valid.lower, r.valid.upper) for r in rows] == [
        (of_slug("academic"), MONTH_START, LATER),
        (of_slug("academic"), LATER, None),
    ]
    entry = AuditEntry.objects.get(action="billing:customer_class:withdraw")
    assert (entry.organization_id, entry.facts["customer_class"], entry.facts["reason"]) == (
        acme.organization.pk,
        "external",
        "Not signed.",
    )
    assert findings() == ()


def test_an_assignment_is_of_exactly_one(acme: Ledger) -> None:
    for owners in ({}, {"organization": acme.organization, "is_default": True}):
        with pytest.raises(AssignmentOwnerError) as refused:
            assign(acme.book, **owners)
        assert refused.value.field == "organization"


def test_the_preview_of_a_draft_reads_the_use_of_the_class(acme: Ledger) -> None:
    join(acme.organization, "academic")
    use(acme)
    academic = PriceBook.objects.get(slug="academic")

    draft = draft_prices(
        price_book=academic,
        prices=[DraftedPrice("small", "*", Decimal("3.50"))],
        valid_from=MONTH_END + 40 * 24 * HOUR,
        reason="A new year.",
        actor=DORA,
        at=MONTH_END + HOUR,
    )

    assert [(e["organization"], e["before"], e["after"]) for e in draft.effects] == [
        ("acme", "3.00", "3.50")
    ]


def test_the_tiers_of_the_book_of_the_class_apply(acme: Ledger) -> None:
    join(acme.organization, "academic")
    schedule = publish_tiers(
        price_book=PriceBook.objects.get(slug="academic"), rule=make_rule(), actor=DORA, at=AT
    )
    use(acme)

    facts = tier_facts_of({acme.organization.pk: "EUR"})[acme.organization.pk]

    assert [rule.id for rule in facts.rules] == [str(schedule.pk)]
