"""Waste in money: prices in force, most saving first, nothing invented where no price is."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.domain.money import Money
from billing.models import PriceBook, PriceBookAssignment
from billing.selectors.waste import SavingTotal, WasteMoney, money_of, saving_totals, with_money
from metering.models import WasteFinding
from tenants.models import Organization
from tests.support.billing.ledger import assign, make_book, make_discount_book, make_price
from tests.support.billing.wasteful import find
from tests.support.builders import AT, MONTH_START
from tests.support.metering.waste_world import WasteWorld, make_waste_world
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


def eur(amount: str) -> Money:
    return Money(Decimal(amount), "EUR")


@shared_rows
def world() -> WasteWorld:
    """A project billed 4.00 for a large unit, 3.60 for a whole H100 and 0.50 for a small one."""
    made = make_waste_world()
    book = make_book()
    assign(made.organization, book)
    make_price(book, "4.00", size="large")
    make_price(book, "3.60", size="large", price_group="H100/whole")
    make_price(book, "0.50", size="small")
    return made


def reported(at: object = AT) -> list[tuple[str, WasteMoney]]:
    rows = with_money(WasteFinding.objects.all(), at=at)  # type: ignore[arg-type]
    return [(finding.pod_name, money_of(finding)) for finding in rows]


def test_giving_back_saves_the_whole_price(world: WasteWorld) -> None:
    find(world)

    assert reported() == [("trainer-0", WasteMoney(lost=eur("7.20"), monthly=eur("2628.00")))]


def test_a_smaller_size_saves_the_difference(world: WasteWorld) -> None:
    find(
        world,
        suggested_units=1,
        suggested_size="small",
        suggested_price_group="H100/1g.10gb",
        suggested_unit_seconds=7200,
        wasted_unit_seconds=6171,
    )

    assert reported() == [("trainer-0", WasteMoney(lost=eur("6.20"), monthly=eur("2263.00")))]


def test_fewer_units_of_the_same_size_save_theirs(world: WasteWorld) -> None:
    find(
        world,
        units=4,
        held_unit_seconds=28_800,
        suggested_units=1,
        suggested_size="large",
        suggested_price_group="H100/whole",
        suggested_unit_seconds=7200,
        wasted_unit_seconds=21_600,
    )

    assert reported() == [("trainer-0", WasteMoney(lost=eur("21.60"), monthly=eur("7884.00")))]


def test_the_price_of_any_group_counts_where_there_is_none_of_its_own(world: WasteWorld) -> None:
    find(world, price_group="A100/whole")

    assert reported()[0][1].lost == eur("8.00")


def test_what_is_preemptible_counts_at_its_own_price_only(world: WasteWorld) -> None:
    find(world, price_group="H100/whole/burst")
    assert reported()[0][1] == WasteMoney(lost=None, monthly=None)

    book = PriceBook.objects.get(slug="standard")
    make_price(book, "1.00", size="large", price_group="*/burst")
    assert reported()[0][1].lost == eur("2.00")

    make_price(book, "0.50", size="large", price_group="H100/whole/burst")
    assert reported()[0][1].lost == eur("1.00")


def test_most_money_stands_first_and_no_price_last(world: WasteWorld) -> None:
    find(world, "unpriced", size="medium", price_group="H100/3g.40gb")
    find(world, "one", held_unit_seconds=3600)
    find(world, "eight", units=8, held_unit_seconds=8 * 3600)
    find(
        world,
        "nowhere-to-go",
        suggested_units=1,
        suggested_size="medium",
        suggested_price_group="H100/3g.40gb",
    )

    assert [name for name, _ in reported()] == ["eight", "one", "nowhere-to-go", "unpriced"]
    assert reported()[2][1] == WasteMoney(lost=None, monthly=None)
    assert reported()[3][1] == WasteMoney(lost=None, monthly=None)


def test_a_discount_book_saves_less(world: WasteWorld) -> None:
    standard = PriceBook.objects.get(slug="standard")
    book = make_discount_book("academic", standard)
    PriceBookAssignment.objects.update(superseded_at=AT)
    assign(Organization.objects.get(slug="acme"), book)
    find(world, price_group="A100/whole")

    assert reported()[0][1].lost == eur("6.40")


def test_only_prices_in_force_count(world: WasteWorld) -> None:
    find(world)

    assert reported(MONTH_START - timedelta(hours=1)) == [("trainer-0", WasteMoney(None, None))]


def test_another_organizations_book_gives_no_price(world: WasteWorld) -> None:
    other = make_waste_world("umbrella", world.cluster)
    find(other)

    assert reported() == [("trainer-0", WasteMoney(None, None))]


def test_totals_are_reported_by_currency(world: WasteWorld) -> None:
    find(world)
    find(world, "second")
    find(world, "unpriced", size="medium")

    assert saving_totals(WasteFinding.objects.all(), at=AT) == (
        SavingTotal("EUR", findings=2, unknown=0, lost=eur("14.40"), monthly=eur("5256.00")),
        SavingTotal("", findings=1, unknown=1, lost=None, monthly=None),
    )


def test_a_finding_whose_smaller_size_has_no_price_is_counted_and_in_no_sum(
    world: WasteWorld,
) -> None:
    find(world)
    find(world, "unpriced", suggested_units=1, suggested_size="medium")

    assert saving_totals(WasteFinding.objects.all(), at=AT) == (
        SavingTotal("EUR", findings=2, unknown=1, lost=eur("7.20"), monthly=eur("2628.00")),
    )


def test_one_statement_whatever_the_number_of_findings(world: WasteWorld) -> None:
    for number in range(20):
        find(world, f"pod-{number}")

    with CaptureQueriesContext(connection) as statements:
        assert len(reported()) == 20

    assert len(statements) == 1


UNKNOWN: dict[str, object] = {
    "rule": "low_use",
    "suggested_units": 1,
    "suggested_size": "large",
    "suggested_price_group": "H100/whole",
    "suggested_unit_seconds": 7200,
    "wasted_unit_seconds": 0,
}


def test_what_nobody_can_say_has_no_money_and_comes_after_what_saves_nothing(
    world: WasteWorld,
) -> None:
    find(world, "unknown-0", **UNKNOWN)
    find(world, "fits-0", **UNKNOWN, memory_peak_mebibytes=70_000)
    find(world, "idle-0")

    assert reported() == [
        ("idle-0", WasteMoney(lost=eur("7.20"), monthly=eur("2628.00"))),
        ("fits-0", WasteMoney(lost=eur("0.00"), monthly=eur("0.00"))),
        ("unknown-0", WasteMoney(lost=None, monthly=None)),
    ]


def test_what_nobody_can_say_is_counted_and_in_no_sum(world: WasteWorld) -> None:
    find(world, "unknown-0", **UNKNOWN)

    assert saving_totals(WasteFinding.objects.all(), at=AT) == (
        SavingTotal("EUR", findings=1, unknown=1, lost=None, monthly=None),
    )
    find(world, "idle-0")

    assert saving_totals(WasteFinding.objects.all(), at=AT) == (
        SavingTotal("EUR", findings=2, unknown=1, lost=eur("7.20"), monthly=eur("2628.00")),
    )
