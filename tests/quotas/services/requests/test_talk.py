"""Previews write nothing, several requests are made or none, and comments reach people."""

from typing import Any

import pytest

from quotas.domain.errors import (
    PersonRequiredError,
    QuotaBulkRefusedError,
    QuotaInputError,
    QuotaRequestNothingMoreError,
    RequestPolicyExistsError,
)
from quotas.domain.requests.routing import RequestLevel
from quotas.models import QuotaGrant, QuotaLimit, QuotaRequest, RequestComment, RequestPolicy
from quotas.services.requests.asking import BULK_MAX, comment_request, make_requests
from quotas.services.requests.deciding import approve_request
from quotas.services.requests.policies import change_policy, make_policy
from quotas.services.requests.preview import preview_request
from tenants.domain.actors import system_actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry, Notification
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.asking import FRIDAY, FixedEstimator, ask, draft, reported
from tests.support.quotas.asking import make_policy as saved_policy
from tests.support.quotas.builders import actor_of, audit_actions, make_limit


def test_a_preview_shows_cost_and_deciders_and_writes_nothing(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)

    preview = preview_request(
        draft=draft(cast), estimator=FixedEstimator(), actor=actor_of(cast.bob), at=AT
    )

    assert (preview.units_before, preview.levels) == (5, (RequestLevel.ORGANIZATION_ADMIN,))
    assert (preview.cost["at_full_use"], preview.problems) == ("800.00", ())
    assert not QuotaRequest.objects.exists()
    assert QuotaLimit.objects.get().limit_units == 5
    assert audit_actions() == []
    assert reported() == []


def test_a_preview_shows_what_stands_against_it(cast: Cast) -> None:
    make_limit(cast.acme, units=6)
    make_limit(cast.acme, cast.llm, units=5)
    saved_policy(automatic_units={"large": 8})

    tight = preview_request(draft=draft(cast), actor=actor_of(cast.bob), at=AT)
    fitting = preview_request(
        draft=draft(cast, requested_units=6, end_at=FRIDAY), actor=actor_of(cast.bob), at=AT
    )

    assert [problem.field for problem in tight.problems] == ["requested_units"]
    assert tight.levels == (RequestLevel.ORGANIZATION_ADMIN,)
    assert (fitting.problems, fitting.levels) == ((), ())
    assert not QuotaGrant.objects.exists()


def test_a_preview_refuses_what_asking_would_refuse(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=8)

    with pytest.raises(QuotaInputError):
        preview_request(draft=draft(cast, size="huge"), actor=actor_of(cast.bob), at=AT)
    with pytest.raises(QuotaRequestNothingMoreError):
        preview_request(draft=draft(cast, end_at=FRIDAY), actor=actor_of(cast.bob), at=AT)
    with pytest.raises(ForbiddenError):
        preview_request(draft=draft(cast), actor=actor_of(cast.mallory), at=AT)


def test_several_requests_are_made_together(cast: Cast) -> None:
    made = make_requests(
        drafts=[draft(cast), draft(cast, size="small", requested_units=2)],
        actor=actor_of(cast.bob),
        at=AT,
    )

    assert [(request.size, request.requested_units) for request in made] == [
        ("large", 8),
        ("small", 2),
    ]
    assert audit_actions() == ["quotas:request:submit"] * 2


def test_one_wrong_request_keeps_all_from_being_made_and_every_problem_has_its_place(
    cast: Cast,
) -> None:
    drafts = [
        draft(cast),
        draft(cast, size="huge", requested_units=-1),
        draft(cast, project=cast.virus),
        draft(cast, end_at=FRIDAY),
    ]

    with pytest.raises(QuotaBulkRefusedError) as refusal:
        make_requests(drafts=drafts, actor=actor_of(cast.bob), at=AT)

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("requests.1.size", "size_unknown"),
        ("requests.1.requested_units", "units_invalid"),
        ("requests.2", "forbidden"),
        ("requests.3.begin_at", "quota_request_without_limit"),
    ]
    assert not QuotaRequest.objects.exists()
    assert not Notification.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("count", [0, BULK_MAX + 1])
