"""Tiers: bands filled pro rata, equal to a computation in fractions by other means."""

import random
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.documents.tiers import TierFacts, TierUse, discounts_of, tier_amounts
from billing.domain.errors import TierInvalidError
from billing.domain.pricing.tier_schedule import (
    TierBand,
    TierBasis,
    TierKind,
    TierRule,
    TierScope,
    TierSpan,
    overlaps,
    require_rule,
)

HOUR = 3600
GRADUATED: Any = {
    "name": "Volume discount",
    "basis": TierBasis.QUANTITY,
    "kind": TierKind.GRADUATED,
    "scope": TierScope.ORGANIZATION,
    "span": TierSpan.PERIOD,
    "first_month": "2026-10",
    "last_month": "2027-09",
    "bands": ((0, 0), (100, 10), (200, 25)),
}


def rule(**changes: Any) -> TierRule:  # noqa: ANN401 - Any attribute of a rule.
    fields = {**GRADUATED, **changes}
    bands = tuple(TierBand(Decimal(above), Decimal(off)) for above, off in fields.pop("bands"))
    return TierRule(bands=bands, id="s", **fields)


def use(project: str, hours: int, price: str = "2.00", **other: Any) -> TierUse:  # noqa: ANN401
    fields = {"size": "small", "price_group": "H100/whole", "month": "2026-10", **other}
    return TierUse(
        project_id=project, unit_price=Decimal(price), unit_seconds=hours * HOUR, **fields
    )


def sums_by(tiers: TierRule, uses: Iterable[TierUse], currency: str = "EUR") -> dict[Any, str]:
    found = discounts_of(tiers, uses, currency=currency)
    return {key: str(one.amount.amount) for key, one in found.items()}


def test_graduated_bands_are_filled_pro_rata_over_prices_and_projects() -> None:
    # 300 h cost 900.00: 100 h of them in each band, so 300.00 at 10 % and 300.00 at 25 %.
    uses = [use("a", 200), use("b", 100, "5.00")]

    assert sums_by(rule(), uses) == {
        ("a", 2): "13.33",  # 4/9 of 30.00
        ("b", 2): "16.67",
        ("a", 3): "33.33",  # 4/9 of 75.00
        ("b", 3): "41.67",
    }


def test_a_volume_tier_applies_the_reached_band_to_everything() -> None:
    tiers = rule(kind=TierKind.VOLUME)

    assert sums_by(tiers, [use("a", 100)]) == {}
    assert sums_by(tiers, [use("a", 101)]) == {("a", 2): "20.20"}
    assert sums_by(tiers, [use("a", 201)]) == {("a", 3): "100.50"}


def test_bounds_of_money_count_list_money() -> None:
    assert sums_by(rule(basis=TierBasis.MONEY), [use("a", 75)]) == {("a", 2): "5.00"}


def test_projects_are_counted_apart_where_the_scope_is_the_project() -> None:
    uses = [use("a", 150), use("b", 100)]

    assert sums_by(rule(scope=TierScope.PROJECT), uses) == {("a", 2): "10.00"}


@pytest.mark.parametrize(("currency", "off"), [("JPY", "21"), ("KWD", "20.500"), ("EUR", "20.50")])
def test_a_band_is_rounded_once_half_up_to_the_currency(currency: str, off: str) -> None:
    tiers = rule(bands=((0, 10),))

    assert sums_by(tiers, [use("a", 41, "2.5"), use("a", 41, "2.5")], currency) == {("a", 1): off}


def test_only_sizes_and_groups_in_scope_are_covered() -> None:
    tiers = rule(sizes=("large",), price_groups=("H100/*",))

    assert tiers.covers("large", "H100/whole")
    assert not tiers.covers("small", "H100/whole")
    assert not tiers.covers("large", "A100/whole")
    assert not tiers.covers("large", "H100/whole/burst")
    assert overlaps(tiers, rule(price_groups=("H100/whole",)))
    assert not overlaps(tiers, rule(sizes=("small",)))
    assert not overlaps(tiers, rule(price_groups=("A100/*",)))
    assert not overlaps(tiers, rule(first_month="2027-10", last_month="2028-09"))


def test_a_fiscal_year_begins_in_its_month() -> None:
    tiers = rule(span=TierSpan.FISCAL_YEAR, year_begins=4)

    assert [tiers.span_of(m) for m in ("2026-10", "2027-03", "2027-04")] == [
        "2026-04",
        "2026-04",
        "2027-04",
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"bands": ()}, "bands"),
        ({"bands": ((1, 5),)}, "bands"),
        ({"bands": ((0, 5), (100, 10), (100, 20))}, "bands"),
        ({"bands": ((0, 5), (100, 10), (50, 20))}, "bands"),
        ({"bands": ((0, "100.01"),)}, "bands"),
        ({"bands": ((0, -1),)}, "bands"),
        ({"bands": (("-1", 5),)}, "bands"),
        ({"bands": ((0, 5), ("NaN", 6))}, "bands"),
        ({"bands": ((0, 5), ("Infinity", 6))}, "bands"),
        ({"bands": tuple((n, 1) for n in range(21))}, "bands"),
        ({"name": " "}, "name"),
        ({"last_month": "2026-09"}, "last_month"),
        ({"year_begins": 4}, "year_begins"),
        ({"span": TierSpan.FISCAL_YEAR, "year_begins": 13}, "year_begins"),
        ({"sizes": ("huge",)}, "sizes"),
        ({"price_groups": ("no group",)}, "price_groups"),
    ],
)
def test_a_schedule_that_cannot_be_computed_is_refused(change: Any, field: str) -> None:  # noqa: ANN401
    with pytest.raises(TierInvalidError) as refused:
        require_rule(rule(**change))

    assert (refused.value.code, refused.value.field) == ("tier_schedule_invalid", field)


