"""Rules of the balance machine: opening balances, write-offs and disputes."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from billing.domain.documents.invoicing import InvoiceState
from billing.services.disputes import (
    accept_dispute,
    open_dispute,
    reject_dispute,
    withdraw_dispute,
    write_message,
)
from billing.services.finalizing import finalize_invoice
from billing.services.ledger.opening_balances import record_opening_balance
from billing.services.ledger.write_offs import (
    confirm_write_off,
    propose_write_off,
    reject_write_off,
    reverse_write_off,
)
from tenants.domain.actors import Actor
from tests.support.billing.balance import LedgerMachine
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.owed import Bill, Dispute, Money, WriteOff
from tests.support.billing.site import SITE_TERMS

people = st.sampled_from([DORA, ERIC])
numbers = st.integers(0, 5)
cents = st.integers(0, 3000)
amounts_of_lines = st.dictionaries(st.integers(0, 2), st.integers(0, 800), max_size=2)
moves_of_write_offs = st.sampled_from(["confirm", "confirm", "reverse", "reject"])
answers = st.tuples(
    st.sampled_from(["accept", "accept", "accept", "reply", "withdraw", "reject"]),
    st.one_of(st.just({}), st.just({}), amounts_of_lines),
    st.booleans(),
)
"""What is done, with which amounts of lines if it is accepted, and whether its note is final."""


class OpeningMachine(LedgerMachine):
    """What organizations owed, or had as credit, in the system before."""

    def __init__(self) -> None:
        """Begin without opening balances."""
        super().__init__()
        self.openings: set[tuple[str, str]] = set()
        """Organization and reference of those recorded."""

    @rule(
        slug=st.sampled_from(["acme", "globex"]),
        number=numbers,
        amount=st.integers(-3000, 3000),
        currency=st.sampled_from(["EUR", "USD"]),
        age=st.integers(-1, 70),
        days=st.integers(0, 60),
        is_plausible=st.sampled_from([True, True, True, False]),
    )
    def open_balance(
        self,
        *,
        slug: str,
        number: int,
        amount: int,
        currency: str,
        age: int,
        days: int,
        is_plausible: bool,
    ) -> None:
        """Take over what an organization owed, with a due date, or its credit, without one."""
        total, dated_on = self.money(amount), self.day(age)
        due_on = dated_on + timedelta(days=days) if (amount > 0) == is_plausible else None
        key = (slug, f"Old {number}")
        is_right = key not in self.openings and amount != 0 and age >= 0 and is_plausible
        made = self.attempt(
            record_opening_balance,
            is_right=is_right,
            organization=self.ledgers[slug].organization,
            reference=key[1],
            amount=total,
            currency=currency,
            dated_on=dated_on,
            due_on=due_on,
            actor=DORA,
        )
        if made is None:
            return
        self.openings.add(key)
        if due_on is not None:
            self.owed.add_bill(made.pk, Bill(slug, currency, due_on), total, dated_on)
        elif made.credit is not None:
            money = Money(slug, currency, -total, is_receipt=False)
            self.owed.add_money(made.credit.pk, money, dated_on)


class WriteOffMachine(OpeningMachine):
    """Amounts that are given up, by two persons or by one, and taken back."""

    @rule(
        number=numbers,
        amount=st.one_of(st.none(), cents),
        person=people,
        is_four_eyes=st.sampled_from([True, True, False]),
        moves=st.lists(moves_of_write_offs, max_size=2),
    )
    def propose_write_off(
        self,
        *,
        number: int,
        amount: int | None,
        person: Actor,
        is_four_eyes: bool,
        moves: list[str],
    ) -> None:
        """Propose to give up what is open of a document, or a part, and perhaps decide at once."""
        if (key := self.pick(self.owed.documents(), number)) is None:
            return
        wanted = self.owed.bills[key].open_amount if amount is None else self.money(amount)
        of_bill = [row for row in self.owed.write_offs.values() if row.bill == key]
        is_proposed = any(row.state == "proposed" for row in of_bill)
        made = self.attempt(
            propose_write_off,
            is_right=not is_proposed and self.owed.is_writable_off(key, wanted),
            document_id=key,
            amount=None if amount is None else wanted,
            reason="Insolvent.",
            is_four_eyes=is_four_eyes,
            actor=person,
        )
        if made is None:
            return
        self.owed.write_offs[made.pk] = WriteOff(key, wanted, person.id)
        if not is_four_eyes:
            self.owed.post_write_off(made.pk, self.today)
        for move in moves:
            self._move_write_off(made.pk, move, ERIC if person is DORA else DORA)

    @precondition(lambda self: self.owed.write_offs)
    @rule(number=numbers, move=moves_of_write_offs, person=people)
    def move_write_off(self, number: int, move: str, person: Actor) -> None:
        """Confirm, reject or reverse a write-off of before."""
        if (key := self.pick(self.owed.write_offs, number)) is not None:
            self._move_write_off(key, move, person)

    def _move_write_off(self, key: UUID, move: str, person: Actor) -> None:
        row = self.owed.write_offs[key]
        given: dict[str, Any] = {"write_off_id": key, "actor": person}
        is_proposed = row.state == "proposed"
        if move == "confirm":
            is_right = is_proposed and row.proposer != person.id
            is_right = is_right and self.owed.is_writable_off(row.bill, row.amount)
            given |= {"is_right": is_right, "is_four_eyes": True}
            if self.attempt(confirm_write_off, **given):
                self.owed.post_write_off(key, self.today)
        elif move == "reverse":
            given |= {"is_right": row.state == "posted", "reason": "Paid."}
            if self.attempt(reverse_write_off, **given):
                self.owed.post_write_off(key, self.today, is_reversed=True)
        elif self.attempt(reject_write_off, is_right=is_proposed, note="They pay.", **given):
            row.state = "rejected"


class DisputeMachine(WriteOffMachine):
    """Documents that customers do not accept, and the credit notes of accepted disputes."""

    @rule(number=numbers, amounts=amounts_of_lines, answer=st.one_of(st.none(), answers))
    def open_dispute(
        self, number: int, amounts: dict[int, int], answer: tuple[Any, ...] | None
    ) -> None:
        """Dispute lines, or all that is left of a document, and perhaps answer at once."""
        if (key := self.pick(self.owed.documents(), number)) is None:
            return
        lines = self.lines_of(key, amounts)
        total = sum((lines or self.owed.bills[key].left).values(), Decimal(0))
        fits = self.owed.fits(key, lines) if lines else total > 0
        made = self.attempt(
            open_dispute,
            is_right=fits and not self.owed.disputed(key),
            document_id=key,
            amounts=lines,
            reason="Never used.",
            actor=DORA,
        )
        if made is None:
            return
        assert made.amount == total
        self.owed.disputes[made.pk] = Dispute(key, total, lines)
        if answer is not None:
            self._answer(made.pk, *answer)

    @precondition(lambda self: self.owed.disputes)
    @rule(number=numbers, answer=answers)
    def answer_dispute(self, number: int, answer: tuple[Any, ...]) -> None:
        """Write a message of a dispute of before, withdraw, reject or accept it."""
        if (key := self.pick(self.owed.disputes, number)) is not None:
            self._answer(key, *answer)

    @precondition(lambda self: self.owed.drafts)
    @rule(number=numbers)
    def finalize_note(self, number: int) -> None:
        """Finalize the credit note of a dispute that was accepted before."""
        if (key := self.pick(self.owed.drafts, number)) is not None:
            self._finalize(key)

    def _answer(self, key: UUID, move: str, amounts: dict[int, int], is_finalized: bool) -> None:  # noqa: FBT001 - As drawn.
        dispute = self.owed.disputes[key]
        given: dict[str, Any] = {"dispute_id": key, "actor": DORA, "is_right": dispute.is_open}
        if move == "accept":
            note = self._accept(key, self.lines_of(dispute.bill, amounts))
            if note is not None and is_finalized:
                self._finalize(note)
        elif move == "reply":
            self.attempt(write_message, text="See the logs.", **given)
        else:
            end = withdraw_dispute if move == "withdraw" else reject_dispute
            self.attempt(end, reason="See the logs.", **given)
            dispute.is_open = False

    def _accept(self, key: UUID, lines: dict[UUID, Decimal]) -> UUID | None:
        """Accept a dispute, whole or in part; return its credit note, which is a draft."""
        dispute = self.owed.disputes[key]
        bill = dispute.bill
        accepted = lines or dispute.lines or self.owed.all_left(bill, most=dispute.amount)
        is_right = (
            dispute.is_open
            and dispute.covers(accepted)
            and self.owed.is_correctable(bill)
            and self.owed.fits(bill, accepted)
        )
        made = self.attempt(
            accept_dispute,
            is_right=is_right,
            dispute_id=key,
            amounts=lines,
            reason="Broken.",
            actor=DORA,
            terms=SITE_TERMS,
        )
        if made is None or (note := made.credit_note) is None:
            return None
        assert (note.state, -note.total) == (InvoiceState.DRAFT, sum(accepted.values()))
        dispute.is_open = False
        self.owed.take(bill, accepted)
        self.owed.drafts[note.pk] = bill
        return note.pk

    def _finalize(self, note: UUID) -> None:
        finalize_invoice(invoice_id=note, actor=ERIC, at=self.at, terms=SITE_TERMS)
        del self.owed.drafts[note]
        self.note_documents()
