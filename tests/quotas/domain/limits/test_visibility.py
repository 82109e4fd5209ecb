"""What does not hold, in the words that a reader's rights leave."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import (
    GrantSpan,
    LimitKey,
    TreeLimit,
    Violation,
    find_violations,
)
from quotas.domain.limits.visibility import (
    OTHERS,
    LimitVisibility,
    visible_violation,
    visible_violations,
)

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
LARGE = LimitSelector(GPUSize.LARGE)
LEAD = LimitVisibility(reads_organization=False, project="llm")
ADMIN = LimitVisibility(reads_organization=True, project="llm")
NOBODY = LimitVisibility(reads_organization=False, project="")


def limit(
    units: int | None, project: str = "", user: str = "", *grants: GrantSpan, percent: int = 100
) -> TreeLimit:
    return TreeLimit(LimitKey(project, user, LARGE), units, percent, grants)


def violations(*limits: TreeLimit) -> tuple[Violation, ...]:
    return find_violations({one.key: one for one in limits}, from_at=AT)


def reported(sight: LimitVisibility, *limits: TreeLimit) -> list[str]:
    return [visible_violation(one, sight).message for one in violations(*limits)]


LOST = GrantSpan(-5, AT, AT + timedelta(days=1))
BROKEN = "The organization could not have its large limit with its grants."
NOT_AS_MANY = "The organization's large limit does not allow as many."
GAINED = GrantSpan(1_000_000, AT + timedelta(hours=1))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            (limit(6), limit(8, "llm")),
            NOT_AS_MANY,
        ),
        (
            (limit(6), limit(7, "llm", "bob")),
            NOT_AS_MANY,
        ),
        (
            (limit(6), limit(None, "llm")),
            "Project llm would be unlimited in large, the organization's limit is not.",
        ),
        (
            (limit(6), limit(None, "llm", "bob")),
            "User bob of project llm would be unlimited in large, the organization's limit is not.",
        ),
        (
            (limit(9), limit(5, "llm"), limit(5, "vision")),
            NOT_AS_MANY,
        ),
        ((limit(3, "", "", LOST),), BROKEN),
        ((limit(3, "", "", GAINED),), BROKEN),
        ((limit(6, "vision"), limit(7, "vision", "eve")), OTHERS),
        ((limit(6), limit(7, "vision")), OTHERS),
        ((limit(3, "vision", "", LOST),), OTHERS),
    ],
)
def test_a_lead_is_reported_who_and_what_of_a_level_above_and_no_number(
    limits: tuple[TreeLimit, ...], message: str
) -> None:
    assert reported(LEAD, *limits) == [message]
    assert not re.search(r"\d", message)
    (hidden,) = (visible_violation(one, LEAD) for one in violations(*limits))
    (full,) = violations(*limits)
    assert hidden.over_units is None
    assert (hidden.key, hidden.above) == (full.key, full.above)
    assert hidden.code == ("above_organization_limit" if message == NOT_AS_MANY else full.code)


@pytest.mark.parametrize(
    "limits",
    [
        (limit(6, "llm"), limit(7, "llm", "bob")),
        (limit(6, "llm"), limit(4, "llm", "bob"), limit(4, "llm", "carol")),
        (limit(3, "llm", "", LOST),),
    ],
)
def test_a_lead_is_reported_every_number_of_the_own_project(limits: tuple[TreeLimit, ...]) -> None:
    (full,) = violations(*limits)

    assert visible_violation(full, LEAD) == full
    assert re.search(r"\d", full.message)
    assert visible_violation(full, NOBODY).message == OTHERS


def test_what_is_alike_is_reported_once_and_what_is_answered_below_not_again() -> None:
    sums = (limit(9), limit(10, "llm"), limit(5, "vision"))
    user = (limit(6), limit(4, "llm"), limit(7, "llm", "bob"))

    alike, answered = (visible_violations(violations(*tree), LEAD) for tree in (sums, user))

    assert [one.message for one in alike] == [NOT_AS_MANY]
    assert [one.code for one in answered] == ["user_exceeds_project"]
    assert visible_violations(violations(*sums), ADMIN) == violations(*sums)
    assert visible_violations(violations(*user), ADMIN) == violations(*user)


counts = st.none() | st.integers(min_value=0, max_value=20)


@given(st.lists(counts, min_size=7, max_size=7))
def test_who_reads_the_organization_is_reported_all_and_a_lead_nothing_of_others(
    units: list[int | None],
) -> None:
    holders = [("", ""), *((p, u) for p in ("llm", "vision") for u in ("", "bob", "eve"))]
    tree = [limit(number, *holder) for number, holder in zip(units, holders, strict=True)]
    for full in violations(*tree):
        hidden = visible_violation(full, LEAD)
        keys = [full.key, full.above or full.key]

        assert visible_violation(full, ADMIN) == full
        assert "vision" not in hidden.message
        is_reported = all(key.project == "llm" for key in keys)
        assert (hidden == full) is is_reported
        assert is_reported or not re.search(r"\d", hidden.message)
