"""How the limits of an organization, its projects and their users fit together."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import (
    GrantSpan,
    LimitKey,
    LimitTree,
    TreeLimit,
    Violation,
    added_violations,
    find_violations,
)

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
LARGE = LimitSelector(GPUSize.LARGE)
H100 = LimitSelector(GPUSize.LARGE, "H100")
H100_ON_HOPPER = LimitSelector(GPUSize.LARGE, "H100", "hopper")
ON_ADA = LimitSelector(GPUSize.LARGE, "", "ada")


def limit(
    units: int | None,
    project: str = "",
    user: str = "",
    *grants: GrantSpan,
    selector: LimitSelector = LARGE,
    percent: int = 100,
) -> TreeLimit:
    return TreeLimit(LimitKey(project, user, selector), units, percent, grants)


def span(units: int, begin: int = 0, end: int | None = None) -> GrantSpan:
    return GrantSpan(units, AT + begin * HOUR, None if end is None else AT + end * HOUR)


def tree_of(*limits: TreeLimit) -> LimitTree:
    return {one.key: one for one in limits}


def over(*limits: TreeLimit) -> list[tuple[str, int | None]]:
    return [(v.code, v.over_units) for v in find_violations(tree_of(*limits), from_at=AT)]


def message_of(*limits: TreeLimit) -> str:
    (violation,) = find_violations(tree_of(*limits), from_at=AT)
    return violation.message


def test_limits_that_fit_have_no_violation() -> None:
    assert over(limit(10), limit(6, "llm"), limit(4, "vision"), limit(6, "llm", "bob")) == []


def test_a_violation_is_a_problem_of_the_field_the_caller_can_change() -> None:
    (violation,) = find_violations(tree_of(limit(3), limit(5, "llm")), from_at=AT)

    problem = violation.as_problem("requested_units")

    assert (problem.field, problem.code) == ("requested_units", "project_exceeds_organization")
    assert problem.message == violation.message
    assert (violation.key.project, violation.above) == ("llm", LimitKey("", "", LARGE))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            (limit(10), limit(8, "llm"), limit(4, "vision")),
            (
                "The large limits of the projects would add up to 12, the organization's "
                "limit is 10: "
                "2 too many."
            ),
        ),
        (
            (limit(10, percent=150), limit(8, "llm"), limit(9, "vision")),
            (
                "The large limits of the projects would add up to 17, of the "
                "organization's limit 15 "
                "may be promised (150 %): 2 too many."
            ),
        ),
        (
            (limit(5, "llm"), limit(3, "llm", "bob"), limit(3, "llm", "carol")),
            (
                "The large limits of the users of project llm would add up to 6, the "
                "project's limit "
                "is 5: 1 too many."
            ),
        ),
        (
            (limit(8), limit(9, "llm")),
            "Project llm would have 9 large, the organization's limit is 8: 1 too many.",
        ),
        (
            (limit(2, "llm"), limit(3, "llm", "bob")),
            "User bob would have 3 large in project llm, the project's limit is 2: 1 too many.",
        ),
        (
            (limit(2), limit(3, "llm", "bob")),
            (
                "User bob would have 3 large in project llm, the organization's limit is 2: "
                "1 too many."
            ),
        ),
        (
            (limit(8), limit(9, "llm", selector=H100_ON_HOPPER)),
            (
                "Project llm would have 9 large H100 on hopper, the organization's limit "
                "of large is "
                "8: 1 too many."
            ),
        ),
        (
            (limit(8), limit(None, "llm", "bob")),
            (
                "User bob of project llm would be unlimited in large, the organization's "
                "limit is 8: "
                "set a number."
            ),
        ),
        (
            (limit(8), limit(None, "llm", selector=ON_ADA)),
            (
                "Project llm would be unlimited in large on ada, the organization's limit "
                "of large is "
                "8: set a number."
            ),
        ),
        (
            (limit(2, "", "", span(-3)),),
            "The organization would have -1 large with the grants that take units away: 1 too few.",
        ),
        (
            (limit(2, "llm", "bob", span(-3, 5)),),
            (
                "User bob of project llm would have -1 large with the grants that take units away: "
                "1 too few, from 2026-11-02 14:00 UTC on."
            ),
        ),
        (
            (limit(1_000_000, "llm", "", span(1, 0, 2), span(1, 1, 2)),),
            (
                "Project llm would have 1000002 large with its grants, the most is 1000000: "
                "2 too many, from 2026-11-02 10:00 UTC on."
            ),
        ),
    ],
)
def test_a_violation_shows_who_how_many_where_and_since_when(
    limits: tuple[TreeLimit, ...], message: str
) -> None:
    assert message_of(*limits) == message


def test_unset_zero_and_unlimited_are_three_things() -> None:
    assert over(limit(3, "llm"), limit(9, "vision")) == []
    assert over(limit(None), limit(3, "llm"), limit(None, "vision")) == []
    assert over(limit(0), limit(3, "llm")) == [("project_exceeds_organization", 3)]
    assert over(limit(0), limit(0, "llm"), limit(0, "llm", "bob")) == []


def test_an_unlimited_project_shields_nobody_from_the_organization() -> None:
    assert over(limit(4), limit(5, "llm", "bob")) == [("user_exceeds_organization", 1)]
    assert over(limit(None), limit(4, "llm"), limit(5, "llm", "bob")) == [
        ("user_exceeds_project", 1)
    ]


def test_an_unlimited_child_is_left_out_of_the_sum() -> None:
    assert over(limit(5), limit(3, "a"), limit(3, "b"), limit(None, "c")) == [
        ("projects_exceed_organization", 1),
        ("unlimited_under_limit", None),
    ]


def test_overcommit_lets_the_sum_above_but_no_single_one() -> None:
    assert over(limit(4, percent=300), limit(4, "a"), limit(4, "b"), limit(4, "c")) == []
    assert over(limit(4, percent=300), limit(5, "a"), limit(4, "b")) == [
        ("project_exceeds_organization", 1)
    ]


def test_what_may_be_promised_is_rounded_down() -> None:
    assert over(limit(3, percent=150), limit(2, "a"), limit(2, "b")) == []
    assert over(limit(3, percent=150), limit(2, "a"), limit(3, "b")) == [
        ("projects_exceed_organization", 1)
    ]


def test_only_limits_of_the_same_selector_add_up() -> None:
    assert over(limit(4), limit(4, "a"), limit(4, "b", selector=H100)) == []
    assert over(
        limit(4, selector=H100), limit(3, "a", selector=H100), limit(3, "b", selector=H100)
    ) == [("projects_exceed_organization", 2)]


@pytest.mark.parametrize(
    ("above", "below", "is_covered"),
    [
        (LARGE, H100, True),
        (LARGE, H100_ON_HOPPER, True),
        (H100, H100_ON_HOPPER, True),
        (LARGE, ON_ADA, True),
        (H100, LARGE, False),
        (ON_ADA, LARGE, False),
        (ON_ADA, H100_ON_HOPPER, False),
        (H100, ON_ADA, False),
        (LimitSelector(GPUSize.SMALL), LARGE, False),
    ],
)
def test_a_limit_is_held_under_the_wider_ones_above_it(
    above: LimitSelector,
    below: LimitSelector,
    is_covered: bool,  # noqa: FBT001 - A row of the table.
) -> None:
    found = over(limit(1, selector=above), limit(2, "llm", selector=below))

    assert found == ([("project_exceeds_organization", 1)] if is_covered else [])
    assert above.covers(below) is is_covered


def test_every_violation_is_reported_at_once_in_a_fixed_order() -> None:
    found = find_violations(
        tree_of(
            limit(3),
            limit(1, "vision"),
            limit(4, "llm"),
            limit(2, "vision", "bob"),
            limit(9, "llm", "carol"),
            limit(4, "virus", "bob"),
        ),
        from_at=AT,
    )

    assert [(v.code, v.key.project, v.key.user, v.over_units) for v in found] == [
        ("projects_exceed_organization", "", "", 2),
        ("project_exceeds_organization", "llm", "", 1),
        ("user_exceeds_project", "llm", "carol", 5),
        ("user_exceeds_organization", "llm", "carol", 6),
        ("user_exceeds_organization", "virus", "bob", 1),
        ("user_exceeds_project", "vision", "bob", 1),
    ]


def test_a_grant_counts_from_its_begin_up_to_its_end() -> None:
    above = limit(8, "", "", span(4, 2, 6))

    assert over(above, limit(8, "llm", "", span(4, 2, 6))) == []
    assert over(above, limit(8, "llm", "", span(4, 3, 6))) == []
    assert over(above, limit(8, "llm", "", span(4, 1, 6))) == [("project_exceeds_organization", 4)]
    assert over(above, limit(8, "llm", "", span(4, 2, 7))) == [("project_exceeds_organization", 4)]
    assert over(above, limit(8, "llm", "", span(4, 2))) == [("project_exceeds_organization", 4)]


def test_the_worst_instant_is_reported_and_of_equal_ones_the_first() -> None:
    message = message_of(limit(8), limit(8, "llm", "", span(1, 1), span(2, 3, 4), span(2, 5, 6)))

    assert message.endswith("is 8: 3 too many, from 2026-11-02 12:00 UTC on.")


def test_what_was_before_now_is_not_judged() -> None:
    assert over(limit(8), limit(8, "llm", "", span(4, -5, 0))) == []
    assert over(limit(8), limit(4, "llm", "", span(4, -5, 5))) == []
    assert over(limit(8), limit(5, "llm", "", span(4, -5, 5))) == [
        ("project_exceeds_organization", 1)
    ]


def test_grants_on_unlimited_add_nothing() -> None:
    assert over(limit(None, "llm", "", span(-9)), limit(5, "llm", "bob")) == []


def test_a_broken_tree_is_mended_one_limit_at_a_time() -> None:
    broken = tree_of(limit(4), limit(3, "a"), limit(4, "b"))
    better = {**broken, **tree_of(limit(2, "a"))}
    worse = {**broken, **tree_of(limit(4, "a"))}
    before = find_violations(broken, from_at=AT)

    assert added_violations(before, find_violations(better, from_at=AT)) == ()
    assert added_violations(before, before) == ()
    assert [v.over_units for v in added_violations(before, find_violations(worse, from_at=AT))] == [
        4
    ]


def test_a_new_violation_is_reported_with_those_there_were() -> None:
    broken = tree_of(limit(4), limit(None, "a"), limit(4, "b"))
    after = {**broken, **tree_of(limit(5, "c"))}
    before = find_violations(broken, from_at=AT)

    added = added_violations(before, find_violations(after, from_at=AT))

    assert [v.code for v in added] == [
        "projects_exceed_organization",
        "unlimited_under_limit",
        "project_exceeds_organization",
    ]
    assert added_violations(before, before) == ()


PLACES = st.sampled_from(
    [("", ""), ("llm", ""), ("vision", ""), ("llm", "bob"), ("llm", "carol"), ("vision", "bob")]
)
SELECTORS = st.sampled_from([LARGE, H100, H100_ON_HOPPER, ON_ADA])
SPANS = st.builds(
    span,
    st.integers(-4, 4).filter(bool),
    st.integers(-3, 3),
    st.none() | st.integers(4, 8),
)
LIMITS = st.builds(
    lambda place, selector, units, percent, grants: TreeLimit(
        LimitKey(place[0], place[1], selector), units, percent, tuple(grants)
    ),
    PLACES,
    SELECTORS,
    st.none() | st.integers(0, 9),
    st.sampled_from([100, 150, 200]),
    st.lists(SPANS, max_size=2),
)
TREES = st.lists(LIMITS, max_size=8).map(lambda limits: tree_of(*limits))


def units_of(one: TreeLimit, moment: datetime) -> int | None:
    if one.limit_units is None:
        return None
    given = (
        grant.units
        for grant in one.grants
        if grant.begin_at <= moment and (grant.end_at is None or moment < grant.end_at)
    )
    return one.limit_units + sum(given)


def holds_at(tree: Mapping[LimitKey, TreeLimit], moment: datetime) -> bool:
    """Whether the rules hold at one moment, reported in other words than the product's."""
    units = {key: units_of(one, moment) for key, one in tree.items()}
    for key, own in units.items():
        if own is not None and own < 0:
            return False
        for other, above in units.items():
            is_above = (other.project, other.user) in {("", ""), (key.project, "")}
            is_self = (other.project, other.user) == (key.project, key.user)
            if above is None or is_self or not is_above or not other.selector.covers(key.selector):
                continue
            if own is None or own > max(0, above):
                return False
        below = [
            given
            for k, given in units.items()
            if k.selector == key.selector
            and given is not None
            and (
                (not key.project and k.project and not k.user)
                or (key.project and not key.user and k.user and k.project == key.project)
            )
        ]
        if own is not None and below:
            promised = own * tree[key].overcommit_percent // 100
            if sum(below) > max(0, promised):
                return False
    return True


@given(tree=TREES)
def test_a_tree_without_violations_is_one_in_which_every_rule_holds_at_every_hour(
    tree: LimitTree,
) -> None:
    holds = all(holds_at(tree, AT + hour * HOUR) for hour in range(10))

    assert (find_violations(tree, from_at=AT) == ()) is holds


@given(tree=TREES, key=st.builds(lambda p, s: LimitKey(p[0], p[1], s), PLACES, SELECTORS))
def test_taking_a_limit_away_never_brings_a_violation(tree: LimitTree, key: LimitKey) -> None:
    fewer = {k: one for k, one in tree.items() if k != key}

    before, after = find_violations(tree, from_at=AT), find_violations(fewer, from_at=AT)

    assert identities(after) <= identities(before)


@given(tree=TREES, hours=st.integers(0, 9))
def test_time_alone_never_brings_a_violation(tree: LimitTree, hours: int) -> None:
    later = find_violations(tree, from_at=AT + hours * HOUR)

    assert identities(later) <= identities(find_violations(tree, from_at=AT))


def identities(found: tuple[Violation, ...]) -> set[object]:
    return {(v.code, v.key, v.above) for v in found}