def test_a_bulk_has_a_size(cast: Cast, count: int) -> None:
    with pytest.raises(QuotaBulkRefusedError) as refusal:
        make_requests(drafts=[draft(cast)] * count, actor=actor_of(cast.bob), at=AT)

    assert [problem.field for problem in refusal.value.problems] == ["requests"]
    assert not QuotaRequest.objects.exists()


@pytest.mark.parametrize("name", ["bob", "alice", "frank", "dora"])
def test_who_asks_or_decides_may_comment_and_is_heard(cast: Cast, name: str) -> None:
    request = ask(cast)

    comment = comment_request(
        request_id=request.pk, text="How long?", actor=actor_of(getattr(cast, name)), at=AT
    )

    assert RequestComment.objects.get() == comment
    assert (comment.author, comment.text) == (getattr(cast, name), "How long?")
    assert reported()[1:] == [("request:commented", "alice"), ("request:commented", "bob")]
    assert Notification.objects.latest("pk").text == f"{name} writes:\n\nHow long?"
    assert audit_actions() == ["quotas:request:submit", "quotas:request:comment"]


@pytest.mark.parametrize("name", ["carol", "ann", "mallory"])
def test_nobody_else_comments(cast: Cast, name: str) -> None:
    request = ask(cast)

    with pytest.raises(ForbiddenError):
        comment_request(
            request_id=request.pk, text="Hi", actor=actor_of(getattr(cast, name)), at=AT
        )

    assert not RequestComment.objects.exists()


@pytest.mark.parametrize("text", ["", "  ", "\x00", "x" * 4_001])
def test_a_comment_says_something_that_can_be_kept(cast: Cast, text: str) -> None:
    request = ask(cast)

    with pytest.raises(QuotaInputError):
        comment_request(request_id=request.pk, text=text, actor=actor_of(cast.bob), at=AT)
    with pytest.raises(NotFoundError):
        comment_request(request_id=new_id(), text="Hi", actor=actor_of(cast.bob), at=AT)
    with pytest.raises(PersonRequiredError):
        comment_request(request_id=request.pk, text="Hi", actor=system_actor("x"), at=AT)

    assert not RequestComment.objects.exists()


