"""Credit lines of broken hardware: at the price of the hour, once, and taken back with the use."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.documents.document_text import invoice_text
from billing.domain.errors import CreditTooLargeError, DraftStaleError
from billing.domain.pricing.minimum import MinimumRule
from billing.models import Charge, Invoice, Posting
from billing.selectors.documents.membership import with_line
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.verification import check_invoices, check_lines
from billing.services.crediting import draft_credit, void_invoice
from billing.services.ledger.journal import accrue_unbilled
from billing.services.pricing.minimums import publish_minimum
from metering.models import CreditProposal, CreditState, MeteringWindow
from metering.services.devices.credits import decide_credit
from tenants.models import Project
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END
from tests.support.metering.derived_rows import make_derived_rows
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that documents and journal agree, as at a commit."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for check in (check_journal, check_invoices, check_lines):
        assert check({}).differences == ()


@shared_rows
def ledger() -> Ledger:
    """October with 2 h in one project and 1 h in another, at 2.00: 4.00 and 2.00."""
    return month_of_use([("llm", 3600), ("llm", 3600), ("vision", 3600)])


def accept(project: Project, seconds: int = 1800, **changes: Any) -> CreditProposal:  # noqa: ANN401
    """Accept a credit of a pod's first hour."""
    return accept_in(MeteringWindow.objects.earliest("start_at"), project, seconds, **changes)


def accept_in(
    window: MeteringWindow,
    project: Project,
    seconds: int = 1800,
    **changes: Any,  # noqa: ANN401
) -> CreditProposal:
    """Accept a credit of a pod's hour."""
    rows = make_derived_rows(window, project, owner="carol")
    CreditProposal.objects.filter(pk=rows.credit.pk).update(unit_seconds=seconds, **changes)
    return decide_credit(
        proposal_id=rows.credit.pk,
        state=CreditState.ACCEPTED,
        reason="XID 79.",
        actor=TICK,
        at=AT,
    )


def retract(proposal: CreditProposal, seconds: int) -> None:
    """Note that corrections took back some of the use since, as metering does."""
    CreditProposal.objects.filter(pk=proposal.pk).update(retracted_unit_seconds=seconds)


def credits_of(invoice: Invoice) -> list[tuple[str, str, str]]:
    """Return project, earlier month and amount of each credit line."""
    rows = invoice.lines.filter(kind="credit").select_related("project", "service_period")
    return [
        (
            row.project.slug,
            row.service_period.label if row.service_period else "",
            f"{row.amount:.2f}",
        )
        for row in rows.order_by("position")
    ]


def november(ledger: Ledger) -> Invoice:
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END)
    accrue_everything(at=NOVEMBER_OVER)
    return draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)


def test_an_accepted_credit_is_a_line_at_the_price_of_its_hour(ledger: Ledger) -> None:
    accept(ledger.llm)

    final = finalize(draft(ledger.organization, "2026-10"))

    # Half an hour at 2.00.
    assert [(row.kind, f"{row.amount:.2f}") for row in final.lines.order_by("position")] == [
        ("usage", "4.00"),
        ("credit", "-1.00"),
        ("usage", "2.00"),
    ]
    assert (final.total, final.unit_seconds) == (Decimal("5.00"), 10800)
    printed = final.document["lines"][1]
    assert printed["description"] == (
        "Credit for broken hardware, October 2026: Small unit, H100 1g.10gb"
    )
    assert printed["credit"] == {
        "unit_hours": "0.500000",
        "whole_amount": "-1.00",
        "billed_amount": "0.00",
    }
    shown = invoice_text(final.document)
    assert (shown.credit, shown.sizes[0].amount, shown.total) == ("-1.00", "6.00", "5.00")
    assert b'"Credit for broken hardware, October 2026' in render_csv(final.document)
    assert render_pdf(final.document).startswith(b"%PDF")
    usage = final.lines.get(position=1)
    of_llm = with_line(Charge.objects.all()).filter(project=ledger.llm)
    assert {row.line_id for row in of_llm} == {usage.pk}


