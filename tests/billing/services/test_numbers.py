"""Numbers and dates of invoices, two people, and what the database checks of what becomes final."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.documents.document import (
    InvoiceTerms,
    canonical_text,
    digest_of,
    issue_document,
)
from billing.domain.documents.invoicing import reference_of
from billing.domain.errors import FourEyesError
from billing.models import BillingPeriod, Invoice, InvoiceSeries
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.domain.actors import Actor, ActorKind
from tenants.selectors.clock import database_now
from tests.support.billing.ledger import DORA, ERIC, TICK, month_of_use
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT

ROBOT = Actor(kind=ActorKind.SERVICE_ACCOUNT, id="12", label="robot")


def drafted(slug: str = "acme", *, actor: Actor = DORA) -> Invoice:
    ledger = month_of_use([("llm", 3600)], slug)
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    return draft_invoice(period_id=period.pk, actor=actor, at=AT, terms=SITE_TERMS)


def finalize(draft: Invoice, *, terms: InvoiceTerms | None = None) -> Invoice:
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=terms or SITE_TERMS)


@pytest.mark.django_db
def test_the_date_is_that_of_the_number_and_not_that_of_the_request() -> None:
    before = database_now()
    first, second = drafted("acme"), drafted("umbrella")

    finals = [finalize(first), finalize(second)]

    dates = [final.finalized_at for final in finals]
    assert all(date is not None and date >= before for date in dates)
    assert dates == sorted(dates)  # type: ignore[type-var]
    assert InvoiceSeries.objects.get().last_issued_at == dates[-1]
    assert [final.document["issued_at"][:4] for final in finals] == [
        str(final.issue_year) for final in finals
    ]


GUARDS = (
    ("billing_invoice", "billing_invoice_refuses_update"),
    ("billing_invoice", "billing_invoice_adds_up"),
    ("billing_invoiceseries", "billing_invoiceseries_refuses_update"),
)


def test_numbers_begin_anew_each_year(superuser_url: str) -> None:
    year = finalize(drafted("acme")).issue_year
    with psycopg.connect(superuser_url, autocommit=True) as opened:
        for table, guard in GUARDS:
            opened.execute(f"ALTER TABLE {table} DISABLE TRIGGER {guard}")
        for table, column in (("billing_invoice", "series"), ("billing_invoiceseries", "code")):
            opened.execute(f"UPDATE {table} SET {column} = 'GL-{year - 1}'")  # noqa: S608 - Constants.
        for table, guard in GUARDS:
            opened.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {guard}")

    this_year = finalize(drafted("umbrella"))

    assert this_year.reference == f"GL-{year}-000001"
    assert dict(InvoiceSeries.objects.values_list("code", "next_number")) == {
        f"GL-{year - 1}": 2,
        f"GL-{year}": 2,
    }


@pytest.mark.django_db
def test_a_year_begins_at_the_first_number_of_the_site() -> None:
    terms = replace(SITE_TERMS, first_number=500)

    references = [finalize(drafted(slug), terms=terms).reference for slug in ("acme", "umbrella")]

    year = Invoice.objects.latest("number").issue_year
    assert references == [f"GL-{year}-000500", f"GL-{year}-000501"]


@pytest.mark.django_db
@pytest.mark.parametrize(("drafter", "finalizer"), [(TICK, ERIC), (ROBOT, ERIC), (DORA, ROBOT)])
def test_one_person_and_the_service_are_not_two_people(drafter: Actor, finalizer: Actor) -> None:
    draft = drafted(actor=drafter)

    with pytest.raises(FourEyesError) as refused:
        finalize_invoice(invoice_id=draft.pk, actor=finalizer, at=AT, terms=SITE_TERMS)

    assert refused.value.facts == {"drafted_by": drafter.label, "finalized_by": finalizer.label}
    assert Invoice.objects.get().state == "draft"
    assert not InvoiceSeries.objects.exists()


@pytest.mark.django_db
def test_what_the_service_drafted_is_final_once_two_people_have_acted() -> None:
    draft = drafted(actor=TICK)
    draft_invoice(period_id=draft.period_id, actor=DORA, at=AT, terms=SITE_TERMS)

    assert finalize(draft).state == "final"


FORGERIES: dict[str, tuple[dict[str, object], str]] = {
    "a number of no series": ({"number": 7}, "has no final invoice|is not the next of its series"),
    "another series": ({"series": "XX-2026"}, "has no final invoice|is not the next of its series"),
    "another year": ({"issue_year": 2025}, "is not that of its year of issue"),
    "another total": ({"total": 1}, "its document shows something else"),
    "another digest": ({"content_sha256": "0" * 64}, "digest is not that of its text"),
    "another document": ({"document": {"total": {"amount": "1.00"}}}, "text is not its document"),
    "an earlier date": ({"finalized_at": AT}, "is not the next of its series"),
    "an open period": ({}, "its period is not closed"),
}


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_final_invoice_is_refused_when_it_would_be_committed(forgery: str) -> None:
    draft = drafted()
    changes, reason = FORGERIES[forgery]

    with pytest.raises(DatabaseError, match=reason), transaction.atomic():
        become_final(draft, is_closed=forgery != "an open period", **changes)

    assert Invoice.objects.get().state == "draft"
    assert BillingPeriod.objects.get(pk=draft.period_id).state == "open"
    assert not InvoiceSeries.objects.exists()


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        ("UPDATE billing_invoiceline SET amount = 1", "do not add up to it"),
        ("UPDATE billing_invoiceline SET position = 2", "are not those printed"),
    ],
)
def test_lines_that_are_not_those_of_the_document_are_refused(forge: str, reason: str) -> None:
    draft = drafted()
    with connection.cursor() as cursor:
        cursor.execute(forge)

    with pytest.raises(DatabaseError, match=reason), transaction.atomic():
        become_final(draft)

    assert Invoice.objects.get().state == "draft"


def become_final(draft: Invoice, *, is_closed: bool = True, **changes: object) -> None:
    """Do by hand what finalizing does to number, row and period, but for some changes."""
    if is_closed:
        BillingPeriod.objects.filter(pk=draft.period_id).update(state="closed", closed_at=AT)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_invoiceseries (code, first_number, next_number, last_issued_at)"
            " SELECT 'GL-' || to_char(now() AT TIME ZONE 'UTC', 'YYYY'), 1, 2, clock_timestamp()"
            " RETURNING code, last_issued_at"
        )
        series, issued_at = cursor.fetchone()
    document = issue_document(
        draft.document, reference=reference_of(series, 1), issued_at=issued_at, payment_days=30
    )
    values: dict[str, Any] = {
        "state": "final",
        "series": series,
        "number": 1,
        "issue_year": int(series[-4:]),
        "document": document,
        "content": canonical_text(document),
        "content_sha256": digest_of(document),
        "finalized_at": issued_at,
    }
    Invoice.objects.filter(pk=draft.pk).update(**{**values, **changes})
