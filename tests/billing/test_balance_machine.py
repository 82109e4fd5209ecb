"""Documents and payments in any order: journal, open items and statements agree with a sum by hand.

What is owed is kept by `tests.support.billing.owed`, which predicts each refusal as well.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from billing.domain.ledger.bank_rows import BankRow
from billing.models import (
    BillingPeriod,
    Invoice,
)
from billing.selectors.ledger.reports import statement
from billing.services.closing import approve_period, close_nil_period, review_period
from billing.services.crediting import draft_credit, draft_debit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.ledger.journal import accrue_unbilled, close_accounting_month
from billing.services.ledger.payments import record_payment
from billing.services.ledger.settling import (
    allocate_payment,
    refund_payment,
    release_payment,
    reverse_payment,
    unassign_payment,
)
from metering.selectors.corrections.ledger import ledger_of_window
from tenants.domain.errors import DomainError
from tests.support.billing.balance_rules import DisputeMachine
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.owed import Money
from tests.support.billing.payments import ACCOUNT
from tests.support.billing.site import SITE_TERMS

slugs = st.sampled_from(["acme", "globex"])
projects = st.sampled_from(["llm", "llm", "vision"])
numbers = st.integers(0, 5)
cents = st.integers(1, 3000)
ages = st.integers(0, 70)


class BalanceMachine(DisputeMachine):
    """Whatever finance does with documents, payments and accounting months."""

    @initialize()
    def bill_october(self) -> None:
        """Begin with an invoice each."""
        for slug in self.ledgers:
            self.bill(slug)

    @rule(days=st.integers(1, 25))
    def wait(self, days: int) -> None:
        """Let days pass."""
        self.clock += timedelta(days=days)

    @rule(slug=slugs)
    def bill(self, slug: str) -> None:
        """Make the earliest open month final, if it is over; one without charges is nil."""
        rows = BillingPeriod.objects.filter(organization__slug=slug).exclude(state="closed")
        period = rows.order_by("label").first()
        if period is None:
            return
        with suppress(DomainError), transaction.atomic():
            if not period.charges.exists():
                close_nil_period(period_id=period.pk, actor=DORA, at=self.at)
                return
            draft = draft_invoice(period_id=period.pk, actor=DORA, at=self.at, terms=SITE_TERMS)
            review_period(
                period_id=period.pk,
                acknowledgement="Checked.",
                actor=DORA,
                at=self.at,
                terms=SITE_TERMS,
            )
            approve_period(period_id=period.pk, actor=ERIC, at=self.at, terms=SITE_TERMS)
            finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=self.at, terms=SITE_TERMS)
        self.note_documents()

    @rule(slug=slugs, project=projects, pods=st.integers(1, 12))
    def add_use(self, slug: str, project: str, pods: int) -> None:
        """Post a correction with an hour of more pods."""
        ledger = self.ledgers[slug]
        used = getattr(ledger, project)
        accrue_late(correct(self.window(ledger), used, *[3600] * pods), at=self.at)

    @rule(slug=slugs, project=projects, pods=st.integers(1, 12))
    def take_use(self, slug: str, project: str, pods: int) -> None:
        """Post a correction that takes the use of pods back, as far as there are any."""
        ledger = self.ledgers[slug]
        window, used = self.window(ledger), getattr(ledger, project)
        facts = ledger_of_window(window.pk, start_at=window.start_at).values()
        of_project = [row for row in facts if row.line["project_id"] == str(used.pk)]
        taken = [-row.unit_seconds for row in of_project if row.unit_seconds > 0]
        if taken:
            accrue_late(correct(window, used, *taken[:pods]), at=self.at)

    @rule(number=numbers, amount=cents, position=st.integers(0, 1))
    def credit(self, number: int, amount: int, position: int) -> None:
        """Give back a part of a line."""
        self.correct_document(draft_credit, number, amount=amount, position=position)

    @rule(number=numbers, amount=cents, position=st.integers(0, 1))
    def debit(self, number: int, amount: int, position: int) -> None:
        """Ask for more on a line."""
        self.correct_document(draft_debit, number, amount=amount, position=position)

    @rule(number=numbers)
    def void(self, number: int) -> None:
        """Credit an invoice in full, and replace it."""
        self.correct_document(void_invoice, number)

    @rule(
        reference=st.integers(0, 12),
        payer=st.sampled_from([None, None, "acme", "globex"]),
        currency=st.sampled_from([None, None, "EUR", "USD"]),
        amount=cents,
        age=ages,
        named=st.one_of(st.none(), numbers, numbers),
    )
    def pay(
        self,
        *,
        reference: int,
        payer: str | None,
        currency: str | None,
        amount: int,
        age: int,
        named: int | None,
    ) -> None:
        """Record a payment; a reference may be known, and the text name an invoice."""
        bill = None if named is None else self.pick(self.owed.documents(), named)
        text = "" if bill is None else Invoice.objects.get(pk=bill).reference
        currency = currency or ("EUR" if bill is None else self.owed.bills[bill].currency)
        row = BankRow(
            ACCOUNT, f"B{reference}", self.money(amount), currency, self.day(age), remittance=text
        )
        is_new = row.bank_reference not in self.references
        made = self.attempt(
            record_payment,
            is_right=is_new,
            row=row,
            organization_id=None if payer is None else self.ledgers[payer].organization.pk,
            actor=DORA,
        )
        if made is None:
            return
        self.references.append(row.bank_reference)
        found = None if bill is None else self.owed.bills[bill]
        is_match = found is not None and currency == found.currency
        is_match = is_match and payer in {None, getattr(found, "payer", None)}
        owner = found.payer if found is not None and is_match else payer
        self.owed.add_money(made.pk, Money(owner, currency, row.amount), row.booked_on)
        if bill is not None and found is not None and is_match and found.open_amount > 0:
            self.owed.settle(made.pk, bill, min(row.amount, found.open_amount), self.today)

    @precondition(lambda self: self.owed.money)
    @rule(paid=numbers, billed=numbers, amount=st.one_of(st.none(), cents))
    def allocate(self, paid: int, billed: int, amount: int | None) -> None:
        """Settle a bill with money, which sets an unknown payer."""
        payment, document = self.pick(self.owed.money, paid), self.pick(self.owed.bills, billed)
        if payment is None or document is None:
            return
        money, bill = self.owed.money[payment], self.owed.bills[document]
        left = min(self.owed.free_amount(payment), bill.open_amount)
        wanted = left if amount is None else self.money(amount)
        is_right = (
            money.currency == bill.currency
            and money.payer in {None, bill.payer}
            and not money.is_reversed
            and 0 < wanted <= left
        )
        made = self.attempt(
            allocate_payment,
            is_right=is_right,
            payment_id=payment,
            **{"document_id" if bill.month else "opening_balance_id": document},
            amount=None if amount is None else wanted,
            actor=DORA,
        )
        if made is not None:
            if money.payer is None:
                self.owed.assign(payment, bill.payer, self.today)
            self.owed.settle(payment, document, wanted, self.today)

    @precondition(lambda self: self.owed.money)
    @rule(paid=numbers)
    def release(self, paid: int) -> None:
        """Take back what a payment settles."""
        if (payment := self.pick(self.owed.money, paid)) is None:
            return
        parts = self.owed.parts_of(payment)
        if self.attempt(
            release_payment, is_right=bool(parts), payment_id=payment, reason="Wrong.", actor=DORA
        ):
            self.free(payment)

    @precondition(lambda self: self.owed.money)
    @rule(paid=numbers)
    def unassign(self, paid: int) -> None:
        """Take back the payer of a payment that settles nothing."""
        if (payment := self.pick(self.owed.money, paid)) is None:
            return
        money = self.owed.money[payment]
        is_right = money.is_receipt and money.payer is not None and not money.is_returned
        is_right = is_right and not self.owed.parts_of(payment)
        if self.attempt(
            unassign_payment, is_right=is_right, payment_id=payment, reason="Wrong.", actor=DORA
        ):
            self.owed.assign(payment, None, self.today)

    @precondition(lambda self: self.owed.money)
    @rule(paid=numbers, age=ages)
    def reverse(self, paid: int, age: int) -> None:
        """Have the bank take a payment back."""
        if (payment := self.pick(self.owed.money, paid)) is None:
            return
        money = self.owed.money[payment]
        made = self.attempt(
            reverse_payment,
            is_right=money.is_receipt and not money.is_returned,
            payment_id=payment,
            reason="No funds.",
            booked_on=self.day(age),
            actor=DORA,
        )
        if made is not None:
            self.free(payment)
            self.owed.pay_back(payment, money.amount, self.day(age))
            money.is_reversed = True

    @precondition(lambda self: self.owed.money)
    @rule(paid=numbers, amount=cents, age=ages)
    def refund(self, paid: int, amount: int, age: int) -> None:
        """Pay back what is free."""
        if (payment := self.pick(self.owed.money, paid)) is None:
            return
        wanted, money = self.money(amount), self.owed.money[payment]
        made = self.attempt(
            refund_payment,
            is_right=money.payer is not None and wanted <= self.owed.free_amount(payment),
            payment_id=payment,
            amount=wanted,
            bank_reference=f"Refund {uuid4()}",
            bank_account=ACCOUNT,
            booked_on=self.day(age),
            reason="Too much.",
            actor=DORA,
        )
        if made is not None:
            self.owed.pay_back(payment, wanted, self.day(age))

    @rule(months=st.integers(0, 2), is_closed=st.booleans())
    def end_month(self, *, months: int, is_closed: bool) -> None:
        """Accrue unbilled use of an accounting month and close it, if it is over and not closed."""
        label = self.label(months)
        is_right = self.closed < label < self.label(0)
        self.attempt(accrue_unbilled, is_right=is_right, label=label, actor=DORA)
        # The database goes by its own clock, which no test moves.
        if not is_closed or label >= f"{datetime.now(UTC):%Y-%m}":
            return
        made = self.attempt(close_accounting_month, is_right=is_right, label=label, actor=DORA)
        if made is not None:
            self.closed = label

    @rule(age=st.integers(0, 200))
    def see_open_items_of_a_past_day(self, age: int) -> None:
        """Compare open items of any day, by age."""
        self.compare_ageing(self.day(age))

    @rule(slug=slugs, currency=st.sampled_from(["EUR", "USD"]), age=ages, length=st.integers(1, 90))
    def see_statement(self, slug: str, currency: str, age: int, length: int) -> None:
        """Compare the statement of any days: opening + documents - payments = closing."""
        begin = self.day(age)
        end = begin + timedelta(days=length)
        found = statement(
            self.ledgers[slug].organization.pk, currency=currency, begin_on=begin, end_on=end
        )
        wanted = [row for row in self.owed.events_of(slug, currency) if begin <= row[0] < end]
        assert found.opening == self.owed.balance(slug, currency, before=begin)
        assert sorted((line.dated_on, line.amount) for line in found.lines) == wanted
        assert found.closing == found.opening + sum(amount for _, amount in wanted)

    def correct_document(
        self,
        call: Callable[..., Invoice | tuple[Invoice, Invoice]],
        number: int,
        *,
        amount: int | None = None,
        position: int = 0,
    ) -> None:
        """Draft a correction of a document, and finalize it unless it is refused."""
        if (key := self.pick(self.owed.documents(), number)) is None:
            return
        bill = self.owed.bills[key]
        given: dict[str, Any] = {
            "invoice_id": key,
            "reason": "Wrong.",
            "actor": DORA,
            "terms": SITE_TERMS,
        }
        is_right: bool | None = self.owed.is_correctable(key)
        is_right = is_right and (bill.is_invoice or call is draft_credit)
        if amount is None:
            # Whether the month can be billed anew is not predicted.
            is_right = None if is_right and not bill.is_corrected else False
            amounts = dict(bill.left)
        else:
            amounts = given["amounts"] = self.lines_of(key, {position: amount})
            is_right = is_right and (call is draft_debit or self.owed.fits(key, amounts))
        made = self.attempt(call, is_right=is_right, **given)
        if made is None:
            return
        self.owed.take(key, {} if call is draft_debit else amounts)
        bill.is_replaced = isinstance(made, tuple)
        draft = made[0] if isinstance(made, tuple) else made
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=self.at, terms=SITE_TERMS)
        self.note_documents()


def run(*, examples: int, steps: int) -> None:
    """Run the machine."""
    run_state_machine_as_test(
        BalanceMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db
def test_a_few_orders_of_events_balance() -> None:
    run(examples=3, steps=40)


@pytest.mark.soak
@pytest.mark.django_db
@pytest.mark.seconds(60)
@pytest.mark.parametrize("part", range(3))
def test_many_orders_of_events_balance(part: int) -> None:  # noqa: ARG001 - For as many processes.
    run(examples=12, steps=50)
