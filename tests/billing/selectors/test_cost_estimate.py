"""What quota would cost, from prices in force and the use of the last 30 days."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.selectors.pricing.cost_estimate import PriceBookEstimator
from billing.services.accrual import accrue_windows
from metering.domain.catalogue.units import GPUSize
from quotas.adapters.cost_unknown import NoCostEstimator
from quotas.protocols.costs import CostEstimate, CostEstimator, sum_of
from tests.support.billing.ledger import (
    HOUR,
    TICK,
    Ledger,
    Use,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_organization
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
TODAY = MONTH_START + timedelta(days=10)


@shared_rows
def ledger() -> Ledger:
    return make_ledger()


def estimate(ledger: Ledger, by: CostEstimator | None = None, **fields: Any) -> CostEstimate:  # noqa: ANN401 - As the protocol.
    given: dict[str, Any] = {
        "organization_id": ledger.organization.pk,
        "project_id": ledger.llm.pk,
        "size": GPUSize.SMALL,
        "model_group": "",
        "units": 4,
        "is_burst": False,
        "at": TODAY,
    }
    return (by or PriceBookEstimator()).estimate(**{**given, **fields})


def use(ledger: Ledger, *uses: Use, start_at: datetime = MONTH_START) -> None:
    window = sealed_window(ledger.cluster, uses, start_at=start_at)
    accrue_windows(window_ids=[window.pk], actor=TICK, at=AT)


def test_full_use_is_every_unit_for_all_hours_of_a_month(ledger: Ledger) -> None:
    assert estimate(ledger) == CostEstimate(
        currency="EUR",
        at_full_use=Decimal("5840.00"),
        at_last_use=Decimal("0.00"),
        price_group="*",
        note="The project used no nominal units of small in the last 30 days.",
    )


def test_the_dearest_price_that_may_serve_counts(ledger: Ledger) -> None:
    make_price(ledger.book, "3.00", price_group="H100/1g.10gb")
    make_price(ledger.book, "1.00", price_group="A100/1g.5gb")
    make_price(ledger.book, "9.00", size="large", price_group="H100/whole")

    anything, hopper = estimate(ledger), estimate(ledger, model_group="H100")
    ampere = estimate(ledger, model_group="A100")

    assert (anything.price_group, anything.at_full_use) == ("H100/1g.10gb", Decimal("8760.00"))
    assert (hopper.price_group, hopper.at_full_use) == ("H100/1g.10gb", Decimal("8760.00"))
    assert (ampere.price_group, ampere.at_full_use) == ("*", Decimal("5840.00"))


def test_a_model_is_not_taken_for_one_whose_name_begins_the_same(ledger: Ledger) -> None:
    make_price(ledger.book, "7.00", price_group="H100NVL/1g.12gb")

    assert estimate(ledger, model_group="H100").price_group == "*"


def test_only_prices_in_force_count(ledger: Ledger) -> None:
    make_price(ledger.book, "9.00", price_group="H100/1g.10gb", end_at=TODAY)
    make_price(ledger.book, "8.00", price_group="A100/1g.5gb", begin_at=TODAY + HOUR)

    assert estimate(ledger).price_group == "*"
    assert estimate(ledger, at=TODAY - HOUR).price_group == "H100/1g.10gb"


def test_burst_units_have_prices_of_their_own(ledger: Ledger) -> None:
    unknown = estimate(ledger, is_burst=True)
    make_price(ledger.book, "0.50", price_group="*/burst")

    assert (unknown.at_full_use, unknown.currency) == (None, "EUR")
    assert unknown.note == "The price book has no burst price for small today."
    assert estimate(ledger, is_burst=True).at_full_use == Decimal("1460.00")
    assert estimate(ledger, is_burst=True, model_group="H100").price_group == "*/burst"
    assert estimate(ledger).price_group == "*"


def test_what_has_no_price_is_unknown_and_never_free(ledger: Ledger) -> None:
    large = estimate(ledger, size=GPUSize.LARGE, model_group="H100")
    none = estimate(ledger, organization_id=make_organization("lone").pk)

    assert large == CostEstimate(
        "EUR", None, None, note="The price book has no price for large of H100 today."
    )
    assert none == CostEstimate("", None, None, note="The organization has no price book today.")


def test_no_units_cost_nothing_because_a_price_is_known(ledger: Ledger) -> None:
    assert estimate(ledger, units=0).at_full_use == Decimal("0.00")


def test_last_use_is_what_the_project_used_in_thirty_days(ledger: Ledger) -> None:
    # 72 unit-hours in 30 days are 73 in a month of 730 hours.
    use(
        ledger,
        Use(ledger.llm, unit_seconds=36 * 3600, units=36),
        Use(ledger.vision, unit_seconds=999),
    )
    use(ledger, Use(ledger.llm, unit_seconds=36 * 3600, units=36), start_at=MONTH_START + HOUR)

    now = estimate(ledger)
    later = estimate(ledger, at=MONTH_START + timedelta(days=30, hours=1))

    assert (now.at_last_use, now.note) == (Decimal("146.00"), "")
    assert later.at_last_use == Decimal("73.00")


def test_last_use_is_never_more_than_full_use(ledger: Ledger) -> None:
    use(ledger, Use(ledger.llm, unit_seconds=1_000 * 3600, units=1_000))

    reported = estimate(ledger, units=1)

    assert reported.at_last_use == reported.at_full_use == Decimal("1460.00")


def test_statements_do_not_grow_with_prices_and_use(ledger: Ledger) -> None:
    use(ledger, Use(ledger.llm))
    with CaptureQueriesContext(connection) as few:
        estimate(ledger)
    for number in range(10):
        make_price(ledger.book, price_group=f"H100/{number + 1}of16")
    for hours in range(1, 4):
        use(ledger, Use(ledger.llm), start_at=MONTH_START + hours * HOUR)
    with CaptureQueriesContext(connection) as many:
        estimate(ledger)

    assert len(few) == len(many) == 3


def test_who_knows_no_prices_says_so(ledger: Ledger) -> None:
    assert estimate(ledger, NoCostEstimator()) == CostEstimate(
        "", None, None, note="This installation knows no prices."
    )


def test_two_lots_add_up_only_where_both_are_known_in_one_currency() -> None:
    one = CostEstimate("EUR", Decimal(2), Decimal(1), "A", "x")
    other = CostEstimate("EUR", Decimal(3), None, "B", "x")

    assert sum_of(one, other) == CostEstimate("EUR", Decimal(5), None, "A and B", "x")
    assert sum_of(one, one) == CostEstimate("EUR", Decimal(4), Decimal(2), "A", "x")
    foreign = sum_of(one, CostEstimate("USD", Decimal(3), Decimal(1)))
    assert (foreign.currency, foreign.at_full_use, foreign.at_last_use) == ("", None, None)


def test_a_half_that_was_never_used_counts_as_nothing_and_is_named(ledger: Ledger) -> None:
    make_price(ledger.book, "0.50", price_group="*/burst")
    use(ledger, Use(ledger.llm, unit_seconds=72 * 3600, units=72))

    both = sum_of(estimate(ledger), estimate(ledger, is_burst=True))

    assert (both.at_full_use, both.at_last_use) == (Decimal("7300.00"), Decimal("146.00"))
    assert both.note == "The project used no burst units of small in the last 30 days."
