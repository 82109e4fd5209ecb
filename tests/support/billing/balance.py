"""What the balance machine starts from, writes down and compares after each step."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, transaction
from hypothesis.stateful import RuleBasedStateMachine, invariant

from billing.models import (
    AccountingMonth,
    Dispute,
    DisputedLine,
    DisputeMessage,
    Invoice,
    JournalEntry,
    OpeningBalance,
    Payment,
    PaymentAllocation,
    Posting,
    WriteOff,
)
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.reports import ageing
from billing.selectors.ledger.settlement import (
    with_free_amount,
    with_open_balance,
    with_settlement,
)
from metering.models import MeteringWindow
from tenants.domain.errors import DomainError
from tenants.models import AuditEntry
from tests.billing.services.test_taxes import set_rate, treat
from tests.support.billing.ledger import Ledger, month_of_use
from tests.support.billing.owed import PAYMENT_DAYS, Bill, Money, Owed
from tests.support.builders import MONTH_END

COUNTED = (
    AccountingMonth,
    AuditEntry,
    Dispute,
    DisputedLine,
    DisputeMessage,
    Invoice,
    JournalEntry,
    OpeningBalance,
    Payment,
    PaymentAllocation,
    Posting,
    WriteOff,
)

Made = TypeVar("Made")


class LedgerMachine(RuleBasedStateMachine):
    """Two organizations: one in euros with tax, the other in dollars without."""

    def __init__(self) -> None:
        """Begin with a metered October in a transaction that is rolled back."""
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        uses = [*[("llm", 3600)] * 8, ("vision", 1777)]
        self.ledgers: dict[str, Ledger] = {
            "acme": month_of_use(uses),
            "globex": month_of_use(uses, "globex", billing_currency="USD"),
        }
        set_rate("19")
        treat(self.ledgers["acme"].organization)
        self.owed = Owed()
        # Documents have the date of the database, so nothing may happen before it.
        self.clock = max(MONTH_END + timedelta(days=2), datetime.now(UTC))
        self.closed = ""
        self.references: list[str] = []
        self.noted: set[UUID] = set()
        """Credit notes that are written down."""

    def teardown(self) -> None:
        """Roll everything back."""
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    @invariant()
    def journal_and_open_items_agree(self) -> None:
        """Let the deferred triggers judge, and the nightly check find nothing."""
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            cursor.execute(UNBALANCED)
            assert cursor.fetchall() == []
        assert check_journal({}).differences == ()

    @invariant()
    def what_is_left_is_right(self) -> None:
        """Compare what is open of each bill and free of each payment, and all of it by age."""
        owed = self.owed
        documents = with_settlement(Invoice.objects.filter(pk__in=owed.bills), on=self.today)
        balances = with_open_balance(OpeningBalance.objects.filter(amount__gt=0), on=self.today)
        open_amounts = {row.pk: row.open_amount for row in [*documents, *balances]}
        payments = with_free_amount(Payment.objects.filter(pk__in=owed.money))
        free_amounts = {row.pk: row.free_amount for row in payments}
        assert open_amounts == {key: bill.open_amount for key, bill in owed.bills.items()}
        assert free_amounts == {key: owed.free_amount(key) for key in owed.money}
        assert {row.pk: (row.written_off, row.disputed_amount) for row in documents} == {
            key: (owed.written_off(key), owed.disputed(key)) for key in owed.documents()
        }
        assert min([*open_amounts.values(), *free_amounts.values()], default=0) >= 0
        self.compare_ageing(self.today)

    def compare_ageing(self, day: date) -> None:
        """Compare all columns of open items of a day."""
        found = {
            (row.organization, row.currency): [
                row.not_due,
                row.days_1_to_30,
                row.days_31_to_60,
                row.days_61_to_90,
                row.days_over_90,
                row.credit,
                row.total,
            ]
            for row in ageing(on=day, organization_ids=None)
        }
        wanted = self.owed.by_age(day)
        assert {key: row for key, row in found.items() if any(row)} == {
            key: row for key, row in wanted.items() if any(row)
        }

    def note_documents(self) -> None:
        """Write down the documents that became final."""
        known = [*self.owed.bills, *self.noted]
        rows = Invoice.objects.filter(state="final").exclude(pk__in=known)
        for row in rows.select_related("organization", "period"):
            payer, gross = row.organization.slug, row.total + row.tax_total
            issued_on = (row.finalized_at or self.clock).astimezone(UTC).date()
            if row.kind in {"invoice", "debit_note"}:
                due_on = issued_on + timedelta(days=PAYMENT_DAYS)
                bill = Bill(payer, row.currency, due_on, month=row.period.label)
                bill.is_invoice = row.kind == "invoice"
                bill.left = {line.pk: line.amount for line in row.lines.order_by("position")}
                self.owed.add_bill(row.pk, bill, gross, issued_on)
                continue
            self.noted.add(row.pk)
            if row.corrects_id is not None:
                self.owed.credit_bill(row.corrects_id, -gross, issued_on, freed_on=self.today)
            else:
                payment = Payment.objects.get(document=row)
                money = Money(payer, row.currency, -gross, is_receipt=False)
                self.owed.add_money(payment.pk, money, issued_on)

    def free(self, payment: UUID) -> None:
        """Write down that a payment settles nothing any more."""
        for part in self.owed.parts_of(payment):
            self.owed.free_part(part, self.today)

    def attempt(
        self, call: Callable[..., Made], *, is_right: bool | None = None, **given: object
    ) -> Made | None:
        """Return what a service returns, or None where it refuses, which changes nothing.

        Args:
            call: The service.
            is_right: Whether it accepts; None where this is not predicted.
            given: Its arguments.
        """
        before = count_rows()
        try:
            made = call(**given, at=self.at)
        except DomainError:
            assert is_right is not True
            assert count_rows() == before
            return None
        assert is_right is not False
        return made

    @property
    def at(self) -> datetime:
        """A moment after all before."""
        self.clock += timedelta(seconds=1)
        return self.clock

    @property
    def today(self) -> date:
        """The day."""
        return self.clock.astimezone(UTC).date()

    def day(self, age: int) -> date:
        """Return a day before today."""
        return self.today - timedelta(days=age)

    def label(self, months: int) -> str:
        """Return the label of a month before this one."""
        number = self.today.year * 12 + self.today.month - 1 - months
        return f"{number // 12}-{number % 12 + 1:02}"

    def money(self, amount: int) -> Decimal:
        """Return cents as an amount."""
        return Decimal(amount) / 100

    def lines_of(self, key: UUID, amounts: dict[int, int]) -> dict[UUID, Decimal]:
        """Return lines of a document by position, with cents as amounts."""
        lines = list(self.owed.bills[key].left)
        return {lines[at % len(lines)]: self.money(cents) for at, cents in amounts.items()}

    def window(self, ledger: Ledger) -> MeteringWindow:
        """Return the window with all use of an organization."""
        return MeteringWindow.objects.filter(cluster=ledger.cluster).earliest("start_at")

    def pick(self, rows: dict[UUID, Any], number: int) -> UUID | None:
        """Return one of the keys, in order of arrival, or None."""
        keys = list(rows)
        return keys[number % len(keys)] if keys else None


def count_rows() -> tuple[int, ...]:
    """Return how many rows each table has that a refusal may not change; one query."""
    tables = (model._meta.db_table for model in COUNTED)  # noqa: SLF001 - As Django documents it.
    counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in tables)  # noqa: S608 - Names.
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {counts}")
        return tuple(cursor.fetchone())


UNBALANCED = """
SELECT entry_id FROM billing_posting GROUP BY entry_id HAVING sum(amount) <> 0 OR count(*) < 2
"""
