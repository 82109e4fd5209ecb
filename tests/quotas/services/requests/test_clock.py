"""What time does to requests: one after the other, each alone, and reported once."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from quotas.models import PreemptionPolicy, QuotaRequest, RequestStep
from quotas.selectors.requests import ending_grants
from quotas.services.requests.clock import escalate_requests, remind_of_ends
from quotas.services.requests.deciding import approve_request
from tenants.domain.actors import system_actor
from tenants.models import Notification
from tenants.selectors.clock import crashes_by_event
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.asking import FRIDAY, ask, make_policy, steps_of
from tests.support.quotas.builders import actor_of, make_grant, make_limit

TICK = system_actor("tests")
SOON = FRIDAY - timedelta(days=1)


def granted(cast: Cast, **requested: Any) -> QuotaRequest:  # noqa: ANN401 - Fields of a body.
    request = ask(cast, **{"end_at": FRIDAY, **requested})
    return approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=AT)


def test_a_request_that_crashes_does_not_keep_the_others_from_moving(cast: Cast) -> None:
    make_policy(escalate_after_hours=24)
    broken, sound = ask(cast), ask(cast, size="small")
    RequestStep.objects.filter(request=broken).update(level="nobody")

    moved = escalate_requests(actor=TICK, at=AT + timedelta(days=1))

    assert moved == 1
    assert crashes_by_event() == {"quotas.requests.crashed": 1}
    assert steps_of(broken) == [("nobody", "open")]
    assert steps_of(sound) == [("platform", "open")]


def test_what_was_reported_is_not_read_again_and_makes_room_for_others(cast: Cast) -> None:
    make_policy(remind_days=1)
    make_limit(cast.acme, cast.llm, units=5)
    make_limit(cast.acme, cast.llm, units=5, size="small")
    granted(cast)
    second = granted(cast, size="small", end_at=FRIDAY + timedelta(hours=1, microseconds=5))

    assert remind_of_ends(actor=TICK, at=SOON) == 1
    later = SOON + timedelta(hours=2)
    with CaptureQueriesContext(connection) as statements:
        found = ending_grants(at=later, limit=1)

    assert [request for _, request in found] == [second]
    assert len(statements) == 3
    assert remind_of_ends(actor=TICK, at=later) == 1
    assert ending_grants(at=later, limit=1) == []


def test_an_organization_with_many_days_is_not_hidden_behind_one_with_few(cast: Cast) -> None:
    make_policy(remind_days=1)
    make_policy(cast.acme, remind_days=4)
    make_limit(cast.acme, cast.llm, units=5)
    make_limit(cast.umbrella, cast.virus, units=5)
    foreign = ask(cast, "mallory", project=cast.virus, end_at=FRIDAY - timedelta(hours=1))
    approve_request(request_id=foreign.pk, actor=actor_of(cast.frank), at=AT)
    request = granted(cast)

    assert [one for _, one in ending_grants(at=AT + timedelta(hours=1), limit=1)] == [request]


def test_of_several_grants_of_a_request_the_last_one_ends_it(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=5)
    make_grant(limit, 9, AT + timedelta(days=1), AT + timedelta(days=2))
    request = granted(cast)

    (found,) = ending_grants(at=AT, limit=9)

    assert (found[0].valid.upper, found[1]) == (FRIDAY, request)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (None, "until an administrator ends those"),
        ("propose", "until an administrator ends those"),
        ("execute", "over the limit are ended after a time of grace"),
        ("off", "pods that are running keep running"),
    ],
)
def test_a_reminder_says_what_becomes_of_running_pods(
    cast: Cast, mode: str | None, says: str
) -> None:
    if mode is not None:
        PreemptionPolicy.objects.create(organization=cast.acme, mode=mode)
    make_limit(cast.acme, cast.llm, units=5)
    granted(cast)

    remind_of_ends(actor=TICK, at=SOON)

    assert says in Notification.objects.get(event="quotas:grant:ending").text
