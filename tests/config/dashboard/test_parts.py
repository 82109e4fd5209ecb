"""The dashboard's parts, from facts alone."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from billing.domain.money import cost_of
from billing.selectors.costs import OrganizationCost
from config.dashboard import parts
from metering.selectors.collection.usage import CapacityTotal

CLUSTER = UUID(int=2)
FEBRUARY = datetime(2028, 2, 1, tzinfo=UTC)
MARCH = datetime(2028, 3, 1, tzinfo=UTC)


def cost(
    amount: str, currency: str = "EUR", *, name: str = "Acme", **used: int
) -> OrganizationCost:
    key = UUID(int=sum(name.encode()))
    product = Decimal(amount) * 3600
    return OrganizationCost(
        key, name.lower(), name, used, cost_of(product, currency=currency), product
    )


def capacity(size: str, offered: int, billed: int, held: int = 0) -> CapacityTotal:
    group = "H100/whole" if size else ""
    return CapacityTotal(CLUSTER, size, group, offered, billed, held, offered - billed - held)


@pytest.mark.parametrize(
    ("unit_seconds", "text"),
    [(0, "0.0"), (3_600, "1.0"), (179, "0.0"), (181, "0.1"), (3_600 * 1_234_567, "1,234,567.0")],
)
def test_unit_hours_are_reported_to_a_tenth(unit_seconds: int, text: str) -> None:
    assert parts.unit_hours(unit_seconds) == text


def test_currencies_are_never_added() -> None:
    made = parts.cards([cost("1.10"), cost("2.20", "USD"), cost("0.05")], capacity=[])

    assert [card["value"] for card in made] == ["1.15 EUR", "2.20 USD", "none", "none offered"]


def test_a_sum_over_organizations_is_rounded_once() -> None:
    (first, *_) = parts.cards([cost("0.333"), cost("0.333"), cost("0.334")], capacity=[])

    assert first["value"] == "1.00 EUR"


def test_a_currency_keeps_its_own_digits() -> None:
    (first, *_) = parts.cards([cost("1234567", "JPY")], capacity=[])

    assert first["value"] == "1,234,567 JPY"


def test_hours_of_two_sizes_are_never_added() -> None:
    made = parts.cards(
        [
            cost("1.00", large=7_200),
            cost("1.00", "USD", large=3_600),
            cost("1.00", name="Umbrella", small=1_800),
        ],
        capacity=[
            capacity("large", 36_000, billed=18_000),
            capacity("large", 36_000, billed=0),
            capacity("medium", 0, billed=0),
            capacity("small", 7_200, billed=5_400),
            capacity("", 10**9, billed=0),
        ],
    )

    *_, charged, idle = made
    assert [(line["name"], line["value"]) for line in charged["lines"]] == [
        ("Small", "0.5 unit-hours"),
        ("Large", "3.0 unit-hours"),
    ]
    assert [(line["name"], line["value"]) for line in idle["lines"]] == [
        ("Small", "25.0 %"),
        ("Large", "75.0 %"),
    ]
    assert idle["note"] == "Of 2.0 small, 20.0 large unit-hours."
    assert (charged["value"], idle["value"]) == ("", "")


HOUR = 3_600


def charts_of(days: dict[tuple[str, str | None], dict[date, Decimal]]) -> list[dict[str, Any]]:
    names = {"1": "Acme", "2": "Umbrella"}
    return parts.cost_charts(days, names=names, begin_at=FEBRUARY, end_at=MARCH)


def test_a_chart_has_every_day_of_its_month_and_nothing_where_nothing_was_charged() -> None:
    (chart,) = charts_of(
        {
            ("EUR", "1"): {date(2028, 2, 29): 5 * HOUR * Decimal(1)},
            ("EUR", "2"): {date(2028, 2, 1): HOUR * Decimal("7.5")},
            ("EUR", None): {date(2028, 2, 2): HOUR * Decimal("0.25")},
        }
    )

    data = json.loads(chart["data"])
    assert data["labels"] == [str(day) for day in range(1, 30)]
    assert [one["label"] for one in data["datasets"]] == ["Acme", "Umbrella", "Others"]
    assert data["datasets"][0]["data"] == ["0"] * 28 + ["5.00"]
    assert data["datasets"][1]["data"] == ["7.50"] + ["0"] * 28
    assert data["datasets"][2]["data"] == ["0", "0.25"] + ["0"] * 27
    assert len({one["backgroundColor"] for one in data["datasets"]}) == 3


def test_a_chart_shows_what_its_bars_are_worth() -> None:
    (chart,) = charts_of({("EUR", "1"): {date(2028, 2, 1): Decimal(HOUR)}})

    assert chart["title"] == "Cost a day by organization, EUR"
    assert json.loads(chart["options"])["scales"]["y"]["ticks"]["display"] is True


def test_each_currency_has_a_chart() -> None:
    day = {date(2028, 2, 1): Decimal(HOUR)}

    charts = charts_of({("USD", "1"): day, ("EUR", "1"): day})

    assert [chart["title"][-3:] for chart in charts] == ["EUR", "USD"]


def test_a_chart_names_the_largest_and_two_of_one_name_by_their_slugs() -> None:
    costs = [cost("9.00", name=f"Tenant {number}") for number in range(10)]
    same = replace(costs[1], organization_id=UUID(int=7), organization_name="Tenant 0")

    names = parts.largest_organizations([costs[0], same, *costs[2:], cost("1.00", "USD")])

    assert len(names) == 9
    assert list(names.values())[:2] == ["Tenant 0", "Tenant 0 (tenant 1)"]
    assert list(names.values())[-1] == "Acme"


def test_an_organization_that_changed_its_currency_is_distinguished() -> None:
    table = parts.organization_table(
        [cost("1.00", large=7_200), cost("2.00", "USD", large=36_000)], invoices=[]
    )

    assert [[row[3]["text"], row[4]["text"]] for row in table["rows"]] == [
        ["2.0", "1.00 EUR"],
        ["10.0", "2.00 USD"],
    ]


def test_the_table_has_the_organizations_with_the_largest_costs() -> None:
    costs = [cost("9.00", name=f"Tenant {number}") for number in range(300)]

    rows = parts.organization_table(costs, invoices=[])["rows"]

    assert [row[0]["text"] for row in rows] == [f"Tenant {number}" for number in range(20)]


def test_more_held_than_offered_is_reported_as_negative_idle() -> None:
    (bar,) = parts.capacity_bars(
        [capacity("large", 1_000, billed=1_100)], names={CLUSTER: "Hopper"}
    )

    assert [part["percent"] for part in bar["parts"]] == ["110.0", "0.0", "-10.0"]


def test_what_offered_nothing_has_no_bar() -> None:
    assert parts.capacity_bars([capacity("large", 0, billed=0)], names={CLUSTER: "H"}) == []


def test_every_colour_is_in_the_stylesheet_that_is_served() -> None:
    from django.contrib.staticfiles import finders  # noqa: PLC0415 - Needs the apps.

    found = finders.find("unfold/css/styles.css")
    assert found is not None
    with open(found, encoding="utf-8") as file:  # noqa: PTH123 - A path of the finder.
        styles = file.read()

    classes = " ".join(parts.PART_COLORS.values()).split()
    assert [one for one in classes if f".{one.replace(':', chr(92) + ':')}" not in styles] == []
