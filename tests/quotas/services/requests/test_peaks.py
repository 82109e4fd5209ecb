"""Requests that overlap or are split never add up to more than what somebody approved."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import (
    QuotaRequestNothingMoreError,
    QuotaRequestOutdatedError,
    QuotaRequestWithoutLimitError,
)
from quotas.models import QuotaGrant, QuotaLimit, QuotaRequest
from quotas.selectors.limits.in_force import limits_in_force
from quotas.services.requests.deciding import approve_request
from quotas.services.requests.preview import preview_request
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.asking import FRIDAY, LATER, FixedEstimator, ask, draft, make_policy
from tests.support.quotas.asking import steps_of as steps
from tests.support.quotas.builders import actor_of, make_grant, make_limit

ADMIN = [("organization_admin", "open")]
BOTH = [("organization_admin", "open"), ("platform", "waiting")]
FINANCE = [
    {"level": "organization_admin"},
    {"level": "finance", "cost_from": "1500"},
]


def day(number: int) -> datetime:
    return AT + timedelta(days=number)


def in_force(at: datetime) -> int:
    return sum(limit.nominal_units or 0 for limit in limits_in_force(at=at, size=GPUSize.LARGE))


def held_at_most(at: datetime) -> int:
    """Return what LLM and Carol may hold together: the wider limit binds the narrower ones."""
    units = {
        (limit.user_id is not None, limit.model_group): limit.nominal_units or 0
        for limit in limits_in_force(at=at, size=GPUSize.LARGE)
    }
    if (False, "") in units:
        return units[False, ""]
    total = sum(count for (is_user, _), count in units.items() if not is_user)
    if (True, "") in units:
        return total + units[True, ""]
    return total + sum(
        count
        for (is_user, group), count in units.items()
        if is_user and (False, group) not in units
    )


def approve(request: QuotaRequest, cast: Cast, at: datetime = AT) -> QuotaRequest:
    return approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=at)


def is_by_policy(request: QuotaRequest) -> bool:
    request.refresh_from_db()
    return request.is_automatic


def test_requests_that_overlap_are_not_stacked(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})
    make_limit(cast.acme, cast.llm, units=2)

    for begin in (20, 15, 10, 5, 2):
        assert is_by_policy(ask(cast, requested_units=4, begin_at=day(begin), end_at=day(30)))

    assert [in_force(day(number)) for number in (1, 2, 5, 10, 15, 20, 25, 30)] == [
        2, 4, 4, 4, 4, 4, 4, 2,
    ]  # fmt: skip
    assert [(g.units, g.valid.lower, g.valid.upper) for g in QuotaGrant.objects.order_by("pk")] == [
        (2, day(20), day(30)),
        (2, day(15), day(20)),
        (2, day(10), day(15)),
        (2, day(5), day(10)),
        (2, day(2), day(5)),
    ]


def test_people_who_approve_the_same_total_four_times_approve_it_once(cast: Cast) -> None:
    make_policy(currency="EUR", steps=FINANCE)
    make_limit(cast.acme, cast.llm, units=8)

    for begin in (20, 15, 10, 5):
        request = ask(cast, requested_units=14, begin_at=day(begin), estimator=FixedEstimator())
        approve(request, cast)

    assert [in_force(day(number)) for number in (1, 5, 10, 15, 25)] == [8, 14, 14, 14, 14]


def test_units_are_added_only_where_they_are_missing(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=2)
    make_grant(limit, 8, day(5), day(8))
    make_grant(limit, 1, day(10), day(12))

    request = ask(cast, requested_units=4, begin_at=day(3), end_at=day(14))
    approve(request, cast)

    grants = QuotaGrant.objects.filter(reference=str(request.pk)).order_by("valid")
    assert [(g.units, g.valid.lower, g.valid.upper) for g in grants] == [
        (2, day(3), day(5)),
        (2, day(8), day(10)),
        (1, day(10), day(12)),
        (2, day(12), day(14)),
    ]
    assert (request.units_before, request.peak_units) == (2, 10)


def test_a_total_that_is_in_force_all_the_time_is_nothing_more(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=2)
    make_grant(limit, 2, day(1), day(3))
    make_grant(limit, 5, day(3), day(9))

    with pytest.raises(QuotaRequestNothingMoreError) as refusal:
        ask(cast, requested_units=4, begin_at=day(2), end_at=day(9))

    assert refusal.value.facts == {"units_in_force": 4, "requested_units": 4}
    assert not QuotaRequest.objects.exists()


def test_a_limit_under_grants_is_routed_by_what_it_comes_to_with_them(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})
    make_limit(cast.acme, cast.llm, units=2)
    ask(cast, requested_units=4, end_at=FRIDAY)

    request = ask(cast, requested_units=4)

    assert (is_by_policy(request), request.peak_units) == (False, 6)
    assert in_force(day(1)) == 4


WISHES = st.fixed_dictionaries(
    {
        "requested_units": st.integers(0, 12),
        "begin": st.none() | st.integers(1, 9),
        "days": st.none() | st.integers(1, 9),
        "is_for_carol": st.booleans(),
        "model_group": st.sampled_from(["", "H100", "A100"]),
    }
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(requested_units=st.lists(WISHES, min_size=2, max_size=6), units=st.integers(0, 5))
def test_whatever_is_asked_the_policy_never_lets_more_than_its_band_be_held(
    cast: Cast, requested_units: list[dict[str, Any]], units: int
) -> None:
    with transaction.atomic():
        make_policy(automatic_units={"large": 5})
        make_limit(cast.acme, cast.llm, units=units, model_group="H100")
        for requested in requested_units:
            ask_if_possible(cast, requested)
        most = max(held_at_most(day(number)) for number in range(20))
        transaction.set_rollback(True)

    assert most <= 5


def ask_if_possible(cast: Cast, requested: dict[str, Any]) -> None:
    begin, days = requested["begin"], requested["days"]
    try:
        ask(
            cast,
            requested_units=requested["requested_units"],
            begin_at=None if begin is None else day(begin),
            end_at=None if days is None else day((begin or 0) + days),
            user=cast.carol if requested["is_for_carol"] else None,
            model_group=requested["model_group"],
        )
    except (QuotaRequestNothingMoreError, QuotaRequestWithoutLimitError):
        return


def test_models_do_not_split_a_total(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})

    first = ask(cast, requested_units=4, model_group="H100")
    second = ask(cast, requested_units=1, model_group="A100")
    third = ask(cast, requested_units=1, cluster=make_cluster("hopper"))

    assert [is_by_policy(request) for request in (first, second, third)] == [True, False, False]
    assert QuotaLimit.objects.count() == 1


def test_users_do_not_split_a_total(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})

    first = ask(cast, requested_units=3, user=cast.carol)
    second = ask(cast, requested_units=2, user=cast.bob)

    assert [is_by_policy(request) for request in (first, second)] == [True, False]


def test_what_a_limit_of_the_project_holds_together_is_not_counted_twice(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})
    make_limit(cast.acme, cast.llm, units=4)
    make_limit(cast.acme, cast.llm, cast.bob, units=4)

    assert is_by_policy(ask(cast, requested_units=4, user=cast.carol, model_group="H100"))


def test_another_project_counts_for_itself(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})
    make_limit(cast.acme, cast.vision, units=100)
    make_limit(cast.acme, cast.llm, units=100, size="small")

    assert is_by_policy(ask(cast, requested_units=4))


def test_thresholds_of_units_and_of_cost_see_the_projects_total(cast: Cast) -> None:
    make_policy(
        currency="EUR",
        steps=[
            {"level": "organization_admin"},
            {"level": "platform", "units_from": {"large": 16}},
            {"level": "finance", "cost_from": "2000"},
        ],
    )
    make_limit(cast.acme, cast.llm, units=10, model_group="H100")
    make_limit(cast.acme, cast.llm, units=0, model_group="L40", burst_units=2)
    estimator = FixedEstimator()

    below = ask(cast, requested_units=3, model_group="A100", estimator=estimator)
    many = ask(cast, requested_units=4, model_group="A100", estimator=estimator)
    dear = ask(cast, requested_units=8, model_group="A100", estimator=estimator)

    assert steps(below) == ADMIN
    assert steps(many) == BOTH
    assert steps(dear) == [*BOTH, ("finance", "waiting")]
    assert (many.cost["at_full_use"], many.cost["price_group"]) == ("400.00", "A100/whole")
    assert [(one["units"], one["is_burst"]) for one in estimator.asked[-3:]] == [
        (8, False),
        (18, False),
        (2, True),
    ]


def test_a_preview_routes_by_the_projects_total_too(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})
    make_limit(cast.acme, cast.llm, units=4, model_group="H100")

    preview = preview_request(
        draft=draft(cast, requested_units=4, model_group="A100"), actor=actor_of(cast.bob), at=AT
    )

    assert [level.value for level in preview.levels] == ["organization_admin"]


@pytest.mark.parametrize(
    ("units", "burst", "requested"),
    [
        (8, 0, {"requested_units": 0}),
        (8, 0, {"requested_units": 7}),
        (None, 0, {"requested_units": 4}),
        (4, 3, {"requested_units": 4, "burst_units": 2}),
    ],
    ids=["to none", "to less", "from unlimited", "burst"],
)
def test_the_policy_takes_nothing_away(
    cast: Cast, units: int | None, burst: int, requested: dict[str, Any]
) -> None:
    make_policy(automatic_units={"large": 40})
    limit = make_limit(cast.acme, cast.llm, cast.carol, units=units, burst_units=burst)

    request = ask(cast, user=cast.carol, **requested)

    assert not is_by_policy(request)
    assert steps(request) == ADMIN
    limit.refresh_from_db()
    assert (limit.limit_units, limit.burst_units) == (units, burst)


def test_none_at_all_where_nothing_is_set_is_for_people_too(cast: Cast) -> None:
    make_policy(automatic_units={"large": 40})

    assert not is_by_policy(ask(cast, requested_units=0, user=cast.carol))


def test_less_than_what_grants_bring_is_for_people_too(cast: Cast) -> None:
    make_policy(automatic_units={"large": 40})
    make_grant(make_limit(cast.acme, cast.llm, units=5), 3, day(3), FRIDAY)

    below, same = ask(cast, requested_units=7), ask(cast, requested_units=8)

    assert (is_by_policy(below), is_by_policy(same)) == (False, True)


def test_a_burst_that_was_changed_since_is_not_overwritten(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4, burst_units=2)
    request = ask(cast, requested_units=8, burst_units=3)
    other = ask(cast, requested_units=8)
    QuotaLimit.objects.update(burst_units=9)

    with pytest.raises(QuotaRequestOutdatedError) as refusal:
        approve(request, cast)

    assert refusal.value.facts == {"burst_before": 2, "burst_now": 9}
    limit.refresh_from_db()
    assert (limit.limit_units, limit.burst_units) == (4, 9)
    approve(other, cast)
    limit.refresh_from_db()
    assert (limit.limit_units, limit.burst_units) == (8, 9)


@pytest.mark.parametrize("is_unlimited", [True, False])
def test_unset_and_unlimited_are_distinguished(cast: Cast, is_unlimited: bool) -> None:  # noqa: FBT001 - Parametrized.
    if is_unlimited:
        make_limit(cast.acme, cast.llm, units=None)
    request = ask(cast)
    assert request.is_unlimited_before is is_unlimited
    if is_unlimited:
        QuotaLimit.objects.all().delete()
    else:
        make_limit(cast.acme, cast.llm, units=None)

    with pytest.raises(QuotaRequestOutdatedError, match="unlimited") as refusal:
        approve(request, cast)

    assert "not set" in refusal.value.message
    assert not QuotaLimit.objects.filter(limit_units=8).exists()


@pytest.mark.parametrize(
    "requested", [{"begin_at": day(2), "end_at": day(9)}, {}], ids=["dated", "set"]
)
def test_a_grant_that_came_since_anywhere_in_the_time_makes_it_another_request(
    cast: Cast, requested: dict[str, Any]
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)
    request = ask(cast, requested_units=8, **requested)
    make_grant(limit, 9, day(5), day(6))

    with pytest.raises(QuotaRequestOutdatedError) as refusal:
        approve(request, cast)

    assert refusal.value.facts == {
        "peak_before": 8,
        "peak_now": 13 if requested else 17,
    }
    assert QuotaGrant.objects.count() == 1


def test_what_ended_by_itself_since_makes_no_difference(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)
    make_grant(limit, 9, day(1), day(2))
    request = ask(cast, requested_units=8, begin_at=day(3) - timedelta(days=2), end_at=LATER)
    open_ended = ask(cast, requested_units=6)

    approve(open_ended, cast, at=day(3))

    assert (request.peak_units, open_ended.peak_units) == (13, 15)
    limit.refresh_from_db()
    assert limit.limit_units == 6
