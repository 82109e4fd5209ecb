"""Who decides a request, in which order, and when it moves on by itself."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.requests.routing import (
    LADDER,
    Cost,
    RequestedQuota,
    RequestLevel,
    RoutingRules,
    StepRule,
    is_automatic,
    outranks,
    raised,
    route_of,
)

LEAD, ADMIN = RequestLevel.PROJECT_LEAD, RequestLevel.ORGANIZATION_ADMIN
PLATFORM, FINANCE = RequestLevel.PLATFORM, RequestLevel.FINANCE
LARGE = GPUSize.LARGE

RULES = RoutingRules(
    steps=(
        StepRule(LEAD),
        StepRule(ADMIN, units_from={LARGE: 4}),
        StepRule(PLATFORM, units_from={LARGE: 16, GPUSize.SMALL: 100}),
        StepRule(FINANCE, cost_from=Decimal(10_000)),
    ),
    currency="EUR",
    automatic_units={LARGE: 2},
    automatic_cost=Decimal(500),
)


def requested_quota(
    units: int,
    amount: int | None = 0,
    *,
    currency: str = "EUR",
    requested_by: RequestLevel | None = None,
) -> RequestedQuota:
    cost = Cost(None if amount is None else Decimal(amount), currency)
    return RequestedQuota(size=LARGE, units=units, cost=cost, requested_by=requested_by)


@pytest.mark.parametrize(
    ("asked", "levels"),
    [
        (requested_quota(3), (LEAD,)),
        (requested_quota(4), (LEAD, ADMIN)),
        (requested_quota(16), (LEAD, ADMIN, PLATFORM)),
        (requested_quota(3, 9_999), (LEAD,)),
        (requested_quota(3, 10_000), (LEAD, FINANCE)),
        (requested_quota(16, 10_000), (LEAD, ADMIN, PLATFORM, FINANCE)),
        (requested_quota(3, None), (LEAD, FINANCE)),
        (requested_quota(3, 1, currency="USD"), (LEAD, FINANCE)),
        (requested_quota(16, requested_by=LEAD), (ADMIN, PLATFORM)),
        (requested_quota(16, requested_by=ADMIN), (PLATFORM,)),
        (requested_quota(16, requested_by=PLATFORM), (PLATFORM,)),
        (requested_quota(3, requested_by=ADMIN), (LEAD,)),
        (requested_quota(3, 10_000, requested_by=FINANCE), (LEAD, FINANCE)),
        (requested_quota(3, 10_000, requested_by=PLATFORM), (FINANCE,)),
    ],
)
def test_a_request_goes_to_those_whom_size_and_cost_name(
    asked: RequestedQuota, levels: tuple[RequestLevel, ...]
) -> None:
    assert route_of(RULES, asked) == levels


def test_without_any_rule_the_organization_decides() -> None:
    assert route_of(RoutingRules(), requested_quota(1_000_000)) == (ADMIN,)
    assert route_of(RoutingRules(steps=()), requested_quota(1)) == (ADMIN,)
    assert route_of(
        RoutingRules(steps=(StepRule(FINANCE, cost_from=Decimal(5)),)), requested_quota(1, 1)
    ) == (FINANCE,)


def test_a_level_named_twice_decides_once() -> None:
    rules = RoutingRules(steps=(StepRule(ADMIN), StepRule(ADMIN, units_from={LARGE: 1})))

    assert route_of(rules, requested_quota(8)) == (ADMIN,)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (requested_quota(2, 500), True),
        (requested_quota(0, 0), True),
        (requested_quota(3, 0), False),
        (requested_quota(2, 501), False),
        (requested_quota(2, None), False),
        (requested_quota(2, 1, currency="USD"), False),
        (RequestedQuota(size=GPUSize.SMALL, units=1, cost=Cost(Decimal(1), "EUR")), False),
    ],
)
def test_the_policy_approves_only_within_its_band(asked: RequestedQuota, *, expected: bool) -> None:
    assert is_automatic(RULES, asked) is expected


def test_where_cost_does_not_matter_an_unknown_one_is_no_hindrance() -> None:
    rules = RoutingRules(automatic_units={LARGE: 2})

    assert is_automatic(rules, requested_quota(2, None))
    assert not is_automatic(RoutingRules(), requested_quota(0, 0))


def test_who_does_not_answer_is_followed_by_the_next_above() -> None:
    assert (raised(LEAD), raised(ADMIN)) == (ADMIN, PLATFORM)
    assert raised(PLATFORM) is None
    assert raised(FINANCE) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (ADMIN, LEAD, True),
        (LEAD, ADMIN, False),
        (ADMIN, ADMIN, True),
        (FINANCE, FINANCE, True),
        (PLATFORM, FINANCE, False),
        (FINANCE, LEAD, False),
    ],
)
def test_finance_stands_beside_the_ladder(
    one: RequestLevel, other: RequestLevel, *, expected: bool
) -> None:
    assert outranks(one, other) is expected


LEVELS = st.sampled_from(RequestLevel)
AMOUNTS = st.one_of(st.none(), st.integers(0, 2_000).map(Decimal))
STEPS = st.builds(
    StepRule,
    level=LEVELS,
    units_from=st.dictionaries(st.sampled_from(GPUSize), st.integers(0, 50)),
    cost_from=AMOUNTS,
)
ALL_RULES = st.builds(
    RoutingRules,
    steps=st.lists(STEPS, max_size=6).map(tuple),
    currency=st.just("EUR"),
    automatic_units=st.dictionaries(st.sampled_from(GPUSize), st.integers(0, 50)),
    automatic_cost=AMOUNTS,
)
WISHES = st.builds(
    RequestedQuota,
    size=st.sampled_from(GPUSize),
    units=st.integers(0, 60),
    cost=st.builds(Cost, AMOUNTS, st.sampled_from(["EUR", "USD", ""])),
    requested_by=st.one_of(st.none(), LEVELS),
)


@given(ALL_RULES, WISHES)
def test_somebody_always_decides_and_nobody_twice(
    rules: RoutingRules, asked: RequestedQuota
) -> None:
    levels = route_of(rules, asked)

    assert levels
    assert len(levels) == len(set(levels))


@given(ALL_RULES, WISHES, st.integers(0, 60), st.integers(0, 2_000))
def test_who_wants_more_never_asks_fewer(
    rules: RoutingRules, asked: RequestedQuota, more_units: int, more_cost: int
) -> None:
    amount = asked.cost.amount
    dearer = Cost(None if amount is None else amount + more_cost, asked.cost.currency)
    nobody = RequestedQuota(asked.size, asked.units, asked.cost)
    greedy = RequestedQuota(asked.size, asked.units + more_units, dearer)
    # An administrator stands in where no step takes part; here one always does.
    steps = (StepRule(RequestLevel.ORGANIZATION_ADMIN), *rules.steps)
    always = replace(rules, steps=steps)

    assert set(route_of(always, nobody)) <= set(route_of(always, greedy))
    assert is_automatic(rules, nobody) or not is_automatic(rules, greedy)


@pytest.mark.parametrize(
    ("cost", "levels"),
    [(0, (RequestLevel.ORGANIZATION_ADMIN,)), (1, (RequestLevel.PROJECT_LEAD,))],
)
def test_an_administrator_stands_in_only_where_no_step_takes_part(
    cost: int, levels: tuple[RequestLevel, ...]
) -> None:
    steps = (
        StepRule(RequestLevel.PROJECT_LEAD, cost_from=Decimal(1)),
        StepRule(RequestLevel.ORGANIZATION_ADMIN, units_from={GPUSize.SMALL: 1}),
    )
    asked = RequestedQuota(GPUSize.SMALL, 0, Cost(Decimal(cost), "EUR"))

    assert route_of(RoutingRules(steps=steps, currency="EUR"), asked) == levels


@given(LEVELS)
def test_raising_ends(level: RequestLevel) -> None:
    seen = [level]
    while (above := raised(seen[-1])) is not None:
        assert outranks(above, seen[-1])
        seen.append(above)

    assert len(seen) <= len(LADDER)
