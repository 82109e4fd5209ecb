"""What a request comes to: filled up where units are missing, counted once for its project."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import (
    GrantSpan,
    LimitKey,
    TermInterval,
    TreeLimit,
    lowest_units,
    missing_spans,
    peak_units,
    units_at,
)
from quotas.domain.requests.routing import HoldableUnits, raised_reach
from tests.support.builders import AT

DAYS = [AT + timedelta(days=number) for number in range(12)]
ALWAYS = TermInterval(AT)


def limit(
    units: int | None, *grants: GrantSpan, user: str = "", group: str = "", cluster: str = ""
) -> TreeLimit:
    key = LimitKey("llm", user, LimitSelector(GPUSize.LARGE, group, cluster))
    return TreeLimit(key, units, grants=grants)


def held(units: int | None, burst: int = 0, **where: str) -> TreeLimit:
    return replace(limit(units, **where), burst_units=burst)


def test_what_is_missing_is_reported_for_each_stretch_and_equal_ones_are_one() -> None:
    lent = GrantSpan(-1, DAYS[1], DAYS[3])
    given_then = GrantSpan(9, DAYS[5], DAYS[6])
    swapped = (GrantSpan(1, DAYS[7], DAYS[8]), GrantSpan(1, DAYS[8], DAYS[9]))
    base = limit(2, lent, given_then, *swapped)

    missing = missing_spans(base, total=4, span=TermInterval(DAYS[2], DAYS[10]))

    assert missing == (
        GrantSpan(3, DAYS[2], DAYS[3]),
        GrantSpan(2, DAYS[3], DAYS[5]),
        GrantSpan(2, DAYS[6], DAYS[7]),
        GrantSpan(1, DAYS[7], DAYS[9]),
        GrantSpan(2, DAYS[9], DAYS[10]),
    )
    assert (lowest_units(base, ALWAYS), peak_units(base, ALWAYS)) == (1, 11)
    assert (units_at(base, DAYS[5]), units_at(base, DAYS[6])) == (11, 2)


WISHES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 10), st.none() | st.integers(1, 9)), max_size=8
)


@given(units=st.integers(0, 9), requested_units=WISHES)
def test_totals_one_after_another_come_to_the_largest_of_them_at_every_instant(
    units: int, requested_units: list[tuple[int, int, int | None]]
) -> None:
    base = limit(units)
    wanted = [units] * len(DAYS)
    for total, begin, days in requested_units:
        end = None if days is None else begin + days
        end_at = None if end is None else AT + timedelta(days=end)
        span = TermInterval(DAYS[begin], end_at)
        base = base.with_grants(*missing_spans(base, total=total, span=span))
        for number in range(begin, len(DAYS) if end is None else min(end, len(DAYS))):
            wanted[number] = max(wanted[number], total)

    assert [units_at(base, instant) for instant in DAYS] == wanted
    assert peak_units(base, ALWAYS) <= max([units, *(total for total, _, _ in requested_units)])


def test_models_and_users_add_up_unless_a_wider_limit_holds_them_together() -> None:
    hopper, carol = held(4, 1, group="H100"), held(3, user="carol")
    below = held(9, user="bob", group="H100", cluster="a")
    narrow = held(2, user="carol", group="A100")
    around = [hopper, carol, below, narrow]

    assert raised_reach([], around, ALWAYS) == HoldableUnits(7, 1)
    assert raised_reach(around, [*around, held(20)], ALWAYS) == HoldableUnits(20, 0)
    assert raised_reach(around, [*around, held(6)], ALWAYS) == HoldableUnits()
    assert raised_reach(around, [*around, held(None)], ALWAYS) == HoldableUnits()
    assert raised_reach([], [], ALWAYS).units == 0


def test_only_instants_count_at_which_more_may_be_held() -> None:
    other = limit(1, GrantSpan(50, DAYS[1], DAYS[2]), group="A100")
    base = limit(2, group="H100")
    more = base.with_grants(GrantSpan(2, DAYS[3], DAYS[5]))

    raised = raised_reach([other, base], [other, more], TermInterval(DAYS[0], DAYS[9]))

    assert raised == HoldableUnits(5, 0)
