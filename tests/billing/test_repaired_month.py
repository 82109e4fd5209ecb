"""Prices replaced, corrections, repricings and a closing in any order: the bill is exact.

The oracle is plain fractions: what is used in an hour costs the last price published for it.
"""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import count

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.domain.documents.invoicing import compose_lines, total_of
from billing.domain.errors import NothingToRepriceError
from billing.models import BillingPeriod, Charge, Invoice, Price, PriceBook, PriceBookAssignment
from billing.selectors.documents.invoices import charge_sums
from billing.selectors.verification import check_charges
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import set_price
from billing.services.repricing import approve_repricing, reprice_period
from billing.tasks import tick
from metering.models import MeteringWindow
from metering.selectors.corrections.ledger import ledger_of_window
from tests.support.billing.late import correct
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    HOUR,
    SMALL_GROUP,
    TICK,
    Ledger,
    Use,
    make_discount_book,
    make_ledger,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START

Step = tuple[str, int, int]
"""What is done, in which hour, and a number: unit-seconds, or a price in tenths of a cent."""
used = st.lists(st.integers(1, 3600), min_size=BOUND_HOURS, max_size=BOUND_HOURS)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["any price", "exact price", "more", "less", "reprice", "tick", "close", "discount"]
        ),
        st.integers(0, BOUND_HOURS - 1),
        st.integers(1, 900),
    ),
    max_size=9,
)