def test_a_mail_to_a_decider_says_everything_that_is_needed_to_decide(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    request = ask(cast, end_at=FRIDAY, estimator=FixedEstimator())

    notification = Notification.objects.get()
    assert notification.subject == "LLM asks for 8 large"
    assert notification.text.splitlines() == [
        (
            "bob asks that LLM may hold 8 large in all (now 5), from the approval on, until "
            "6 November 2026, 09:00 UTC."
        ),
        "",
        "Why: A bigger model.",
        "Cost a month: 800.00 EUR at full use, 400.00 EUR at the use of the last 30 days.",
        "",
        "It waits for you: approve or reject it on its page, or over REST:",
        f"POST /api/v1/quota-requests/{request.pk}/approve/",
        "Undecided, it expires on 6 November 2026, 09:00 UTC.",
    ]


def test_a_mail_about_a_decision_says_what_holds_now(cast: Cast) -> None:
    request = ask(cast, burst_units=2, user=cast.carol, model_group="H100")

    approve_request(request_id=request.pk, note="Until March.", actor=actor_of(cast.alice), at=AT)

    notification = Notification.objects.latest("pk")
    assert notification.subject == "8 large of H100 and 2 burst for carol in LLM: approved"
    assert notification.text.splitlines() == [
        (
            "Your request is approved by alice: carol in LLM may hold 8 large of H100 and 2 burst "
            "in all (no number was set), from the approval on, without end."
        ),
        "",
        "Note: Until March.",
        "",
        "The clusters follow within seconds.",
    ]


POLICY: dict[str, Any] = {
    "currency": "EUR",
    "steps": [
        {"level": "organization_admin"},
        {"level": "finance", "units_from": {"large": 16}, "cost_from": "10000.00"},
    ],
    "automatic_units": {"small": 4},
    "automatic_cost": "500.00",
    "escalate_after_hours": 24,
    "expire_after_days": 14,
    "remind_days": 3,
}


def test_the_platform_writes_policies(cast: Cast) -> None:
    policy = make_policy(organization=cast.acme, fields=POLICY, actor=actor_of(cast.frank), at=AT)

    changed = change_policy(
        policy=policy,
        changes={"remind_days": 5},
        expected_version=1,
        actor=actor_of(cast.frank),
        at=AT,
    )

    assert (changed.version, changed.remind_days, changed.steps) == (2, 5, POLICY["steps"])
    assert audit_actions() == ["quotas:request_policy:create", "quotas:request_policy:update"]
    assert AuditEntry.objects.latest("pk").facts["automatic_cost"] == "500.0000"
    with pytest.raises(StaleVersionError):
        change_policy(
            policy=policy, changes={}, expected_version=1, actor=actor_of(cast.frank), at=AT
        )
    with pytest.raises(RequestPolicyExistsError):
        make_policy(organization=cast.acme, fields={}, actor=actor_of(cast.frank), at=AT)
    with pytest.raises(ValueError, match="not editable"):
        change_policy(policy=policy, changes={"version": 9}, actor=actor_of(cast.frank), at=AT)


@pytest.mark.parametrize("name", ["alice", "bob", "dora", "ann"])
def test_nobody_below_the_platform_says_who_decides(cast: Cast, name: str) -> None:
    with pytest.raises(ForbiddenError):
        make_policy(organization=None, fields={}, actor=actor_of(getattr(cast, name)), at=AT)

    assert not RequestPolicy.objects.exists()


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({"steps": []}, ["steps"]),
        ({"steps": "finance"}, ["steps"]),
        ({"steps": [{}] * 9}, ["steps"]),
        ({"steps": ["finance"]}, ["steps.0"]),
        ({"steps": [{"level": "finance", "who": "me"}]}, ["steps.0"]),
        ({"steps": [{"level": "boss"}]}, ["steps.0.level"]),
        ({"steps": [{"level": "finance", "units_from": {"huge": 1}}]}, ["steps.0.units_from"]),
        ({"steps": [{"level": "finance", "units_from": []}]}, ["steps.0.units_from"]),
        (
            {"steps": [{"level": "finance", "units_from": {"large": -1}}]},
            ["steps.0.units_from.large"],
        ),
        (
            {"steps": [{"level": "finance", "cost_from": 5}]},
            ["steps.0.cost_from", "currency"],
        ),
        ({"currency": "EUR", "automatic_cost": "NaN"}, ["automatic_cost"]),
        ({"currency": "EUR", "automatic_cost": "-1"}, ["automatic_cost"]),
        ({"currency": "EUR", "automatic_cost": "x"}, ["automatic_cost"]),
        ({"automatic_cost": "1"}, ["currency"]),
        ({"currency": "euro"}, ["currency"]),
        ({"currency": 5, "steps": None}, ["steps", "currency"]),
        ({"automatic_units": {"small": True}}, ["automatic_units.small"]),
        ({"escalate_after_hours": 0}, ["escalate_after_hours"]),
        ({"expire_after_days": None}, ["expire_after_days"]),
        ({"remind_days": 91}, ["remind_days"]),
    ],
)
def test_a_policy_that_can_never_be_one_is_refused_with_every_place(
    cast: Cast, fields: dict[str, Any], places: list[str]
) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        make_policy(organization=None, fields=fields, actor=actor_of(cast.frank), at=AT)

    assert [problem.field for problem in refusal.value.problems] == places
    assert not RequestPolicy.objects.exists()
