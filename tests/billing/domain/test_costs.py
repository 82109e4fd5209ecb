"""Growth, share and run rate are of exact sums; bad ranges and groupings are refused."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from billing.domain.costs import (
    CostDimension,
    CostGroupingInvalidError,
    CostQuery,
    CostRangeInvalidError,
    CostSum,
    add_sums,
    cost_row,
    pace_of,
    parse_dimensions,
)

OCTOBER = CostQuery(first=date(2026, 10, 1), end=date(2026, 11, 1))
AT = datetime(2026, 10, 11, 7, tzinfo=UTC)
HOUR_PRODUCT = Decimal(3600)
"""Costs 1.00 of any currency."""


def test_growth_and_share_are_of_sums_that_are_not_rounded() -> None:
    half_a_cent = HOUR_PRODUCT / 200
    added = CostSum("EUR", product=half_a_cent, previous=half_a_cent / 2)

    row = cost_row(added, total=half_a_cent * 3, pace=None)

    assert (str(row.cost.amount), str(row.previous_cost.amount)) == ("0.01", "0.00")
    assert (row.growth, row.share) == (Decimal("1.0000"), Decimal("0.3333"))
    assert row.run_rate is None


def test_nothing_before_has_no_growth_and_nothing_in_all_no_share() -> None:
    row = cost_row(CostSum("EUR"), total=Decimal(0), pace=None)

    assert (row.growth, row.share) == (None, None)


def test_the_run_rate_extends_the_days_metered_everywhere_to_the_whole_month() -> None:
    pace = pace_of(OCTOBER, metered_until=datetime(2026, 10, 11, 6, 30, tzinfo=UTC), at=AT)
    assert pace is not None
    # The 10th ends in the last of all zones at noon of the 11th in UTC.
    assert (pace.end, pace.elapsed_days, pace.days) == (date(2026, 10, 10), 9, 31)

    row = cost_row(CostSum("JPY", month=HOUR_PRODUCT * 9), total=Decimal(0), pace=pace)

    assert str(row.run_rate and row.run_rate.amount) == "31"


@pytest.mark.parametrize(
    ("query", "metered_until"),
    [
        (CostQuery(first=date(2026, 9, 1), end=date(2026, 10, 1)), AT),
        (CostQuery(first=date(2026, 11, 1), end=date(2026, 11, 2)), AT),
        (OCTOBER, datetime(2026, 10, 2, 11, tzinfo=UTC)),
        (OCTOBER, None),
    ],
)
def test_days_outside_the_running_month_or_its_metered_days_have_no_pace(
    query: CostQuery, metered_until: datetime | None
) -> None:
    assert pace_of(query, metered_until=metered_until, at=AT) is None


def test_totals_are_by_currency() -> None:
    one, two = CostSum("EUR", Decimal(1), Decimal(2), Decimal(3)), CostSum("CHF", Decimal(5))

    assert add_sums([one, two, one]) == {
        "CHF": two,
        "EUR": CostSum("EUR", Decimal(2), Decimal(4), Decimal(6)),
    }


@pytest.mark.parametrize(
    ("first", "end"),
    [
        (date(2026, 10, 1), date(2026, 10, 1)),
        (date(2026, 10, 1), date(2027, 10, 3)),
        (date(1999, 12, 31), date(2000, 1, 2)),
        (date(2199, 12, 1), date(2200, 1, 1)),
    ],
)
def test_a_range_that_is_empty_too_long_or_out_of_bounds_is_refused(first: date, end: date) -> None:
    with pytest.raises(CostRangeInvalidError) as refused:
        CostQuery(first=first, end=end)

    assert (refused.value.field, refused.value.facts["days_max"]) == ("to", 366)


@pytest.mark.parametrize("text", ["", "day", "size,size", "size,owner,project"])
def test_a_grouping_by_anything_else_names_what_there_is(text: str) -> None:
    with pytest.raises(CostGroupingInvalidError) as refused:
        CostQuery(first=date(2026, 10, 1), end=date(2026, 10, 2), group_by=parse_dimensions(text))

    assert refused.value.field == "group_by"
    assert refused.value.advice.endswith(
        "organization, project, owner, cost_center, size, price_group, cluster."
    )


def test_units_are_added_only_where_size_is_in_the_grouping_or_filtered() -> None:
    by_size = replace(OCTOBER, group_by=(CostDimension.SIZE,))
    of_small = replace(OCTOBER, filters={CostDimension.SIZE: "small"})

    assert [query.is_of_one_size for query in (by_size, of_small, OCTOBER)] == [True, True, False]