class Oracle:
    """Unit-seconds and published prices by hour, of one project, size and group."""

    def __init__(self, seconds: list[int]) -> None:
        """Begin with what was metered, at 2.00."""
        self.seconds = list(seconds)
        self.prices: dict[str, dict[int, Fraction]] = {"*": {0: Fraction(2)}, SMALL_GROUP: {}}
        self.factor = Fraction(1)

    def price_at(self, hour: int) -> Fraction:
        """Return the price of an hour: the exact one where there is one."""
        for group in (SMALL_GROUP, "*"):
            begins = [begin for begin in self.prices[group] if begin <= hour]
            if begins:
                return self.prices[group][max(begins)] * self.factor
        raise LookupError(hour)

    def quantities(self) -> dict[Fraction, int]:
        """Return unit-seconds by price."""
        sums: Counter[Fraction] = Counter()
        for hour, seconds in enumerate(self.seconds):
            sums[self.price_at(hour)] += seconds
        return {price: total for price, total in sums.items() if total}

    def total(self) -> Fraction:
        """Return the bill: each price's sum rounded once to cents, half up."""
        exact = (price * total / 3600 for price, total in self.quantities().items())
        return sum((Fraction((amount * 200 + 1) // 2, 100) for amount in exact), Fraction())


def run(seconds: list[int], script: list[Step]) -> None:
    """Do the steps, reprice what is left wrong, and compare the ledger with the oracle."""
    ledger, oracle = make_ledger(bound_hours=BOUND_HOURS), Oracle(seconds)
    windows = [
        sealed_window(ledger.cluster, [Use(ledger.llm, use)], start_at=MONTH_START + hour * HOUR)
        for hour, use in enumerate(seconds)
    ]
    tick(at=AT, actor=TICK)
    numbers = count()
    for what, hour, number in script:
        if what in {"any price", "exact price"}:
            publish(ledger, oracle, "*" if what == "any price" else SMALL_GROUP, hour, number)
        elif what in {"more", "less"}:
            add(ledger, oracle, windows[hour], hour, number if what == "more" else -number)
        elif what == "reprice":
            reprice(ledger)
        elif what == "discount":
            discount(ledger, oracle, number)
        elif what == "close" and next(numbers) == 0:
            close(ledger)
        else:
            tick(at=AT, actor=TICK)
    tick(at=AT, actor=TICK)
    reprice(ledger)

    assert charged() == oracle.quantities()
    assert billed(ledger) == oracle.total()
    assert check_charges({}).differences == ()


def publish(ledger: Ledger, oracle: Oracle, group: str, hour: int, number: int) -> None:
    """Publish a price from an hour on, in place of the one in force there."""
    begin_at, price = MONTH_START + hour * HOUR, Decimal(number) / 1000
    rows = Price.objects.filter(price_book=ledger.book, price_group=group)
    in_force = rows.filter(superseded_at__isnull=True, valid__contains=begin_at).first()
    set_price(
        price_book=ledger.book,
        size="small",
        price_group=group,
        unit_price=price,
        valid_from=begin_at,
        replaces=None if in_force is None else in_force.pk,
        reason="Typed wrong.",
        is_drafted=True,
        actor=DORA,
        at=AT,
    )
    oracle.prices[group][hour] = Fraction(price)


def discount(ledger: Ledger, oracle: Oracle, number: int) -> None:
    """Bill the whole month by a new discount on the book, of tenths of a percent."""
    base = ledger.book
    book = make_discount_book(f"discount-{PriceBook.objects.count()}", base, f"{number}e-1")
    was = PriceBookAssignment.objects.get(
        organization=ledger.organization, superseded_at__isnull=True
    )
    assign_price_book(
        organization=ledger.organization,
        price_book=book,
        valid_from=MONTH_START,
        replaces=was.pk,
        reason="Academic.",
        actor=DORA,
        at=AT,
    )
    oracle.factor = 1 - Fraction(number, 1000)


def add(ledger: Ledger, oracle: Oracle, window: MeteringWindow, hour: int, delta: int) -> None:
    """Correct an hour by unit-seconds: add a pod, or take from pods, never below nothing."""
    deltas = [delta]
    if delta < 0:
        facts = ledger_of_window(window.pk, start_at=window.start_at).values()
        left, deltas = -delta, []
        for used_by_pod in (fact.unit_seconds for fact in facts if fact.unit_seconds > 0):
            deltas.append(-min(left, used_by_pod))
            left += deltas[-1]
            if not left:
                break
    if deltas:
        correct(window, ledger.llm, *deltas)
        oracle.seconds[hour] += sum(deltas)


def reprice(ledger: Ledger) -> None:
    """Reprice the month, if anything in it is charged wrongly."""
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    try:
        asked = reprice_period(
            period_id=period.pk, reason="Wrong.", is_four_eyes=True, actor=DORA, at=AT
        )
    except NothingToRepriceError:
        return
    approve_repricing(repricing_id=asked.pk, is_four_eyes=True, actor=ERIC, at=AT)


def close(ledger: Ledger) -> None:
    """Finalize the month's invoice."""
    tick(at=AT, actor=TICK)
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def charged() -> dict[Fraction, int]:
    """Return unit-seconds by price, without what was reversed."""
    sums: Counter[Fraction] = Counter()
    for charge in Charge.objects.all():
        sums[Fraction(charge.unit_price)] += charge.unit_seconds
    return {price: total for price, total in sums.items() if total}


def billed(ledger: Ledger) -> Fraction:
    """Return what is invoiced and what the open months would be invoiced at."""
    final = sum((i.total for i in Invoice.objects.filter(state="final")), Decimal())
    due = (
        total_of(compose_lines(charge_sums(period), currency="EUR"), currency="EUR").amount
        for period in BillingPeriod.objects.filter(organization=ledger.organization, state="open")
    )
    return Fraction(final) + sum(map(Fraction, due), Fraction())


@pytest.mark.django_db
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seconds=used, script=steps)
def test_a_repaired_month_costs_what_was_used_at_the_prices_published_last(
    seconds: list[int], script: list[Step]
) -> None:
    with transaction.atomic():
        run(seconds, script)
        transaction.set_rollback(True)


@pytest.mark.soak
@pytest.mark.django_db
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seconds=used, script=steps)
def test_many_repaired_months_cost_what_was_used(seconds: list[int], script: list[Step]) -> None:
    with transaction.atomic():
        run(seconds, script)
        transaction.set_rollback(True)
