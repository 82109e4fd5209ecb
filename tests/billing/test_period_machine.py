"""Two months in any order of corrections, reviews, credits and voids: what is owed is exact.

The oracle has the unit-seconds of each project at its one price, rounded once, and what credit
notes gave back in part, which use that is taken back later uses up first.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from billing.domain.documents.invoicing import compose_lines, total_of
from billing.models import BillingPeriod, Invoice, InvoiceLine
from billing.selectors.documents.invoices import charge_sums
from billing.selectors.verification import check_charges, check_invoices, check_lines, check_numbers
from billing.services.closing import (
    approve_period,
    close_nil_period,
    reopen_period,
    review_period,
)
from billing.services.crediting import draft_credit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.tasks import tick
from metering.models import MeteringWindow
from metering.selectors.corrections.ledger import ledger_of_window
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.models import Project
from tests.support.billing.late import correct
from tests.support.billing.ledger import DORA, ERIC, HOUR, SMALL_GROUP, TICK, Ledger, month_of_use
from tests.support.billing.oracle import Key, Oracle
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import MONTH_END

NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR
CHECKS = (check_invoices, check_lines, check_numbers, check_charges)
months = st.sampled_from(["2026-10", "2026-11"])
people = st.sampled_from([ERIC, DORA, ERIC, TICK])
names = st.sampled_from(["llm", "vision"])


class MonthMachine(RuleBasedStateMachine):
    """An organization with two projects, after the end of November."""

    def __init__(self) -> None:
        """Begin with a metered October in a transaction that is rolled back."""
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.ledger: Ledger = month_of_use([("llm", 3600), ("vision", 1777)])
        self.window = MeteringWindow.objects.earliest("start_at")
        self.used = Counter({"llm": 3600, "vision": 1777})
        self.oracle = Oracle(digits=2, projects=list(self.used), tiers=None, minimum=0)
        tick(at=NOVEMBER_OVER, actor=TICK)

    def teardown(self) -> None:
        """Settle what is left, compare, and roll everything back."""
        try:
            self.settle()
            self.everything_is_verified()
        finally:
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)

    @rule(name=names, seconds=st.integers(1, 2000))
    def add_use(self, name: str, seconds: int) -> None:
        """Post a correction with one more pod."""
        correct(self.window, self.project(name), seconds)
        self.used[name] += seconds
        tick(at=NOVEMBER_OVER, actor=TICK)

    @rule(name=names, seconds=st.integers(1, 4000))
    def take_use(self, name: str, seconds: int) -> None:
        """Post a correction that takes use from the first pod that has any."""
        project = self.project(name)
        facts = ledger_of_window(self.window.pk, start_at=self.window.start_at).values()
        held = [fact for fact in facts if fact.line["project_id"] == str(project.pk)]
        left = next((fact.unit_seconds for fact in held if fact.unit_seconds > 0), 0)
        if left:
            correct(self.window, project, -min(seconds, left))
            self.used[name] -= min(seconds, left)
            tick(at=NOVEMBER_OVER, actor=TICK)

    @rule(label=months)
    def draft(self, label: str) -> None:
        """Draft a month, or draft it again."""
        self.attempt(draft_invoice, period_id=self.month(label), actor=DORA, terms=SITE_TERMS)

    @rule(label=months)
    def review(self, label: str) -> None:
        """Send a month to review."""
        self.attempt(
            review_period,
            period_id=self.month(label),
            actor=DORA,
            acknowledgement="Checked.",
            terms=SITE_TERMS,
        )

    @rule(label=months, person=people)
    def approve(self, label: str, person: Actor) -> None:
        """Approve a month."""
        self.attempt(approve_period, period_id=self.month(label), actor=person, terms=SITE_TERMS)

    @rule(label=months)
    def reopen(self, label: str) -> None:
        """Open a month again."""
        self.attempt(reopen_period, period_id=self.month(label), reason="Wrong.", actor=DORA)

    @rule(label=months)
    def close_month(self, label: str) -> None:
        """Close a month as two people, whatever its state, unless something holds it up."""
        with suppress(DomainError), transaction.atomic():
            self.close(BillingPeriod.objects.get(pk=self.month(label)))

    @rule(number=st.integers(0, 3), person=people)
    def finalize(self, number: int, person: Actor) -> None:
        """Finalize a draft, with the others of its run."""
        if (draft := self.pick("draft", number)) is None:
            return
        made = self.attempt(finalize_invoice, invoice_id=draft.pk, actor=person, terms=SITE_TERMS)
        if made and draft.corrects_id and not self.is_void(draft):
            slug = draft.lines.get().project.slug
            rows = InvoiceLine.objects.filter(invoice__state="final", project__slug=slug)
            level = sum(rows.values_list("unit_seconds", flat=True))
            self.oracle.notes[self.key(slug)].append((level, int(draft.total * 100)))

    @rule(number=st.integers(0, 3))
    def discard(self, number: int) -> None:
        """Discard a draft."""
        if (draft := self.pick("draft", number)) is not None:
            self.attempt(discard_draft, invoice_id=draft.pk, actor=DORA)

    @rule(number=st.integers(0, 3), cents=st.integers(1, 120), is_final=st.booleans())
    def credit(self, *, number: int, cents: int, is_final: bool) -> None:
        """Draft a credit note of part of a line, and finalize it or not."""
        if (final := self.pick("final", number)) is None:
            return
        line = final.lines.earliest("position")
        amounts = {line.pk: Decimal(cents) / 100}
        made = self.attempt(
            draft_credit,
            invoice_id=final.pk,
            amounts=amounts,
            reason="Broken.",
            actor=DORA,
            terms=SITE_TERMS,
        )
        if made and is_final:
            self.finalize(number=self.place_of_last_run(), person=ERIC)

    @rule(number=st.integers(0, 3), is_final=st.booleans())
    def void(self, *, number: int, is_final: bool) -> None:
        """Draft a credit note in full and a replacement, and finalize both or not."""
        if (final := self.pick("final", number)) is None:
            return
        made = self.attempt(
            void_invoice, invoice_id=final.pk, reason="Address.", actor=DORA, terms=SITE_TERMS
        )
        if made and is_final:
            self.finalize(number=self.place_of_last_run(), person=ERIC)

    def place_of_last_run(self) -> int:
        """Return which draft belongs to the run that was drafted last."""
        drafts = self.rows("draft")
        return max(range(len(drafts)), key=lambda number: drafts[number].run)

    def settle(self) -> None:
        """Finalize both months in order, and compare what is owed with the oracle to the cent.

        What came late for a month is rounded together with its bill, so the sum is exact once the
        months before are closed.
        """
        for draft in Invoice.objects.filter(state="draft", run__gt=1, corrects=None):
            discard_draft(invoice_id=draft.pk, actor=DORA, at=NOVEMBER_OVER)
        for draft in Invoice.objects.filter(state="draft", run__gt=1):
            discard_draft(invoice_id=draft.pk, actor=DORA, at=NOVEMBER_OVER)
        for label in ("2026-10", "2026-11"):
            self.close(BillingPeriod.objects.get(pk=self.month(label)))
        billed = sum((row.total for row in Invoice.objects.filter(state="final")), Decimal(0))
        due = sum(
            (
                total_of(compose_lines(charge_sums(period), currency="EUR"), currency="EUR").amount
                for period in BillingPeriod.objects.exclude(state="closed")
            ),
            Decimal(0),
        )
        owed = sum(self.oracle.owed(self.key(name), n) for name, n in self.used.items())
        assert (billed + due) * 100 == owed

    def close(self, period: BillingPeriod) -> None:
        """Close a month by whatever step it needs."""
        if period.state == "closed":
            return
        if period.state != "open":
            reopen_period(period_id=period.pk, reason="Settle.", actor=DORA, at=NOVEMBER_OVER)
        if not period.charges.exists():
            close_nil_period(period_id=period.pk, actor=DORA, at=NOVEMBER_OVER)
            return
        draft = draft_invoice(period_id=period.pk, actor=DORA, at=NOVEMBER_OVER, terms=SITE_TERMS)
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=NOVEMBER_OVER, terms=SITE_TERMS)

    @invariant()
    def everything_is_verified(self) -> None:
        """Let the deferred triggers judge, and the nightly checks find nothing."""
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for check in CHECKS:
            assert check({}).differences == ()

    def attempt(self, call: Callable[..., object], **given: object) -> bool:
        """Call a service; a refusal changes no document and no month."""
        before = self.stored()
        try:
            call(**given, at=NOVEMBER_OVER)
        except DomainError:
            assert self.stored() == before
            return False
        return True

    def stored(self) -> list[object]:
        """Return what documents and months are."""
        documents = Invoice.objects.order_by("pk").values_list("pk", "state", "version", "total")
        states = BillingPeriod.objects.order_by("pk").values_list("pk", "state", "reviewed_by_id")
        return [*documents, *states]

    def pick(self, state: str, number: int) -> Invoice | None:
        """Return one of the documents in a state, or None."""
        rows = self.rows(state)
        return rows[number % len(rows)] if rows else None

    def rows(self, state: str) -> list[Invoice]:
        """Return the documents in a state, in the order of their runs."""
        return list(Invoice.objects.filter(state=state).order_by("period__label", "run", "kind"))

    def is_void(self, note: Invoice) -> bool:
        """Whether a credit note has a replacement in its run."""
        run = Invoice.objects.filter(period=note.period_id, run=note.run, corrects=None)
        return run.exists()

    def key(self, name: str) -> Key:
        """Return what all use of a project is added up by."""
        return Key("2026-10", name, SMALL_GROUP, Fraction(2))

    def month(self, label: str) -> UUID:
        """Return a month's key."""
        period = BillingPeriod.objects.get(organization=self.ledger.organization, label=label)
        return period.pk

    def project(self, name: str) -> Project:
        """Return a project."""
        return self.ledger.llm if name == "llm" else self.ledger.vision


def run(*, examples: int, steps: int) -> None:
    """Run the machine."""
    run_state_machine_as_test(
        MonthMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db
def test_a_few_orders_of_events_owe_what_was_used() -> None:
    run(examples=5, steps=20)


@pytest.mark.soak
@pytest.mark.django_db
def test_many_orders_of_events_owe_what_was_used() -> None:
    run(examples=40, steps=40)
