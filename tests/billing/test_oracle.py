"""Documents of random months equal an oracle in fractions, to the minor unit.

A world has a price book, perhaps a discount on it, tiers and a minimum charge, and up to four
months of use, late and moved use, repricings, credit and debit notes, and voids.
"""

import os
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Final
from uuid import UUID

import pytest
from django.db import connection, transaction

from billing.domain.pricing.minimum import MinimumRule
from billing.domain.pricing.tier_schedule import TierBasis, TierKind, TierScope, TierSpan
from billing.models import BillingPeriod, Invoice, InvoiceLine, Price
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.verification import check_charges, check_invoices, check_lines
from billing.services.closing import review_period
from billing.services.crediting import draft_credit, draft_debit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.pricing.minimums import publish_minimum
from billing.services.pricing.prices import set_price
from billing.services.pricing.tiers import publish_tiers
from billing.services.repricing import approve_repricing, reprice_period
from metering.models import MeteringWindow
from metering.selectors.corrections.ledger import ledger_of_window
from tests.support.billing.late import accrue_late, correct, draft
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    SMALL_GROUP,
    Use,
    accrue_everything,
    assign,
    make_book,
    make_discount_book,
    make_price,
    sealed_window,
)
from tests.support.billing.oracle import Charge, Document, Key, Oracle, Tiers
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import make_cluster, make_organization, make_project

pytestmark = pytest.mark.django_db
MONTHS: Final = ("2026-10", "2026-11", "2026-12", "2027-01", "2027-02", "2027-03")
GROUPS: Final = (SMALL_GROUP, "H100/whole")
DIGITS: Final = {"EUR": 2, "JPY": 0, "KWD": 3}
CORRECTIONS: Final = {"more": (0, 1), "less": (1, 0), "move": (1, 1)}
STEPS: Final = (*CORRECTIONS, "price", "credit", "credit", "debit", "void", "close", "close")
SAMPLE: Final = (*range(9), 27)
"""Seeds; some have halves in tiers, remainders to share, and credits that use fell below."""
WORLDS: Final = int(os.environ.get("ORACLE_WORLDS", "100"))
"""A world takes half a second, so that thousands are for who changes what money depends on."""
SEEDS: Final = range(100, 100 + WORLDS)
MANY: Final = [SEEDS[first : first + 50] for first in range(0, WORLDS, 50)]
"""For as many processes."""


def begin_of(label: str) -> datetime:
    return datetime.fromisoformat(f"{label}-01").replace(tzinfo=UTC)


