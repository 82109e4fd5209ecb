"""The exact group's price goes before that of any group, and faults between prices are found."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.errors import PriceInvalidError, PriceKeyInvalidError
from billing.domain.pricing.price_book import (
    PriceFault,
    PriceSpan,
    find_price,
    find_problems,
    groups_for,
    key_id,
    require_key,
    require_unit_price,
)

START = datetime(2026, 10, 1, tzinfo=UTC)


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def span(
    begin: int,
    end: int | None,
    *,
    group: str = "*",
    size: str = "small",
    name: str = "",
    cluster: str | None = None,
) -> PriceSpan:
    return PriceSpan(
        id=name or f"{size} {group} {begin}",
        cluster=cluster,
        book="standard",
        size=size,
        price_group=group,
        unit_price=Decimal(1),
        begin_at=at(begin),
        end_at=None if end is None else at(end),
    )


def find(prices: list[PriceSpan], hour: int, group: str = "H100/whole") -> str | None:
    found = find_price(prices, book="standard", size="small", price_group=group, at=at(hour))
    return found.id if found else None


def test_the_price_of_the_exact_group_goes_first() -> None:
    prices = [span(0, None), span(5, None, group="H100/whole")]

    assert find(prices, 4) == "small * 0"
    assert find(prices, 5) == "small H100/whole 5"
    assert find(prices, 5, group="A100/1of4") == "small * 0"


def test_the_price_of_a_model_goes_between_that_of_the_share_and_that_of_any() -> None:
    prices = [span(0, None), span(1, None, group="H100/*"), span(2, None, group="H100/whole")]

    assert [find(prices, hour) for hour in (0, 1, 2)] == [
        "small * 0",
        "small H100/* 1",
        "small H100/whole 2",
    ]
    assert find(prices, 2, group="H100/1g.10gb") == "small H100/* 1"
    assert find(prices, 2, group="H1/whole") == "small * 0"
    assert find(prices, 2, group="H100/whole/burst") is None


def test_of_one_group_the_price_of_the_cluster_goes_first() -> None:
    prices = [
        span(0, None, group="H100/*"),
        span(0, None, group="H100/*", cluster="oslo", name="H100/* in Oslo"),
        span(0, None, cluster="oslo", name="* in Oslo"),
        span(3, None, group="H100/whole"),
    ]

    def find_at(hour: int, group: str, cluster: str | None) -> str | None:
        found = find_price(
            prices, book="standard", size="small", price_group=group, cluster=cluster, at=at(hour)
        )
        return found.id if found else None

    assert find_at(1, "H100/whole", "oslo") == "H100/* in Oslo"
    assert find_at(3, "H100/whole", "oslo") == "small H100/whole 3"
    assert find_at(3, "A100/whole", "oslo") == "* in Oslo"
    assert find_at(3, "H100/1g.10gb", "bergen") == "small H100/* 0"
    assert find_at(3, "H100/1g.10gb", None) == "small H100/* 0"
    assert find_at(3, "A100/whole", "bergen") is None
    assert find_problems(prices) == ()


@given(share=st.sampled_from(["A/b", "A/b/burst", "A/b/1of2", "B/c/burst"]))
def test_no_two_groups_that_apply_are_equally_specific(share: str) -> None:
    groups = groups_for(share)

    assert len(set(groups)) == len(groups) == 3
    assert [groups_for(group) for group in groups] == [groups[n:] for n in range(3)]


def test_each_key_has_an_id_that_stays() -> None:
    book = UUID(int=1)
    keys = [(size, group) for size in ("small", "large") for group in ("*", "H100/*", "A/b")]

    found = {key_id(price_book_id=book, size=size, price_group=group) for size, group in keys}

    assert len(found) == 6
    fixed = key_id(price_book_id=book, size="small", price_group="*")
    assert fixed == UUID("9bb7989c-b3a5-5e7d-837a-dd386494974f")
    of_cluster = key_id(price_book_id=book, size="small", price_group="*", cluster_id=UUID(int=2))
    assert of_cluster == UUID("ec73d7d0-99e6-5390-b6b2-0771afd0e748")


def test_what_is_preemptible_has_prices_of_its_own() -> None:
    nominal = [span(0, None), span(0, None, group="H100/whole")]
    burst = [span(0, None, group="*/burst"), span(5, None, group="H100/whole/burst")]

    assert find(nominal, 4, group="H100/whole/burst") is None
    assert find([*nominal, *burst], 4, group="H100/whole/burst") == "small */burst 0"
    assert find([*nominal, *burst], 5, group="H100/whole/burst") == "small H100/whole/burst 5"
    assert find([*nominal, *burst], 5, group="A100/1of4/burst") == "small */burst 0"
    assert find(burst, 5) is None


@given(groups=st.lists(st.sampled_from(["*", "*/burst", "A/b", "A/b/burst"]), unique=True))
def test_a_price_of_the_other_kind_never_applies(groups: list[str]) -> None:
    prices = [span(0, None, group=group) for group in groups]

    found = {group: find(prices, 1, group=group) for group in ("A/b", "A/b/burst")}

    for group, price in found.items():
        assert price is None or price.endswith("/burst 0") == group.endswith("/burst")
    assert (found["A/b/burst"] is None) == set(groups).isdisjoint({"*/burst", "A/b/burst"})


def test_a_price_holds_from_its_first_hour_to_the_one_before_the_next() -> None:
    prices = [span(0, 5), span(5, 9)]

    assert [find(prices, hour) for hour in (-1, 0, 4, 5, 8, 9)] == [
        None,
        "small * 0",
        "small * 0",
        "small * 5",
        "small * 5",
        None,
    ]


def test_other_sizes_and_books_do_not_matter() -> None:
    prices = [span(0, None, size="large")]

    assert find(prices, 1) is None
    assert find_price(prices, book="other", size="large", price_group="*", at=at(1)) is None


def test_gaps_and_overlaps_are_reported_by_key_and_time() -> None:
    prices = [span(7, None), span(0, 5), span(3, 6, group="A/b"), span(0, 4, group="A/b")]

    assert [(p.fault, p.earlier.id, p.later.id) for p in find_problems(prices)] == [
        (PriceFault.GAP, "small * 0", "small * 7"),
        (PriceFault.OVERLAP, "small A/b 0", "small A/b 3"),
    ]


def test_an_open_price_before_another_is_an_overlap() -> None:
    assert [p.fault for p in find_problems([span(0, None), span(5, None)])] == [PriceFault.OVERLAP]


@given(lengths=st.lists(st.integers(1, 50), max_size=6), hour=st.integers(-5, 400))
def test_prices_that_follow_each_other_have_no_fault_and_one_holds_at_a_time(
    lengths: list[int], hour: int
) -> None:
    bounds = [0]
    for length in lengths:
        bounds.append(bounds[-1] + length)
    prices = [span(begin, end) for begin, end in pairwise(bounds)]
    prices.append(span(bounds[-1], None))

    assert find_problems(prices) == ()
    holding = [price.id for price in prices if price.covers(at(hour))]
    assert len(holding) == (0 if hour < 0 else 1)
    assert find(prices, hour) == (holding[0] if holding else None)


@given(price=st.decimals(min_value=0, max_value=Decimal("9999999999.9999999999"), places=10))
def test_every_price_the_ledger_can_keep_is_taken(price: Decimal) -> None:
    assert require_unit_price(price) == price


@pytest.mark.parametrize("price", ["-0.01", "NaN", "Infinity", "1E10", "0.00000000001"])
def test_a_price_the_ledger_cannot_keep_is_refused(price: str) -> None:
    with pytest.raises(PriceInvalidError) as refused:
        require_unit_price(Decimal(price))

    assert (refused.value.code, refused.value.field) == ("price_invalid", "unit_price")


@pytest.mark.parametrize(
    "group",
    [
        "*",
        "H100/*",
        "H100/*/burst",
        "H100/whole",
        "H100/1g.10gb/1of2",
        "A100/1of4",
        "*/burst",
        "H100/whole/burst",
    ],
)
def test_groups_of_devices_and_any_are_taken(group: str) -> None:
    require_key(size="large", price_group=group)


@pytest.mark.parametrize(
    ("size", "group", "field"),
    [
        ("huge", "*", "size"),
        ("small", "", "price_group"),
        ("small", "H100", "price_group"),
        ("small", "H100/", "price_group"),
        ("small", " /whole", "price_group"),
        ("small", "*/*", "price_group"),
        ("small", "H100/1g*", "price_group"),
        ("small", "H*/whole", "price_group"),
        ("small", "H100/burst", "price_group"),
        ("small", "/burst", "price_group"),
        ("small", "*/spot", "price_group"),
        ("small", "H100/\n", "price_group"),
        ("small", "H" * 96 + "/w", "price_group"),
    ],
)
def test_a_key_no_usage_can_have_is_refused(size: str, group: str, field: str) -> None:
    with pytest.raises(PriceKeyInvalidError) as refused:
        require_key(size=size, price_group=group)

    assert (refused.value.code, refused.value.field) == ("price_key_invalid", field)
