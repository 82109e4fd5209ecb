"""What an open request costs in a month, beside what holds without it."""

from decimal import Decimal

import pytest

from quotas.models import QuotaLimit
from quotas.protocols.costs import CostEstimate, difference_of
from quotas.services.requests.valuation import cost_today
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.asking import FixedEstimator, ask
from tests.support.quotas.builders import make_limit


def test_each_lot_is_priced_and_what_holds_without_it_is_taken_off(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5, burst_units=1)
    request = ask(cast, burst_units=4)

    reported = cost_today(request, estimator=FixedEstimator(), at=AT)

    assert [(lot.units, lot.is_burst, lot.cost.at_full_use) for lot in reported.lots] == [
        (8, False, Decimal("800.00")),
        (4, True, Decimal("400.00")),
    ]
    assert (reported.units, reported.units_before, reported.more_units) == (12, 6, 6)
    assert (reported.total.at_full_use, reported.total.at_last_use) == (Decimal(1200), Decimal(600))
    assert reported.before is not None
    assert reported.more is not None
    assert (reported.before.at_full_use, reported.more.at_full_use) == (Decimal(600), Decimal(600))


def test_burst_that_stays_as_it_is_counts_on_neither_side(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5, burst_units=3)

    reported = cost_today(ask(cast), estimator=FixedEstimator(), at=AT)

    assert (reported.units, reported.units_before, reported.more_units) == (8, 5, 3)


@pytest.mark.parametrize("burst_units", [None, 4])
def test_where_nothing_is_set_the_level_above_decides_and_nothing_is_compared(
    cast: Cast, burst_units: int | None
) -> None:
    make_limit(cast.acme, units=20)
    estimator = FixedEstimator()

    reported = cost_today(ask(cast, burst_units=burst_units), estimator=estimator, at=AT)

    assert reported.units == 8 + (burst_units or 0)
    assert (reported.units_before, reported.before) == (None, None)
    assert (reported.more_units, reported.more) == (None, None)
    assert 0 not in {asked["units"] for asked in estimator.asked}


def test_a_limit_of_nothing_is_a_number_and_everything_is_more(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=0)

    reported = cost_today(ask(cast), estimator=FixedEstimator(), at=AT)

    assert (reported.units_before, reported.more_units) == (0, 8)
    assert reported.more is not None
    assert reported.more.at_full_use == Decimal("800.00")


def test_against_an_unlimited_limit_nothing_is_compared(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=5)
    QuotaLimit.objects.filter(pk=limit.pk).update(limit_units=None)

    reported = cost_today(ask(cast), estimator=FixedEstimator(), at=AT)

    assert (reported.units, reported.units_before, reported.before, reported.more) == (
        8,
        None,
        None,
        None,
    )
    assert reported.more_units is None


def test_what_has_no_price_stays_unknown(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)

    reported = cost_today(ask(cast), estimator=FixedEstimator(None), at=AT)

    assert (reported.total.at_full_use, reported.total.note) == (None, "No price is known.")
    assert reported.more is not None
    assert reported.more.at_full_use is None


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (CostEstimate("EUR", Decimal(2), Decimal(1)), ("EUR", Decimal(3), Decimal(-1))),
        (CostEstimate("EUR", None, Decimal(1)), ("EUR", None, Decimal(-1))),
        (CostEstimate("USD", Decimal(2), Decimal(1)), ("", None, None)),
    ],
)
def test_amounts_are_taken_from_each_other_in_one_currency_only(
    other: CostEstimate, expected: tuple[str, Decimal | None, Decimal | None]
) -> None:
    reported = difference_of(CostEstimate("EUR", Decimal(5), Decimal(0)), other)

    assert (reported.currency, reported.at_full_use, reported.at_last_use) == expected
