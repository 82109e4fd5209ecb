"""Whatever fails while an invoice is drafted or finalized, nothing of it stays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from billing.models import BillingPeriod, Invoice, InvoiceSeries
from billing.services.closing import approve_period, reopen_period, review_period
from billing.services.crediting import draft_credit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.periods import open_period
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import create_price_book, set_price
from tests.support.billing.ledger import DORA, ERIC, HOUR, Ledger, make_book, month_of_use
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.digest import ledger_digest

pytestmark = pytest.mark.django_db
ServiceCall = Callable[[], object]


class Failure:
    """Lets the database refuse one statement, counted from the first."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:  # noqa: ANN401 - Django's wrapper.
        self.left -= 1
        if self.left == 0:
            raise OperationalError("the connection was cut")
        return execute(sql, params, many, context)


@contextmanager
def failing_at(number: int) -> Iterator[None]:
    with connection.execute_wrapper(Failure(number)), pytest.raises(OperationalError):
        yield


def statements_of(call: ServiceCall) -> int:
    """Return how many statements a call takes; it stays done."""
    with CaptureQueriesContext(connection) as reported:
        call()
    return len(reported)


def period_of(ledger: Ledger) -> BillingPeriod:
    return BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")


def test_finalizing_that_fails_anywhere_takes_no_number_and_changes_nothing() -> None:
    ledgers = [month_of_use([("llm", 3600), ("vision", 60)], slug) for slug in ("acme", "umbrella")]
    probe, draft = (
        draft_invoice(period_id=period_of(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
        for ledger in ledgers
    )
    statements = statements_of(
        lambda: finalize_invoice(invoice_id=probe.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    )
    before = ledger_digest()

    for number in range(1, statements + 1):
        with failing_at(number):
            finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
        assert InvoiceSeries.objects.get().next_number == 2, number
        assert ledger_digest() == before, number

    final = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    assert statements >= 12
    assert (final.number, final.reference) == (2, f"{final.series}-000002")
    assert InvoiceSeries.objects.get().next_number == 3


def test_drafting_that_fails_anywhere_leaves_the_earlier_draft() -> None:
    ledger = month_of_use([("llm", 3600), ("vision", 60)])
    period = period_of(ledger)
    first = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    statements = statements_of(
        lambda: draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    )
    before = ledger_digest()

    for number in range(1, statements + 1):
        with failing_at(number):
            draft_invoice(period_id=period.pk, actor=ERIC, at=AT + HOUR, terms=SITE_TERMS)
        assert ledger_digest() == before, number

    again = draft_invoice(period_id=period.pk, actor=ERIC, at=AT + HOUR, terms=SITE_TERMS)
    assert (again.pk, again.version, again.drafted_by) == (first.pk, 3, "eric")


def test_every_other_write_of_money_that_fails_anywhere_changes_nothing() -> None:
    ledger = month_of_use([("llm", 3600)])
    draft = draft_invoice(period_id=period_of(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
    organization, book, spare = ledger.organization, ledger.book, make_book("spare")
    soon = AT.replace(minute=0) + 48 * HOUR
    calls: dict[str, Callable[[int], object]] = {
        "book": lambda n: create_price_book(
            slug=f"b{n}", name="B", currency="EUR", actor=DORA, at=AT
        ),
        "price": lambda n: set_price(
            price_book=book, size="small", unit_price=Decimal("1.5"), valid_from=soon + n * HOUR,
            actor=DORA, at=AT,
        ),
        "assignment": lambda n: assign_price_book(
            organization=organization, price_book=spare, valid_from=soon + n * HOUR,
            actor=DORA, at=AT,
        ),
        "period": lambda n: open_period(
            organization=organization, label=f"2027-{n + 1:02}", actor=DORA, at=AT
        ),
    }  # fmt: skip
    for name, call in calls.items():
        statements = statements_of(lambda call=call: call(0))  # type: ignore[misc]
        before = ledger_digest()
        for number in range(1, statements + 1):
            with failing_at(number):
                call(1)
            assert ledger_digest() == before, (name, number)
        call(1)
        assert ledger_digest() != before, name
    discard_draft(invoice_id=draft.pk, actor=DORA, at=AT)
    assert not Invoice.objects.exists()


def expect_nothing_on_failure(make: Callable[[str], ServiceCall]) -> int:
    """Let a call fail at each of its statements, with nothing changed; return how many it has."""
    statements = statements_of(make("acme"))
    call = make("umbrella")
    before = ledger_digest()
    for number in range(1, statements + 1):
        with failing_at(number):
            call()
    assert ledger_digest() == before
    call()
    assert ledger_digest() != before
    return statements


def drafted(slug: str) -> Invoice:
    ledger = month_of_use([("llm", 3600), ("vision", 60)], slug)
    return draft_invoice(period_id=period_of(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)


def reviewed(slug: str) -> Invoice:
    draft = drafted(slug)
    review_period(period_id=draft.period_id, actor=DORA, at=AT, terms=SITE_TERMS)
    return draft


def finalized(slug: str) -> Invoice:
    return finalize_invoice(invoice_id=drafted(slug).pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def reviewing(slug: str) -> ServiceCall:
    period_id = drafted(slug).period_id
    return lambda: review_period(period_id=period_id, actor=DORA, at=AT, terms=SITE_TERMS)


def approving(slug: str) -> ServiceCall:
    period_id = reviewed(slug).period_id
    return lambda: approve_period(period_id=period_id, actor=ERIC, at=AT, terms=SITE_TERMS)


def reopening(slug: str) -> ServiceCall:
    period_id = reviewed(slug).period_id
    return lambda: reopen_period(period_id=period_id, reason="A price.", actor=ERIC, at=AT)


def finalizing_approved(slug: str) -> ServiceCall:
    draft = reviewed(slug)
    approve_period(period_id=draft.period_id, actor=ERIC, at=AT, terms=SITE_TERMS)
    return lambda: finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def crediting(slug: str) -> ServiceCall:
    final = finalized(slug)
    line = final.lines.get(project__slug="llm")
    return lambda: draft_credit(
        invoice_id=final.pk,
        amounts={line.pk: Decimal(1)},
        reason="Broken.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )


def finalizing_credit(slug: str) -> ServiceCall:
    crediting(slug)()
    note = Invoice.objects.get(organization__slug=slug, kind="credit_note")
    return lambda: finalize_invoice(invoice_id=note.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def voiding(slug: str) -> ServiceCall:
    final = finalized(slug)
    return lambda: void_invoice(
        invoice_id=final.pk, reason="Wrong.", actor=DORA, at=AT, terms=SITE_TERMS
    )


def finalizing_void(slug: str) -> ServiceCall:
    voiding(slug)()
    note = Invoice.objects.get(organization__slug=slug, kind="credit_note")
    return lambda: finalize_invoice(invoice_id=note.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


@pytest.mark.parametrize(
    "make",
    [
        reviewing,
        approving,
        reopening,
        finalizing_approved,
        crediting,
        finalizing_credit,
        voiding,
        finalizing_void,
    ],
    ids=lambda make: make.__name__,
)
def test_a_step_of_a_close_that_fails_anywhere_changes_nothing(
    make: Callable[[str], ServiceCall],
) -> None:
    assert expect_nothing_on_failure(make) >= 5
