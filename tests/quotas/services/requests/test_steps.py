"""Requests go from level to level, and no two steps are decided by one person."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from quotas.domain.errors import (
    OwnQuotaRequestError,
    QuotaHierarchyBrokenError,
    QuotaRequestDecidedError,
    QuotaRequestDecidedTwiceError,
)
from quotas.models import QuotaLimit, QuotaRequest, RequestStep
from quotas.services.requests.clock import escalate_requests, expire_requests
from quotas.services.requests.deciding import approve_request, cancel_request, reject_request
from tenants.domain.actors import system_actor
from tenants.domain.errors import ForbiddenError
from tenants.domain.identity.roles import Role
from tests.support.builders import AT, grant, make_user
from tests.support.cast import Cast
from tests.support.quotas.asking import FixedEstimator, ask, make_policy, reported, steps_of
from tests.support.quotas.builders import actor_of, audit_actions, make_limit

TICK = system_actor("tests")
THREE = [
    {"level": "organization_admin"},
    {"level": "platform", "units_from": {"large": 16}},
    {"level": "finance", "cost_from": "1000"},
]


def approve(request: QuotaRequest, cast: Cast, name: str) -> QuotaRequest:
    actor = actor_of(getattr(cast, name))
    return approve_request(request_id=request.pk, note=f"By {name}.", actor=actor, at=AT)


def test_without_a_policy_one_administrator_of_the_organization_decides(cast: Cast) -> None:
    request = ask(cast)

    assert steps_of(request) == [("organization_admin", "open")]
    assert reported() == [("request:submitted", "alice")]
    assert request.expires_at == AT + timedelta(days=30)

    approve(request, cast, "alice")

    assert steps_of(request) == [("organization_admin", "approved")]
    assert reported() == [("request:submitted", "alice"), ("request:approved", "bob")]


def test_size_and_cost_name_further_levels_and_each_is_reported_in_its_turn(cast: Cast) -> None:
    make_policy(currency="EUR", steps=THREE)
    request = ask(cast, requested_units=16, estimator=FixedEstimator())

    first = approve(request, cast, "alice")
    assert (first.state, first.version) == ("submitted", 2)
    assert not QuotaLimit.objects.exists()
    second = approve(request, cast, "frank")
    assert second.state == "submitted"
    last = approve(request, cast, "dora")

    assert (last.state, last.decided_by, last.version) == ("approved", cast.dora, 4)
    assert QuotaLimit.objects.get().limit_units == 16
    assert list(request.steps.order_by("position").values_list("level", "decided_by", "note")) == [
        ("organization_admin", cast.alice.pk, "By alice."),
        ("platform", cast.frank.pk, "By frank."),
        ("finance", cast.dora.pk, "By dora."),
    ]
    assert reported() == [
        ("request:submitted", "alice"),
        ("request:submitted", "frank"),
        ("request:submitted", "dora"),
        ("request:approved", "bob"),
    ]
    assert audit_actions() == [
        "quotas:request:submit",
        "quotas:request:approve_step",
        "quotas:request:approve_step",
        "quotas:limit:set",
        "quotas:request:approve",
    ]


def test_the_same_person_does_not_decide_two_steps(cast: Cast) -> None:
    make_policy(steps=[{"level": "organization_admin"}, {"level": "platform"}])
    request = ask(cast)
    approve(request, cast, "frank")

    for decide in (approve_request, reject_request):
        with pytest.raises(QuotaRequestDecidedTwiceError):
            decide(request_id=request.pk, actor=actor_of(cast.frank), at=AT)

    assert steps_of(request) == [("organization_admin", "approved"), ("platform", "open")]
    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize(
    ("level", "may"),
    [
        ("project_lead", {"lena", "alice", "frank"}),
        ("organization_admin", {"alice", "frank"}),
        ("platform", {"frank"}),
        ("finance", {"dora"}),
    ],
)
def test_only_who_stands_at_a_level_or_above_decides_its_step(
    cast: Cast, level: str, may: set[str]
) -> None:
    lena = make_user("lena")
    grant(lena, Role.PROJECT_LEAD, project=cast.llm)
    make_policy(steps=[{"level": level}])
    people = {**vars(cast), "lena": lena}

    for name in ("lena", "alice", "frank", "dora", "carol", "ann", "mallory"):
        request = ask(cast)
        if name in may:
            rejected = reject_request(request_id=request.pk, actor=actor_of(people[name]), at=AT)
            assert rejected.state == "rejected"
            continue
        with pytest.raises(ForbiddenError):
            reject_request(request_id=request.pk, actor=actor_of(people[name]), at=AT)
        assert steps_of(request) == [(level, "open")]


def test_a_lead_does_not_nod_to_their_own_request(cast: Cast) -> None:
    make_policy(steps=[{"level": "project_lead"}, {"level": "organization_admin"}])

    request = ask(cast)

    assert steps_of(request) == [("organization_admin", "open")]
    with pytest.raises(OwnQuotaRequestError, match="somebody else decides"):
        approve(request, cast, "bob")


def test_an_administrator_who_asks_needs_another(cast: Cast) -> None:
    request = ask(cast, "alice")

    with pytest.raises(OwnQuotaRequestError):
        approve(request, cast, "alice")

    assert steps_of(request) == [("organization_admin", "open")]


def test_a_rejection_at_any_step_ends_the_request(cast: Cast) -> None:
    make_policy(
        steps=[{"level": "organization_admin"}, {"level": "platform"}, {"level": "finance"}]
    )
    request = ask(cast)
    approve(request, cast, "alice")

    reject_request(request_id=request.pk, note="Too much.", actor=actor_of(cast.frank), at=AT)

    assert steps_of(request) == [
        ("organization_admin", "approved"),
        ("platform", "rejected"),
        ("finance", "closed"),
    ]
    assert not QuotaLimit.objects.exists()
    assert reported()[-1] == ("request:rejected", "bob")


def test_a_withdrawn_request_waits_for_nobody(cast: Cast) -> None:
    request = ask(cast)

    cancel_request(request_id=request.pk, actor=actor_of(cast.bob), at=AT)

    assert steps_of(request) == [("organization_admin", "closed")]
    assert reported() == [("request:submitted", "alice")]


def test_an_approval_that_would_break_the_tree_leaves_the_step_open(cast: Cast) -> None:
    make_limit(cast.acme, units=4)
    request = ask(cast)

    with pytest.raises(QuotaHierarchyBrokenError):
        approve(request, cast, "alice")

    assert steps_of(request) == [("organization_admin", "open")]
    assert not RequestStep.objects.filter(decided_by__isnull=False).exists()


def test_the_organizations_own_policy_goes_before_the_platforms(cast: Cast) -> None:
    make_policy(steps=[{"level": "platform"}])
    make_policy(cast.acme, steps=[{"level": "finance"}])

    assert steps_of(ask(cast)) == [("finance", "open")]
    assert steps_of(ask(cast, "mallory", project=cast.virus)) == [("platform", "open")]


def test_what_is_within_the_band_is_approved_by_the_policy_itself(cast: Cast) -> None:
    make_limit(cast.acme, units=8)
    policy: dict[str, Any] = {
        "automatic_units": {"large": 4},
        "automatic_cost": Decimal(500),
        "currency": "EUR",
    }
    make_policy(**policy)

    request = ask(cast, requested_units=4, estimator=FixedEstimator())

    request.refresh_from_db()
    assert (request.state, request.is_automatic, request.decided_by) == ("approved", True, None)
    assert (request.decided_at, request.decision_note) == (AT, "Within policy.")
    assert steps_of(request) == []
    assert QuotaLimit.objects.get(project=cast.llm).limit_units == 4
    assert audit_actions() == [
        "quotas:request:submit",
        "quotas:limit:set",
        "quotas:request:approve",
    ]
    assert reported() == [("request:approved", "bob")]


@pytest.mark.parametrize(
    ("units", "price"), [(5, "1.00"), (4, "200.00"), (4, None)], ids=["many", "dear", "unknown"]
)
def test_what_is_beyond_the_band_is_left_to_people(
    cast: Cast, units: int, price: str | None
) -> None:
    policy: dict[str, Any] = {
        "automatic_units": {"large": 4},
        "automatic_cost": Decimal(500),
        "currency": "EUR",
    }
    make_policy(**policy)

    request = ask(cast, requested_units=units, estimator=FixedEstimator(price))

    assert (request.state, request.is_automatic) == ("submitted", False)
    assert steps_of(request) == [("organization_admin", "open")]
    assert not QuotaLimit.objects.exists()


def test_small_steps_one_after_another_do_not_slip_through_the_band(cast: Cast) -> None:
    make_policy(automatic_units={"large": 4})
    ask(cast, requested_units=4)

    second = ask(cast, requested_units=6)

    assert second.state == "submitted"
    assert QuotaLimit.objects.get().limit_units == 4


def test_what_would_break_the_tree_is_left_to_people_even_within_the_band(cast: Cast) -> None:
    make_limit(cast.acme, units=2)
    make_policy(automatic_units={"large": 4})

    request = ask(cast, requested_units=4)

    request.refresh_from_db()
    assert (request.state, request.is_automatic) == ("submitted", False)
    assert steps_of(request) == [("organization_admin", "open")]
    assert audit_actions() == ["quotas:request:submit"]
    assert not QuotaLimit.objects.filter(project=cast.llm).exists()


def test_who_does_not_answer_in_time_is_followed_by_the_next_level(cast: Cast) -> None:
    make_policy(escalate_after_hours=24)
    request = ask(cast)
    day = timedelta(hours=24)

    early = escalate_requests(actor=TICK, at=AT + day - timedelta(seconds=1))
    moved = escalate_requests(actor=TICK, at=AT + day)
    again = escalate_requests(actor=TICK, at=AT + day)
    nobody_above = escalate_requests(actor=TICK, at=AT + 2 * day)

    assert (early, moved, again, nobody_above) == (0, 1, 0, 0)
    assert steps_of(request) == [("platform", "open")]
    assert reported() == [("request:submitted", "alice"), ("request:escalated", "frank")]
    assert audit_actions() == ["quotas:request:submit", "quotas:request:escalate"]
    with pytest.raises(ForbiddenError):
        approve(request, cast, "alice")


def test_a_next_step_of_that_level_takes_over_and_finance_is_never_passed_over(cast: Cast) -> None:
    steps = [{"level": "organization_admin"}, {"level": "platform"}, {"level": "finance"}]
    make_policy(steps=steps, escalate_after_hours=24)
    request = ask(cast)

    for days in (1, 2, 3):
        escalate_requests(actor=TICK, at=AT + timedelta(days=days))

    assert steps_of(request) == [
        ("organization_admin", "escalated"),
        ("platform", "open"),
        ("finance", "waiting"),
    ]


def test_without_a_time_limit_nothing_moves(cast: Cast) -> None:
    request = ask(cast)

    assert escalate_requests(actor=TICK, at=AT + timedelta(days=29)) == 0
    assert steps_of(request) == [("organization_admin", "open")]


def test_what_nobody_decides_expires_once_and_stays_expired(cast: Cast) -> None:
    make_policy(expire_after_days=3)
    request = ask(cast)
    end = AT + timedelta(days=3)

    early = expire_requests(actor=TICK, at=end - timedelta(seconds=1))
    first, again = expire_requests(actor=TICK, at=end), expire_requests(actor=TICK, at=end)

    request.refresh_from_db()
    assert (early, first, again) == (0, 1, 0)
    assert (request.state, request.decided_by, request.decided_at) == ("expired", None, end)
    assert steps_of(request) == [("organization_admin", "closed")]
    assert reported() == [("request:submitted", "alice"), ("request:expired", "bob")]
    assert audit_actions() == ["quotas:request:submit", "quotas:request:expire"]
    with pytest.raises(QuotaRequestDecidedError):
        approve(request, cast, "alice")