class World:
    """One organization in the database, and the oracle beside it."""

    def __init__(self, seed: int) -> None:
        """Publish the terms."""
        self.random = random = Random(seed)  # noqa: S311 - Not for secrets.
        self.currency = random.choice(sorted(DIGITS))
        self.is_coarse = random.random() < 0.5
        self.payer = make_organization(billing_currency=self.currency)
        names = ["llm", "vision", "web"][: random.randint(2, 3)]
        self.projects = {name: make_project(self.payer, name) for name in names}
        self.cluster = make_cluster("hopper")
        self.base = make_book("list", self.currency)
        self.percent = random.choice([0, 0, 0, 15])
        self.book = self.base
        if self.percent:
            self.book = make_discount_book("academic", self.base, str(self.percent))
        assign(self.payer, self.book)
        self.prices: dict[tuple[str, str], Fraction] = {}
        for group, month in (("*", MONTHS[0]), (SMALL_GROUP, MONTHS[1])):
            price = self.some_price()
            make_price(self.base, str(price), price_group=group, begin_at=begin_of(month))
            self.prices[group, month] = Fraction(price)
        by_age = sorted(names, key=lambda name: str(self.projects[name].pk))
        self.oracle = Oracle(
            digits=DIGITS[self.currency],
            projects=by_age,
            tiers=self.publish_tiers() if random.random() < 0.7 else None,
            minimum=self.publish_minimum() if random.random() < 0.4 else 0,
        )
        self.facts: list[Charge] = []
        self.stored: list[tuple[Document, UUID]] = []
        self.closed = 0
        self.at = begin_of(MONTHS[1])

    def some_price(self) -> Decimal:
        """Return a price that is finer than the currency, or one that halves a minor unit."""
        digits = DIGITS[self.currency]
        if self.is_coarse:
            return Decimal(2 * self.random.randint(1, 400) + 1).scaleb(-digits)
        return Decimal(self.random.randint(1, 90000)).scaleb(-digits - 2)

    def some_use(self) -> int:
        """Return unit-seconds of up to an hour; half hours where amounts end in halves."""
        if self.is_coarse:
            return self.random.choice([1800, 3600])
        return self.random.randint(1, 3600)

    def publish_tiers(self) -> Tiers:
        random = self.random
        percents = random.choice([("0", "50", "25"), ("50", "33.3333", "100"), ("5", "0", "50")])
        bands = list(zip(("0", "0.5", "1.5"), percents, strict=True))
        tiers = Tiers(
            is_volume=random.random() < 0.5,
            by_money=random.random() < 0.5,
            by_project=random.random() < 0.5,
            by_year=random.random() < 0.5,
            bands=tuple((Fraction(bound), Fraction(percent)) for bound, percent in bands),
        )
        rule = make_rule(
            *bands,
            kind=TierKind.VOLUME if tiers.is_volume else TierKind.GRADUATED,
            basis=TierBasis.MONEY if tiers.by_money else TierBasis.QUANTITY,
            scope=TierScope.PROJECT if tiers.by_project else TierScope.ORGANIZATION,
            span=TierSpan.FISCAL_YEAR if tiers.by_year else TierSpan.PERIOD,
            year_begins=10 if tiers.by_year else 1,
        )
        publish_tiers(price_book=self.book, rule=rule, actor=DORA, at=begin_of(MONTHS[0]))
        return tiers

    def publish_minimum(self) -> int:
        units = self.random.randint(1, 3000)
        rule = MinimumRule(Decimal(units).scaleb(-DIGITS[self.currency]), MONTHS[0])
        publish_minimum(organization=self.payer, rule=rule, actor=DORA, at=begin_of(MONTHS[0]))
        return units

    def price_at(self, group: str, month: str) -> Fraction:
        """Return the price of the most specific key, and of it the last one begun."""
        for name in (group, "*"):
            begun = [begin for key, begin in self.prices if key == name and begin <= month]
            if begun:
                return self.prices[name, max(begun)] * (100 - self.percent) / 100
        raise LookupError(group)

    def charge(self, month: str, project: str, group: str, seconds: int) -> None:
        """Charge use at its month's price, to the first month from it that is open."""
        key = Key(month, project, group, self.price_at(group, month))
        posted = max(month, MONTHS[self.closed])
        self.oracle.charges.append(Charge(posted, key, seconds))
        self.facts.append(Charge(posted, key, seconds))

    def meter(self, month: str) -> None:
        """Seal an hour of a month with some use."""
        names = ["llm", *self.random.choices(sorted(self.projects), k=self.random.randint(0, 4))]
        uses = [(name, self.random.choice(GROUPS), self.some_use()) for name in names]
        sealed_window(
            self.cluster,
            [Use(self.projects[name], n, price_group=group) for name, group, n in uses],
            start_at=begin_of(month),
        )
        accrue_everything(at=self.at)
        sums: dict[tuple[str, str], int] = {}
        for name, group, seconds in uses:
            sums[name, group] = sums.get((name, group), 0) + seconds
        for (name, group), seconds in sums.items():
            self.charge(month, name, group, seconds)

    def correct(self, month: str, name: str, seconds: int) -> None:
        """Add a pod to the hour of a month, or take from the first pod there is."""
        if not seconds:
            return
        window, group = MeteringWindow.objects.get(start_at=begin_of(month)), SMALL_GROUP
        if seconds < 0:
            held = [
                fact
                for fact in ledger_of_window(window.pk, start_at=window.start_at).values()
                if fact.line["project_id"] == str(self.projects[name].pk) and fact.unit_seconds > 0
            ]
            if not held:
                return
            seconds, group = max(seconds, -held[0].unit_seconds), held[0].line["price_group"]
        accrue_late(correct(window, self.projects[name], seconds), at=self.at)
        self.charge(month, name, group, seconds)

    def reprice(self, group: str, begin: str) -> None:
        """Publish another price from a month on, and reprice the months that were charged."""
        price = self.some_price()
        row = Price.objects.get(
            price_book=self.base,
            price_group=group,
            valid__startswith=begin_of(begin),
            superseded_at=None,
        )
        set_price(
            price_book=self.base,
            size="small",
            price_group=group,
            unit_price=price,
            valid_from=begin_of(begin),
            replaces=row.pk,
            reason="Typed wrong.",
            is_drafted=True,
            actor=DORA,
            at=self.at,
        )
        self.prices[group, begin] = Fraction(price)
        wrong = [
            fact
            for fact in self.facts
            if fact.seconds and fact.key.price != self.price_at(fact.key.group, fact.key.service)
        ]
        for label in sorted({fact.key.service for fact in wrong}):
            period = BillingPeriod.objects.get(organization=self.payer, label=label)
            asked = reprice_period(
                period_id=period.pk, reason="x", is_four_eyes=True, actor=DORA, at=self.at
            )
            approve_repricing(repricing_id=asked.pk, is_four_eyes=True, actor=ERIC, at=self.at)
        for fact in wrong:
            posted = max(fact.key.service, MONTHS[self.closed])
            self.oracle.charges.append(Charge(posted, fact.key, -fact.seconds))
            right = self.price_at(fact.key.group, fact.key.service)
            fact.key = fact.key._replace(price=right)
            self.oracle.charges.append(Charge(posted, fact.key, fact.seconds))

    def change(self, sign: int) -> None:
        """Credit or debit part of a line of use, where something is left of it."""
        document, pk = self.random.choice(self.stored)
        invoice = Invoice.objects.get(pk=pk)
        lines = [
            (key, line)
            for line in invoice.lines.filter(kind="usage").select_related("project")
            for key in [self.key_of(invoice, line)]
        ]
        key, line = self.random.choice(lines)
        left = document.use[key][1] + document.credited.get(key, 0)
        whole = document.total + sum(document.credited.values())
        most = min(left, whole) if sign < 0 else 500
        if invoice.kind != "invoice" or most <= 0:
            return
        units = self.random.randint(1, most)
        make = draft_credit if sign < 0 else draft_debit
        amounts = {line.pk: Decimal(units).scaleb(-DIGITS[self.currency])}
        note = make(
            invoice_id=pk, amounts=amounts, reason="x", actor=DORA, at=self.at, terms=SITE_TERMS
        )
        finalize_invoice(invoice_id=note.pk, actor=ERIC, at=self.at, terms=SITE_TERMS)
        self.oracle.note(document, key, sign * units)
        if self.random.random() < 0.7:
            self.correct(key.service, key.project, sign * self.some_use())

    def key_of(self, invoice: Invoice, line: InvoiceLine) -> Key:
        month = line.service_period or invoice.period
        return Key(month.label, line.project.slug, line.price_group, Fraction(line.unit_price))

    def void(self) -> None:
        """Void a document without notes, and compare the one that replaces it."""
        document, pk = self.random.choice(self.stored)
        if document.changed or Invoice.objects.get(pk=pk).kind != "invoice":
            return
        back, anew = void_invoice(
            invoice_id=pk, reason="x", actor=DORA, at=self.at, terms=SITE_TERMS
        )
        finalize_invoice(invoice_id=anew.pk, actor=ERIC, at=self.at, terms=SITE_TERMS)
        expected = self.oracle.compose(document.month, without=document)
        assert self.units(back.total) == -document.total
        self.stored.remove((document, pk))
        self.oracle.documents.remove(document)
        self.keep(expected, anew.pk)

    def close(self, *, before: int = len(MONTHS)) -> None:
        """Close the first open month if it is one of so many, and compare its document."""
        if self.closed >= before:
            return
        label = MONTHS[self.closed]
        expected = self.oracle.compose(label)
        self.at = max(self.at, begin_of(MONTHS[self.closed + 1]))
        period = BillingPeriod.objects.get(organization=self.payer, label=label)
        draft(self.payer, label, at=self.at)
        review_period(
            period_id=period.pk,
            actor=DORA,
            at=self.at,
            acknowledgement="Checked.",
            terms=SITE_TERMS,
        )
        made = Invoice.objects.get(period=period, run=1)
        finalize_invoice(invoice_id=made.pk, actor=ERIC, at=self.at, terms=SITE_TERMS)
        self.closed += 1
        self.keep(expected, made.pk)

    def keep(self, expected: Document, pk: UUID) -> None:
        """Compare a final document with the oracle's, line by line."""
        invoice = Invoice.objects.get(pk=pk)
        use, tiers, minimum = {}, {}, {}
        for line in invoice.lines.select_related("project", "service_period"):
            key, amount = self.key_of(invoice, line), self.units(line.amount)
            if line.kind == "usage":
                use[key] = line.unit_seconds, amount
            elif line.kind == "tier":
                tiers[line.tier_span, line.tier_band, line.project.slug] = amount
            else:
                minimum[key.service, line.project.slug] = amount
        assert (use, tiers, minimum) == (expected.use, expected.tiers, expected.minimum)
        assert self.units(invoice.total) == expected.total
        self.oracle.documents.append(expected)
        self.stored.append((expected, pk))

    def units(self, amount: Decimal) -> int:
        return int(amount.scaleb(DIGITS[self.currency]))

    def run(self) -> None:
        """Do random things in each of some months, then close and compare what is left."""
        months = MONTHS[: self.random.randint(1, 4)]
        for number, month in enumerate(months):
            self.at = max(self.at, begin_of(MONTHS[number + 1]))
            self.meter(month)
            for _ in range(self.random.randint(1, 5)):
                self.step(months[: number + 1])
        while any(charge.posted >= MONTHS[self.closed] for charge in self.oracle.charges):
            self.close()
        self.compare()

    def step(self, months: tuple[str, ...]) -> None:
        """Do one thing."""
        what, month = self.random.choice(STEPS), self.random.choice(months)
        name, other = self.random.sample(sorted(self.projects), 2)
        seconds = self.some_use()
        if what == "price":
            group, begin = self.random.choice(sorted(self.prices))
            self.reprice(group, begin)
        elif what in CORRECTIONS:
            taken, added = CORRECTIONS[what]
            self.correct(month, name, -seconds * taken)
            self.correct(month, other, seconds * added)
        elif what == "close":
            self.close(before=len(months))
        elif self.stored and what == "void":
            self.void()
        elif self.stored:
            self.change(-1 if what == "credit" else 1)

    def compare(self) -> None:
        """Compare sums of all documents with the whole use, whatever the order was."""
        oracle = self.oracle
        seconds: dict[Key, int] = {}
        for charge in oracle.charges:
            seconds[charge.key] = seconds.get(charge.key, 0) + charge.seconds
        for month in MONTHS:
            keys = {key: n for key, n in seconds.items() if key.service == month}
            lines = InvoiceLine.objects.filter(invoice__state="final", kind="usage")
            billed = [
                self.units(line.amount)
                for line in lines.select_related("service_period", "invoice__period")
                if (line.service_period or line.invoice.period).label == month
            ]
            assert sum(billed) == sum(oracle.owed(key, n) for key, n in keys.items())
        if oracle.tiers:
            for span in {oracle.span_of(key.service) for key in seconds}:
                whole = {
                    key: n for key, n in seconds.items() if oracle.span_of(key.service) == span
                }
                rows = InvoiceLine.objects.filter(kind="tier", tier_span=span)
                billed = [self.units(line.amount) for line in rows]
                assert sum(billed) == -sum(oracle.discounts(whole).values())
        for check in (check_charges, check_invoices, check_lines, check_journal):
            assert check({}).differences == ()
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def run(seed: int) -> None:
    with transaction.atomic():
        World(seed).run()
        transaction.set_rollback(True)


@pytest.mark.parametrize("seed", SAMPLE)
def test_documents_equal_the_oracle(seed: int) -> None:
    run(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seeds", MANY, ids=lambda seeds: f"from {seeds.start}")
def test_many_worlds_equal_the_oracle(seeds: range) -> None:
    for seed in seeds:
        run(seed)