# ------------------------------------------------------------------ against an oracle
def oracle(tiers: TierRule, uses: list[TierUse]) -> int:
    """Return the discount in cents: what lies in each band, at the mean list price."""
    by_scope: dict[str, list[TierUse]] = {}
    for one in uses:
        key = one.project_id if tiers.scope is TierScope.PROJECT else ""
        by_scope.setdefault(key, []).append(one)
    cents = 0
    for part in by_scope.values():
        seconds = sum(one.unit_seconds for one in part)
        money = sum(Fraction(one.unit_price) * one.unit_seconds / HOUR for one in part)
        whole = money if tiers.basis is TierBasis.MONEY else Fraction(seconds, HOUR)
        if whole <= 0 or money <= 0:
            continue
        bounds = [Fraction(band.above) for band in tiers.bands]
        for index, band in enumerate(tiers.bands):
            upper = bounds[index + 1] if index + 1 < len(bounds) else None
            if tiers.kind is TierKind.VOLUME:
                is_reached = whole > bounds[index] and (upper is None or whole <= upper)
                inside = whole if is_reached else Fraction(0)
            else:
                inside = max(
                    Fraction(0), min(whole, whole if upper is None else upper) - bounds[index]
                )
            off = money * inside * Fraction(band.discount_percent) / (100 * whole) * 100
            cents += int(off + Fraction(1, 2))
    return cents


PRICES = st.decimals(min_value=0, max_value=20, places=3)
MONTHS = ("2026-10", "2026-11", "2026-12", "2027-01")
USES = st.lists(
    st.builds(
        TierUse,
        project_id=st.sampled_from("abc"),
        size=st.just("small"),
        price_group=st.just("H100/whole"),
        unit_price=PRICES,
        month=st.sampled_from(MONTHS),
        unit_seconds=st.integers(min_value=0, max_value=400 * HOUR),
    ),
    max_size=12,
)
RULES = st.builds(
    lambda steps, offs, **fields: rule(
        bands=[
            (bound, off)
            for bound, off in zip(
                (0, *(sum(steps[: n + 1]) for n in range(len(steps)))), offs, strict=False
            )
        ],
        **fields,
    ),
    st.lists(st.integers(min_value=1, max_value=500), max_size=3),
    st.lists(st.integers(min_value=0, max_value=100), min_size=4, max_size=4),
    basis=st.sampled_from(TierBasis),
    kind=st.sampled_from(TierKind),
    scope=st.sampled_from(TierScope),
    span=st.just(TierSpan.FISCAL_YEAR),
)


@given(RULES, USES, st.randoms(use_true_random=False))
def test_the_sum_equals_the_oracle_in_any_order_and_any_split(
    tiers: TierRule, uses: list[TierUse], chance: random.Random
) -> None:
    found = discounts_of(tiers, uses, currency="EUR")
    parts = []
    for one in uses:
        cut = chance.randint(0, one.unit_seconds)
        parts += [(one, cut), (one, one.unit_seconds - cut)]
    chance.shuffle(parts)
    shuffled = [
        TierUse(u.project_id, u.size, u.price_group, u.unit_price, chance.choice(MONTHS), seconds)
        for u, seconds in parts
    ]

    assert sum(one.amount.minor_units for one in found.values()) == oracle(tiers, uses)
    again = discounts_of(tiers, shuffled, currency="EUR")
    assert {k: v.amount for k, v in again.items()} == {k: v.amount for k, v in found.items()}


@given(RULES, USES, st.permutations(MONTHS), st.lists(st.sampled_from(MONTHS), max_size=12))
def test_documents_in_any_order_add_up_to_one_computation_on_all_use(
    tiers: TierRule, uses: list[TierUse], order: list[str], posted: list[str]
) -> None:
    # Use is on the document of its own month, or of the month it was posted to.
    documents: dict[str, list[TierUse]] = {month: [] for month in order}
    for number, one in enumerate(uses):
        documents[posted[number] if number < len(posted) else one.month].append(one)
    facts = TierFacts(
        rules=(tiers,),
        applies={("s", month) for month in MONTHS},
        use=(),
        billed={},
        own_use=(),
        own={},
        projects={},
    )
    for month in order:
        shares = tier_amounts(facts, documents[month], month=month, currency="EUR")
        billed = dict(facts.billed)
        for key, share in shares.items():
            billed[key] = billed.get(key, Decimal(0)) + share.amount.amount
        facts = TierFacts(
            rules=facts.rules,
            applies=facts.applies,
            use=(*facts.use, *documents[month]),
            billed=billed,
            own_use=(),
            own={},
            projects={},
        )

    total = sum(
        oracle(tiers, [one for one in uses if tiers.span_of(one.month) == span])
        for span in {tiers.span_of(month) for month in MONTHS}
    )
    assert -sum(facts.billed.values()) * 100 == total


@given(RULES, USES, st.integers(min_value=1, max_value=9))
def test_the_number_of_projects_changes_no_sum_of_an_organization(
    tiers: TierRule, uses: list[TierUse], projects: int
) -> None:
    if tiers.scope is TierScope.PROJECT:
        return
    spread = [
        TierUse(str(n % projects), u.size, u.price_group, u.unit_price, u.month, u.unit_seconds)
        for n, u in enumerate(uses)
    ]

    one, many = (discounts_of(tiers, part, currency="EUR") for part in (uses, spread))

    assert sum(d.amount.minor_units for d in one.values()) == sum(
        d.amount.minor_units for d in many.values()
    )