def test_one_that_is_not_accepted_or_was_credited_by_hand_gives_nothing(ledger: Ledger) -> None:
    proposal = accept(ledger.llm, is_credited_by_hand=True)
    make_derived_rows(MeteringWindow.objects.earliest("start_at"), ledger.vision, owner="carol")

    with pytest.raises(DatabaseError, match="decided once"), transaction.atomic():
        CreditProposal.objects.filter(pk=proposal.pk).update(is_credited_by_hand=False)
    assert credits_of(draft(ledger.organization, "2026-10")) == []


def test_one_accepted_after_the_invoice_comes_with_the_next_document(ledger: Ledger) -> None:
    finalize(draft(ledger.organization, "2026-10"))
    accept(ledger.vision)

    final = finalize(november(ledger), at=NOVEMBER_OVER)

    assert credits_of(final) == [("vision", "2026-10", "-1.00")]
    assert final.total == Decimal("1.00")


def test_use_that_is_taken_back_later_is_not_given_back_twice(ledger: Ledger) -> None:
    proposal = accept(ledger.vision, 3600)
    first = finalize(draft(ledger.organization, "2026-10"))
    window = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(window, ledger.vision, -3600), at=NOVEMBER_OVER)
    retract(proposal, 3600)

    second = finalize(november(ledger), at=NOVEMBER_OVER)

    assert credits_of(first) == [("vision", "", "-2.00")]
    assert credits_of(second) == [("vision", "2026-10", "2.00")]
    # Of October 4.00 are left, of November 2.00.
    assert first.total + second.total == Decimal("6.00")


def test_one_accepted_since_the_draft_makes_it_stale(ledger: Ledger) -> None:
    made = draft(ledger.organization, "2026-10")
    accept(ledger.llm)

    with pytest.raises(DraftStaleError) as refused:
        finalize(made)

    assert refused.value.facts == {"changed": "credits"}
    assert finalize(draft(ledger.organization, "2026-10")).total == Decimal("5.00")


def test_a_void_invoice_takes_its_credits_along_and_the_replacement_has_them(
    ledger: Ledger,
) -> None:
    accept(ledger.llm)
    final = finalize(draft(ledger.organization, "2026-10"))

    note, replacement = void_invoice(
        invoice_id=final.pk, reason="Address.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(replacement)

    note.refresh_from_db()
    replacement.refresh_from_db()
    assert (credits_of(note), note.total) == ([("llm", "", "1.00")], Decimal("-5.00"))
    assert (credits_of(replacement), replacement.total) == (
        [("llm", "", "-1.00")],
        Decimal("5.00"),
    )


def test_the_replacement_of_an_earlier_month_takes_no_credit_of_a_later_one_back(
    ledger: Ledger,
) -> None:
    first = finalize(draft(ledger.organization, "2026-10"))
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END)
    accrue_everything(at=NOVEMBER_OVER)
    accept_in(MeteringWindow.objects.latest("start_at"), ledger.llm)
    second = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)

    _, replacement = void_invoice(
        invoice_id=first.pk, reason="Address.", actor=DORA, at=NOVEMBER_OVER, terms=SITE_TERMS
    )
    finalize(replacement, at=NOVEMBER_OVER)

    replacement.refresh_from_db()
    assert (credits_of(second), second.total) == ([("llm", "", "-1.00")], Decimal("1.00"))
    assert (credits_of(replacement), replacement.total) == ([], Decimal("6.00"))


def test_the_accrual_of_two_open_months_has_a_credit_once(ledger: Ledger) -> None:
    accept(ledger.llm)
    november(ledger).delete()

    accrue_unbilled(label="2026-11", actor=DORA, at=NOVEMBER_OVER)

    # October with 6.00 and November with 2.00, less half an hour at 2.00.
    accrued = Posting.objects.get(entry__event="accrual", account="unbilled_receivables")
    assert accrued.amount == Decimal("7.00")


def test_a_credit_does_not_raise_the_minimum_and_cannot_be_credited(ledger: Ledger) -> None:
    rule: Any = MinimumRule(amount=Decimal("6.00"), first_month="2026-10")
    publish_minimum(organization=ledger.organization, rule=rule, actor=DORA, at=AT)
    accept(ledger.llm)

    final = finalize(draft(ledger.organization, "2026-10"))

    assert final.total == Decimal("5.00")
    line = final.lines.get(kind="credit")
    with pytest.raises(CreditTooLargeError):
        draft_credit(
            invoice_id=final.pk,
            amounts={line.pk: Decimal(1)},
            reason="Why.",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )
