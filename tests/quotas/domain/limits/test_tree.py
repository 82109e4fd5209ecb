"""What limits come to in time, as their grants begin and end."""

from datetime import UTC, datetime, timedelta

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import GrantSpan, LimitKey, TreeLimit, levels_of, worst_excess

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TOP = LimitKey("", "", LimitSelector(GPUSize.LARGE))
LLM = LimitKey("llm", "", LimitSelector(GPUSize.LARGE))
CAROL = LimitKey("llm", "carol", LimitSelector(GPUSize.LARGE))


def test_a_key_knows_its_level_and_those_above() -> None:
    assert [key.scope for key in (TOP, LLM, CAROL)] == ["organization", "project", "user"]
    assert TOP.holders_above == ()
    assert LLM.holders_above == (("", ""),)
    assert CAROL.holders_above == (("llm", ""), ("", ""))


def test_a_limit_can_be_given_further_grants() -> None:
    spans = [GrantSpan(units, AT) for units in (1, 2, 3)]

    given = TreeLimit(LLM, 8, 100, (spans[0],)).with_grants(*spans[1:])

    assert given == TreeLimit(LLM, 8, 100, tuple(spans))


def test_levels_are_reported_from_now_on() -> None:
    limit = TreeLimit(LLM, 8).with_grants(
        GrantSpan(4, AT - HOUR, AT + HOUR), GrantSpan(-3, AT + HOUR), GrantSpan(9, AT - HOUR, AT)
    )

    assert levels_of((limit,), from_at=AT) == [(AT, 12), (AT + HOUR, 5)]


def test_the_worst_instant_is_the_one_furthest_above() -> None:
    above = TreeLimit(TOP, 3).with_grants(GrantSpan(-1, AT + HOUR))

    worst = worst_excess((TreeLimit(LLM, 5),), above, percent=150, from_at=AT)

    assert worst is not None
    assert (worst.at, worst.units, worst.ceiling_units, worst.over_units) == (AT + HOUR, 5, 3, 2)
    assert worst_excess((TreeLimit(LLM, 3),), above, percent=150, from_at=AT) is None
