"""Lines add whole unit-seconds, multiply once and round once, in one order."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.documents.invoicing import ChargeSum, compose_lines, describe, total_of
from billing.domain.money import Money, price_of


def charge(
    unit_seconds: int,
    *,
    project: str = "llm",
    size: str = "small",
    group: str = "H100/whole",
    price: str = "2.00",
) -> ChargeSum:
    return ChargeSum(
        project_id=f"id-{project}",
        project=project,
        project_name=project.upper(),
        cost_center="",
        size=size,
        price_group=group,
        unit_price=Decimal(price),
        unit_seconds=unit_seconds,
    )


def test_seconds_are_added_before_anything_is_rounded() -> None:
    lines = compose_lines([charge(8)] * 3, currency="EUR")

    assert [(line.unit_seconds, line.amount.amount) for line in lines] == [(24, Decimal("0.01"))]


def test_lines_are_ordered_by_project_size_group_and_price() -> None:
    charges = [
        charge(1, project="vision"),
        charge(1, size="large"),
        charge(1, size="medium"),
        charge(1, price="10.00"),
        charge(1, group="A100/1of4"),
        charge(1),
    ]

    lines = compose_lines(charges, currency="EUR")

    assert [line.position for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [
        (line.project, line.size, line.price_group, str(line.unit_price)) for line in lines
    ] == [
        ("llm", "small", "A100/1of4", "2"),
        ("llm", "small", "H100/whole", "2"),
        ("llm", "small", "H100/whole", "1E+1"),
        ("llm", "medium", "H100/whole", "2"),
        ("llm", "large", "H100/whole", "2"),
        ("vision", "small", "H100/whole", "2"),
    ]


def test_one_price_written_in_two_ways_makes_one_line() -> None:
    lines = compose_lines([charge(3600, price="2"), charge(3600, price="2.0000")], currency="EUR")

    assert [line.amount.amount for line in lines] == [Decimal("4.00")]


def test_what_adds_up_to_nothing_makes_a_line_of_nothing_for_its_charges() -> None:
    (line,) = compose_lines([charge(5), charge(-5)], currency="EUR")

    assert (line.unit_seconds, line.amount) == (0, Money.zero("EUR"))
    assert compose_lines([], currency="EUR") == ()
    assert total_of((), currency="EUR") == Money.zero("EUR")


@given(
    charges=st.lists(
        st.builds(
            charge,
            st.integers(1, 10**9),
            project=st.sampled_from(["llm", "vision"]),
            price=st.sampled_from(["0.01", "1.2345678901", "7"]),
        ),
        max_size=12,
    ),
    random=st.randoms(use_true_random=False),
)
def test_lines_do_not_depend_on_the_order_or_the_slicing_of_charges(
    charges: list[ChargeSum], random: st.DataObject
) -> None:
    sliced = [part for one in charges for part in halves(one)]
    random.shuffle(sliced)  # type: ignore[attr-defined]

    lines = compose_lines(charges, currency="EUR")

    assert compose_lines(sliced, currency="EUR") == lines
    assert total_of(lines, currency="EUR").amount == sum(
        (line.amount.amount for line in lines), start=Decimal("0.00")
    )
    assert sum(line.unit_seconds for line in lines) == sum(c.unit_seconds for c in charges)


def halves(one: ChargeSum) -> list[ChargeSum]:
    first = one.unit_seconds // 2
    return [
        charge(part, project=one.project, price=str(one.unit_price))
        for part in (first, one.unit_seconds - first)
    ]


@pytest.mark.parametrize(
    ("size", "group", "text"),
    [
        ("large", "H100/whole", "Large unit, H100 whole device"),
        ("small", "H100/1g.10gb", "Small unit, H100 1g.10gb"),
        ("medium", "A100/1of4", "Medium unit, A100 share 1 of 4"),
        ("small", "H100/1g.10gb/1of2", "Small unit, H100 1g.10gb share 1 of 2"),
        ("small", "L4/proof", "Small unit, L4 proof"),
        ("large", "H100/whole/burst", "Large unit, H100 whole device, preemptible"),
        ("small", "A100/1of4/burst", "Small unit, A100 share 1 of 4, preemptible"),
    ],
)
def test_a_line_says_in_words_what_it_is_for(size: str, group: str, text: str) -> None:
    assert describe(size=size, price_group=group) == text


def test_late_preemptible_usage_says_both() -> None:
    text = describe(
        size="large", price_group="H100/whole/burst", service_month="2026-10", unit_seconds=60
    )

    assert text == "Large unit, H100 whole device, preemptible, late usage of October 2026"


def late(unit_seconds: int, *, billed: int, month: str = "2026-10") -> ChargeSum:
    return replace(
        charge(unit_seconds, price="1.2345678901"),
        service_month=month,
        service_period_id=f"id-{month}",
        billed_unit_seconds=billed,
    )


def test_lines_of_earlier_months_come_after_a_projects_own_and_say_so() -> None:
    lines = compose_lines(
        [
            late(-3600, billed=7200, month="2026-09"),
            charge(3600),
            charge(3600, project="vision"),
            late(3600, billed=0),
        ],
        currency="EUR",
    )

    assert [(line.project, line.service_month, line.description) for line in lines] == [
        ("llm", "", "Small unit, H100 whole device"),
        ("llm", "2026-09", "Small unit, H100 whole device, correction of September 2026"),
        ("llm", "2026-10", "Small unit, H100 whole device, late usage of October 2026"),
        ("vision", "", "Small unit, H100 whole device"),
    ]
    assert [line.service_period_id for line in lines] == ["", "id-2026-09", "id-2026-10", ""]
    assert [line.billed_unit_seconds for line in lines] == [0, 7200, 0, 0]


@given(deltas=st.lists(st.integers(-(10**6), 10**6), max_size=20), first=st.integers(0, 10**6))
def test_lines_of_a_month_add_up_to_one_rounding_however_it_was_cut(
    deltas: list[int], first: int
) -> None:
    billed, amounts = 0, Money.zero("EUR")
    for delta in (first, *deltas):
        before = late(delta, billed=billed)
        (line,) = compose_lines([replace(before, billed_amount=amounts.amount)], currency="EUR")
        billed, amounts = billed + delta, amounts + line.amount

    price = Decimal("1.2345678901")
    assert amounts == price_of(billed, unit_price=price, currency="EUR")
