"""What can be asked: for whom, of what, from when to when, and what it becomes."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaInputError,
    QuotaRequestDecidedError,
    QuotaRequestNothingMoreError,
    QuotaRequestNotRenewableError,
    QuotaRequestOutdatedError,
    QuotaRequestWithoutLimitError,
)
from quotas.models import QuotaGrant, QuotaLimit, QuotaRequest
from quotas.services.requests.asking import renew_request
from quotas.services.requests.clock import expire_requests, remind_of_ends
from quotas.services.requests.deciding import approve_request
from tenants.domain.actors import system_actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.refusals import ClusterClosedError
from tenants.models import Notification
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.asking import FRIDAY, LATER, FixedEstimator, ask, make_policy, reported
from tests.support.quotas.builders import actor_of, audit_actions, make_limit

TICK = system_actor("tests")


def approve(request: QuotaRequest, cast: Cast) -> QuotaRequest:
    return approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=AT)


def test_a_request_without_times_changes_the_very_limit_it_names(cast: Cast) -> None:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, cast.llm, units=16)
    request = ask(
        cast,
        user=cast.carol,
        model_group="H100",
        cluster=hopper,
        requested_units=3,
        burst_units=2,
    )

    approve(request, cast)

    limit = QuotaLimit.objects.get(user=cast.carol)
    assert (limit.scope, limit.project, limit.size) == ("user", cast.llm, "large")
    assert (limit.model_group, limit.cluster) == ("H100", hopper)
    assert (limit.limit_units, limit.burst_units) == (3, 2)
    assert QuotaLimit.objects.count() == 2


def test_burst_units_that_are_not_asked_for_stay(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)
    QuotaLimit.objects.filter(pk=limit.pk).update(burst_units=5)

    approve(ask(cast, requested_units=8), cast)

    limit.refresh_from_db()
    assert (limit.limit_units, limit.burst_units) == (8, 5)


def test_units_until_friday_come_on_top_of_the_limit_up_to_the_wanted_total(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=5)

    request = ask(cast, requested_units=8, end_at=FRIDAY)
    approve(request, cast)

    grant = QuotaGrant.objects.get()
    assert request.units_before == 5
    assert (grant.limit, grant.units, grant.reason) == (limit, 3, "request")
    assert (grant.valid, grant.reference) == (DateTimeTZRange(AT, FRIDAY), str(request.pk))
    limit.refresh_from_db()
    assert (limit.limit_units, limit.generation) == (5, 1)


def test_grants_that_are_in_force_then_count_towards_the_wanted_total(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    approve(ask(cast, requested_units=8, end_at=FRIDAY), cast)

    second = ask(cast, requested_units=10, end_at=AT + timedelta(days=1))
    later = ask(cast, requested_units=10, begin_at=FRIDAY)
    approve(second, cast)
    approve(later, cast)

    assert (second.units_before, later.units_before) == (8, 5)
    assert [g.units for g in QuotaGrant.objects.order_by("pk")] == [3, 2, 5]
    assert QuotaGrant.objects.order_by("pk").last().valid == DateTimeTZRange(FRIDAY, None)  # type: ignore[union-attr]


@pytest.mark.parametrize("units", [None, 0])
def test_units_for_a_time_take_a_limit(cast: Cast, units: int | None) -> None:
    if units is not None:
        make_limit(cast.acme, cast.llm, units=8, size="small")

    with pytest.raises(QuotaRequestWithoutLimitError) as refusal:
        ask(cast, end_at=FRIDAY)

    assert refusal.value.field == "begin_at"
    assert "without begin_at and end_at" in refusal.value.advice
    assert not QuotaRequest.objects.exists()


def test_units_for_a_time_mean_nothing_where_any_number_may_be_held(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm)
    QuotaLimit.objects.filter(pk=limit.pk).update(limit_units=None)

    with pytest.raises(QuotaRequestWithoutLimitError, match="unlimited"):
        ask(cast, end_at=FRIDAY)

    assert not QuotaRequest.objects.exists()


@pytest.mark.parametrize("units", [0, 7, 8])
def test_a_total_that_is_not_more_than_what_is_in_force_is_refused(cast: Cast, units: int) -> None:
    make_limit(cast.acme, cast.llm, units=8)

    with pytest.raises(QuotaRequestNothingMoreError) as refusal:
        ask(cast, requested_units=units, end_at=FRIDAY)

    assert refusal.value.facts == {"units_in_force": 8, "requested_units": units}
    assert "never the difference" in refusal.value.advice
    assert not QuotaRequest.objects.exists()


def test_a_grant_that_would_break_the_tree_at_some_instant_is_not_made(cast: Cast) -> None:
    make_limit(cast.acme, units=10)
    make_limit(cast.acme, cast.llm, units=5)
    make_limit(cast.acme, cast.vision, units=5)
    request = ask(cast, requested_units=6, begin_at=FRIDAY, end_at=LATER)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        approve(request, cast)

    assert {problem.field for problem in refusal.value.problems} == {"requested_units"}
    request.refresh_from_db()
    assert request.state == "submitted"
    assert not QuotaGrant.objects.exists()


def test_an_approval_that_comes_late_grants_from_then_on(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    request = ask(cast, requested_units=8, begin_at=AT + timedelta(days=1), end_at=FRIDAY)
    late = AT + timedelta(days=2)

    approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=late)

    assert QuotaGrant.objects.get().valid == DateTimeTZRange(late, FRIDAY)


def test_a_time_that_is_over_is_granted_to_nobody_and_expires(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    request = ask(cast, end_at=FRIDAY)

    assert request.expires_at == FRIDAY
    with pytest.raises(QuotaRequestOutdatedError, match="is over"):
        approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=FRIDAY)
    assert not QuotaGrant.objects.exists()
    assert expire_requests(actor=TICK, at=FRIDAY) == 1


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"begin_at": AT}, ["begin_at"]),
        ({"end_at": AT - timedelta(days=1)}, ["end_at"]),
        ({"begin_at": FRIDAY, "end_at": FRIDAY}, ["end_at"]),
        ({"begin_at": LATER, "end_at": FRIDAY}, ["end_at"]),
        ({"end_at": AT + timedelta(days=4_000)}, ["end_at"]),
        ({"requested_units": -1}, ["requested_units"]),
        ({"requested_units": 1.5}, ["requested_units"]),
        ({"requested_units": True}, ["requested_units"]),
        ({"requested_units": 10**9}, ["requested_units"]),
        ({"burst_units": -1}, ["burst_units"]),
        ({"burst_units": 2, "end_at": FRIDAY}, ["burst_units"]),
        ({"model_group": "H100/whole"}, ["model_group"]),
        ({"size": "huge", "justification": "\x00"}, ["size", "justification"]),
        (
            {"size": "", "requested_units": -1, "burst_units": 10**9, "end_at": AT},
            ["size", "requested_units", "burst_units", "burst_units", "end_at"],
        ),
    ],
)
def test_what_can_never_be_asked_is_refused_with_every_field(
    cast: Cast, fields: dict[str, Any], problems: list[str]
) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        ask(cast, **fields)

    assert [problem.field for problem in refusal.value.problems] == problems
    assert not QuotaRequest.objects.exists()
    assert audit_actions() == []


def test_another_tenants_project_is_nobodys_to_ask_for(cast: Cast) -> None:
    with pytest.raises(ForbiddenError):
        ask(cast, project=cast.virus)

    assert not QuotaRequest.objects.exists()


def test_a_closed_cluster_takes_nothing_new(cast: Cast) -> None:
    with pytest.raises(ClusterClosedError):
        ask(cast, cluster=make_cluster("old", state="closed"))

    assert not QuotaRequest.objects.exists()


def test_the_cost_is_kept_as_it_was_reported(cast: Cast) -> None:
    estimator = FixedEstimator()

    request = ask(cast, requested_units=8, burst_units=2, estimator=estimator)

    assert request.cost == {
        "currency": "EUR",
        "at_full_use": "1000.00",
        "at_last_use": "500.00",
        "price_group": "H100/whole",
        "note": "",
    }
    assert [(asked["units"], asked["is_burst"]) for asked in estimator.asked] == [
        (8, False),
        (2, True),
    ]


def test_what_nobody_can_price_is_said_and_never_nothing(cast: Cast) -> None:
    request = ask(cast)
    other = ask(cast, burst_units=1, estimator=FixedEstimator(None))

    assert request.cost["at_full_use"] is None
    assert request.cost["note"] == "Nobody here knows prices."
    assert (other.cost["at_full_use"], other.cost["note"]) == (None, "No price is known.")


def test_a_new_request_withdraws_the_one_it_stands_for(cast: Cast) -> None:
    first = ask(cast, requested_units=8)

    second = ask(cast, requested_units=6, supersedes=first)

    first.refresh_from_db()
    assert (first.state, first.decision_note, second.supersedes) == (
        "cancelled",
        "Asked anew.",
        first,
    )
    approve(second, cast)


def test_what_is_decided_or_of_another_project_is_not_withdrawn_so(cast: Cast) -> None:
    decided = approve(ask(cast, requested_units=6), cast)
    foreign = ask(cast, "mallory", project=cast.virus)

    with pytest.raises(QuotaRequestDecidedError):
        ask(cast, requested_units=9, supersedes=decided)
    with pytest.raises(NotFoundError):
        ask(cast, requested_units=9, supersedes=foreign)

    foreign.refresh_from_db()
    assert (foreign.state, QuotaRequest.objects.count()) == ("submitted", 2)


def test_who_asked_is_reported_once_that_a_grant_ends_soon(cast: Cast) -> None:
    make_policy(remind_days=2)
    make_limit(cast.acme, cast.llm, units=5)
    approve(ask(cast, end_at=FRIDAY), cast)
    before = reported()

    early = remind_of_ends(actor=TICK, at=FRIDAY - timedelta(days=2, seconds=1))
    first = remind_of_ends(actor=TICK, at=FRIDAY - timedelta(days=2))
    again = remind_of_ends(actor=TICK, at=FRIDAY - timedelta(days=1))
    over = remind_of_ends(actor=TICK, at=FRIDAY)

    assert (early, first, again, over) == (0, 1, 0, 0)
    assert reported() == [*before, ("grant:ending", "bob")]
    text = Notification.objects.get(event="quotas:grant:ending").text
    assert text.startswith("LLM holds 3 more large than its limit until 6 November 2026")


def test_a_renewal_begins_when_the_grant_ends_and_wants_the_same_total(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    first = approve(ask(cast, requested_units=8, end_at=FRIDAY), cast)

    second = renew_request(
        request=first, end_at=LATER, justification="Still.", actor=actor_of(cast.bob), at=AT
    )
    reminded = remind_of_ends(actor=TICK, at=FRIDAY - timedelta(days=1))
    approve(second, cast)

    assert (second.renews, second.requested_units, second.units_before) == (first, 8, 5)
    assert (second.begin_at, second.end_at) == (FRIDAY, LATER)
    assert reminded == 0
    spans = [(g.units, g.valid.lower, g.valid.upper) for g in QuotaGrant.objects.order_by("pk")]
    assert spans == [(3, AT, FRIDAY), (3, FRIDAY, LATER)]


def test_only_what_was_approved_until_a_time_is_renewed(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    submitted = ask(cast, end_at=FRIDAY)
    endless = approve(ask(cast, requested_units=6, size="small"), cast)

    for request in (submitted, endless):
        with pytest.raises(QuotaRequestNotRenewableError):
            renew_request(
                request=request, end_at=LATER, justification="x", actor=actor_of(cast.bob), at=AT
            )

    assert QuotaRequest.objects.count() == 2


def test_the_use_of_a_whole_project_is_called_that_where_less_is_asked_for(cast: Cast) -> None:
    hopper = make_cluster("hopper")

    for_carol = ask(cast, user=cast.carol, estimator=FixedEstimator())
    for_both = ask(cast, user=cast.carol, cluster=hopper, estimator=FixedEstimator())
    there = ask(cast, cluster=hopper, estimator=FixedEstimator())

    assert [one.cost["note"] for one in (for_carol, for_both, there)] == [
        "The use is the whole project's, not only that of carol.",
        "The use is the whole project's, not only that of carol on hopper.",
        "The use is the whole project's, not only that on hopper.",
    ]
