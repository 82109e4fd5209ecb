"""As the runtime role, by SQL: months begin open, and currencies and time zones are known ones."""

from collections.abc import Callable
from datetime import date
from itertools import product
from string import ascii_uppercase
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from billing.models import (
    BillingPeriod,
    Invoice,
    JournalEntry,
    MinimumCharge,
    OpeningBalance,
    Payment,
    PriceBook,
)
from embedded.postgres import APP
from tenants.domain.currencies import MINOR_DIGITS
from tenants.models import Organization
from tests.support.billing.late import draft
from tests.support.billing.ledger import make_book, month_of_use
from tests.support.builders import AT, MONTH_START, make_organization

pytestmark = pytest.mark.django_db
HOURS = (MONTH_START, MONTH_START.replace(month=11))


@pytest.fixture(autouse=True)
def as_runtime_role() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        assert cursor.fetchone() == (APP,)


def refused(change: Callable[[], Any], reason: str) -> None:
    with pytest.raises(DatabaseError, match=reason), transaction.atomic():
        change()


@pytest.mark.parametrize(
    "closing",
    [
        {"state": "closed", "closed_at": AT},
        {"state": "review", "reviewed_at": AT, "reviewed_by": "x"},
        {"state": "approved", "approved_at": AT},
        {"closed_at": AT},
        {"approved_by": "x"},
        {"acknowledgement": "x"},
    ],
)
def test_a_month_begins_open(closing: dict[str, Any]) -> None:
    month = {"organization": make_organization(), "label": "2026-10", "hours": HOURS}

    refused(
        lambda: BillingPeriod.objects.create(**month, created_at=AT, **closing),
        "INSERT on billing_billingperiod is refused: a month begins open",
    )

    assert BillingPeriod.objects.count() == 0
    assert BillingPeriod.objects.create(**month, created_at=AT).state == "open"


def test_the_database_knows_the_currencies_that_can_be_billed_in() -> None:
    codes = ["".join(letters) for letters in product(ascii_uppercase, repeat=3)]

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT code FROM unnest(%s::text[]) AS code WHERE currency_is_known(code)", [codes]
        )
        known = {code for (code,) in cursor.fetchall()}

    assert known == set(MINOR_DIGITS)


def test_an_organization_has_a_known_currency_and_time_zone() -> None:
    acme = make_organization("acme", billing_currency="CHF", time_zone="Europe/Zurich")

    for field, values, reason in (
        ("billing_currency", ["ZZZ", "DEM", "XAU"], "it is no currency"),
        (
            "time_zone",
            ["No/Where", "Nowhere5", "europe/zurich", "posix/UTC", "localtime", ""],
            "it is no time zone",
        ),
    ):
        for value in values:
            change = {field: value}
            refused(lambda change=change: Organization.objects.update(**change), reason)  # type: ignore[misc]
            refused(
                lambda change=change: make_organization("other", **change),  # type: ignore[misc]
                reason,
            )

    assert list(Organization.objects.all()) == [acme]
    Organization.objects.update(billing_currency="JPY", time_zone="Asia/Kolkata")


def test_all_money_is_in_a_known_currency() -> None:
    acme = month_of_use([("llm", 3600)]).organization
    invoice = draft(acme, "2026-10")
    make_book("other")
    rows: dict[type[Model], dict[str, Any]] = {
        PriceBook: {"slug": "new", "name": "New", "created_at": AT},
        Payment: {
            "bank_account": "A",
            "bank_reference": "B",
            "amount": 1,
            "booked_on": date(2026, 11, 1),
            "recorded_at": AT,
        },
        OpeningBalance: {
            "organization": acme,
            "reference": "R",
            "amount": 1,
            "dated_on": date(2026, 11, 1),
            "due_on": date(2026, 12, 1),
            "recorded_at": AT,
        },
        MinimumCharge: {
            "organization": acme,
            "amount": 1,
            "first_month": "2026-12",
            "published_at": AT,
        },
        JournalEntry: {
            "event": "invoice",
            "source_key": "x",
            "document_on": date(2026, 11, 1),
            "posting_on": date(2026, 11, 1),
            "posted_at": AT,
        },
    }
    before = {model: model._default_manager.count() for model in rows}  # noqa: SLF001 - Django's.

    for model, fields in rows.items():
        row = model(**fields, currency="ZZZ")
        refused(row.save, "it is no currency")
    refused(lambda: Invoice.objects.update(currency="ZZZ"), "it is no currency")

    assert {model: model._default_manager.count() for model in rows} == before  # noqa: SLF001
    invoice.refresh_from_db()
    assert invoice.currency == "EUR"
