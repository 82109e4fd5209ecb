"""Money is neither made nor lost between use and invoice, however the use was sliced."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import BillingPeriod, Charge, Invoice
from billing.selectors.documents.membership import unbilled_charges
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.domain.currencies import MINOR_DIGITS
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START

Slice = tuple[int, str, str, str, int]
"""Hour, project slug, owner, size, unit-seconds."""
SIZES = ("medium", "large")
CENTS_AND_LESS = st.decimals("0", "9.99", places=4, allow_nan=False, allow_infinity=False)
slices = st.lists(
    st.tuples(
        st.integers(0, BOUND_HOURS - 1),
        st.sampled_from(["llm", "vision"]),
        st.sampled_from(["", "bob", "carol"]),
        st.sampled_from(SIZES),
        st.integers(1, 3600),
    ),
    min_size=1,
    max_size=6,
)
steps = st.fixed_dictionaries(
    dict.fromkeys(SIZES, st.lists(CENTS_AND_LESS, min_size=BOUND_HOURS, max_size=BOUND_HOURS))
)
few = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def priced_ledger(prices: dict[str, list[Decimal]], currency: str = "EUR") -> Ledger:
    """Return an organization with a price for each hour and size; the last one stays."""
    ledger = make_ledger(bound_hours=BOUND_HOURS, billing_currency=currency)
    for size, by_hour in prices.items():
        for hour, price in enumerate(by_hour):
            is_last = hour == len(by_hour) - 1
            make_price(
                ledger.book,
                str(price),
                size=size,
                begin_at=MONTH_START + hour * HOUR,
                end_at=None if is_last else MONTH_START + (hour + 1) * HOUR,
            )
    return ledger


def invoiced(ledger: Ledger, used: list[Slice]) -> Invoice:
    """Seal the first hours with this use, accrue, draft and finalize."""
    projects = {"llm": ledger.llm, "vision": ledger.vision}
    for hour in range(BOUND_HOURS):
        uses = [
            Use(projects[slug], seconds, owner=owner, size=size)
            for at, slug, owner, size, seconds in used
            if at == hour
        ]
        sealed_window(ledger.cluster, uses, start_at=MONTH_START + hour * HOUR)
    accrue_everything()
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def rounded(exact: Fraction, digits: int) -> Decimal:
    """Round half up by whole numbers alone, as a person would with pencil and paper."""
    minor = exact * 10**digits
    whole = (2 * minor.numerator + minor.denominator) // (2 * minor.denominator)
    return Decimal(whole).scaleb(-digits)


def by_hand(
    used: list[Slice], prices: dict[str, list[Decimal]]
) -> Counter[tuple[str, str, Decimal]]:
    """Return unit-seconds by project, size and the price of their hour."""
    sums: Counter[tuple[str, str, Decimal]] = Counter()
    for hour, slug, _, size, seconds in used:
        sums[slug, size, prices[size][hour]] += seconds
    return sums


def lines_of(invoice: Invoice) -> dict[tuple[str, str, Decimal], tuple[int, Decimal]]:
    return {
        (line.project.slug, line.size, line.unit_price): (line.unit_seconds, line.amount)
        for line in invoice.lines.select_related("project")
    }


@pytest.mark.django_db
@pytest.mark.parametrize("currency", ["EUR", "JPY", "KWD"])
@few
@given(used=slices, prices=steps)
def test_every_line_is_its_charges_rated_once_and_the_total_is_their_sum(
    currency: str, used: list[Slice], prices: dict[str, list[Decimal]]
) -> None:
    digits = MINOR_DIGITS[currency]
    with transaction.atomic():
        invoice = invoiced(priced_ledger(prices, currency), used)

        assert lines_of(invoice) == {
            key: (seconds, rounded(Fraction(key[2]) * seconds / 3600, digits))
            for key, seconds in by_hand(used, prices).items()
        }
        assert invoice.total == sum(amount for _, amount in lines_of(invoice).values())
        assert invoice.unit_seconds == sum(seconds for *_, seconds in used)
        assert Decimal(invoice.document["total"]["amount"]) == invoice.total
        assert not unbilled_charges(Charge.objects.all()).exists()
        transaction.set_rollback(True)


@pytest.mark.django_db
@few
@given(
    used=slices,
    price=CENTS_AND_LESS,
    hours=st.lists(st.integers(0, BOUND_HOURS - 1), min_size=12, max_size=12),
    cuts=st.lists(st.integers(1, 3599), min_size=6, max_size=6),
)
def test_slicing_use_over_other_hours_and_owners_changes_no_line(
    used: list[Slice], price: Decimal, hours: list[int], cuts: list[int]
) -> None:
    prices = {size: [price] * BOUND_HOURS for size in SIZES}
    cut: list[Slice] = []
    for (_, slug, owner, size, seconds), at in zip(used, cuts, strict=False):
        parts = [seconds * at // 3600, seconds - seconds * at // 3600]
        cut += [(0, slug, owner, size, part) for part in parts if part]
    moved = [(hour, slug, "someone", size, n) for hour, (_, slug, _, size, n) in zip(hours, cut)]  # noqa: B905 - There are more hours than parts.
    reported = []
    for variant in (used, moved, list(reversed(used))):
        with transaction.atomic():
            invoice = invoiced(priced_ledger(prices), variant)
            reported.append((lines_of(invoice), invoice.total))
            transaction.set_rollback(True)

    assert reported[0] == reported[1] == reported[2]


@pytest.mark.django_db
def test_a_thousand_slices_of_a_third_of_a_cent_are_rounded_once() -> None:
    """Rounded one by one, each slice would be nothing and the invoice empty."""
    ledger = priced_ledger({"large": [Decimal("0.0036")] * BOUND_HOURS, "medium": []})

    invoice = invoiced(ledger, [(n % 3, "llm", f"u{n}", "large", 3333) for n in range(300)])

    assert invoice.lines.get().unit_seconds == 999_900
    assert invoice.total == Decimal("1.00")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("currency", "price", "seconds", "amount"),
    [
        ("JPY", "101", 1800, "51"),
        ("JPY", "0.9", 1800, "0"),
        ("JPY", "1", 1800, "1"),
        ("KWD", "0.001", 1800, "0.001"),
        ("KWD", "0.0009", 1800, "0.000"),
        ("KWD", "12.3456", 3600, "12.346"),
        ("EUR", "0.01", 1800, "0.01"),
    ],
)
def test_an_amount_has_exactly_the_minor_digits_of_its_currency(
    currency: str, price: str, seconds: int, amount: str
) -> None:
    ledger = priced_ledger({"large": [Decimal(price)], "medium": []}, currency)

    invoice = invoiced(ledger, [(0, "llm", "bob", "large", seconds)])

    (line,) = invoice.document["lines"]
    assert (line["amount"], invoice.document["total"]["amount"]) == (amount, amount)
    assert (invoice.currency, invoice.document["currency"]) == (currency, currency)
    assert invoice.total == Decimal(amount)
