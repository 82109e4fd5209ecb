"""People choose over REST what they are mailed about, and send failed deliveries again."""

from typing import Any

import pytest
from django.db import transaction

from tenants.domain.notification_events import NOTIFICATION_EVENTS
from tenants.models import NotificationDelivery, NotificationEndpoint, NotificationPreference
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT, make_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

pytestmark = pytest.mark.django_db
MINE = "/api/v1/me/notifications/"
DELIVERIES = "/api/v1/notification-deliveries/"
APPROVED = "quotas:request:approved"
PLATFORM_ONLY = {
    "tenants:account_change:asked",
    "metering:incident:opened",
    "billing:period:blocked",
    "billing:export:failed",
}


@shared_rows
def cast() -> Cast:
    return make_cast()


def choose(cast: Cast, body: dict[str, Any], version: str = '"1"') -> Any:  # noqa: ANN401 - An answer.
    client = api_client(cast.alice)
    return client.patch(MINE, body, format="json", headers={"If-Match": version})


def test_before_a_choice_everything_of_ones_roles_is_mailed(cast: Cast) -> None:
    answer = api_client(cast.alice).get(MINE)

    shown = answer.json()
    assert (shown["muted_events"], shown["language"], answer["ETag"]) == ([], "", '"1"')
    assert {one["event"] for one in shown["events"]} == set(NOTIFICATION_EVENTS) - PLATFORM_ONLY
    assert {one["is_mailed"] for one in shown["events"]} == {True}
    assert not NotificationPreference.objects.exists()


def test_people_of_the_platform_are_offered_its_events(cast: Cast) -> None:
    shown = api_client(cast.dora).get(MINE).json()

    assert {one["event"] for one in shown["events"]} >= PLATFORM_ONLY


def test_a_choice_is_kept_field_by_field(cast: Cast) -> None:
    first = choose(cast, {"muted_events": [APPROVED]})
    second = choose(cast, {"language": "de"}, '"2"')

    shown = second.json()
    mailed = {one["event"]: one["is_mailed"] for one in shown["events"]}
    assert (first.status_code, second.status_code, second["ETag"]) == (200, 200, '"3"')
    assert (shown["muted_events"], shown["language"]) == ([APPROVED], "de")
    assert [name for name, is_mailed in mailed.items() if not is_mailed] == [APPROVED]


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"muted_events": ["quotas:request:*"]}, '"1"', 422),
        ({"language": "fr"}, '"1"', 422),
        ({"mail": False}, '"1"', 422),
        ({"language": "de"}, '"9"', 412),
        ({"language": "de"}, "", 428),
    ],
)
def test_what_cannot_be_chosen_is_refused(
    cast: Cast, body: dict[str, Any], version: str, status: int
) -> None:
    assert choose(cast, body, version).status_code in {status, 400 if status == 422 else status}
    assert not NotificationPreference.objects.exists()


def test_programs_limited_tokens_and_strangers_have_no_notifications(cast: Cast) -> None:
    limited = api_client(cast.alice, scopes=("metering:usage:read",))
    stranger = api_client(make_user("nina"))

    for client in (limited, stranger):
        assert problem(client.get(MINE)) == (403, "forbidden")


def given_up(cast: Cast, *, to_person: bool) -> NotificationDelivery:
    """Return a failed delivery of Acme, to its endpoint or to Alice."""
    endpoint = NotificationEndpoint.objects.create(
        organization=cast.acme, kind="mail", address="gpu@acme.test", events=["*"], created_at=AT
    )
    with transaction.atomic():
        notify(
            event=APPROVED,
            organization_id=cast.acme.pk,
            subject="Approved",
            text="Yes.",
            usernames=["alice"],
            at=AT,
        )
    NotificationDelivery.objects.update(state="given_up", attempts=10, last_error="timeout: No.")
    rows = NotificationDelivery.objects.all()
    return rows.get(endpoint=None) if to_person else rows.get(endpoint=endpoint)


def test_a_failed_delivery_says_what_to_do_and_is_sent_again(cast: Cast) -> None:
    delivery, client = given_up(cast, to_person=False), api_client(cast.alice)
    path = f"{DELIVERIES}{delivery.pk}/"

    shown = client.get(path).json()
    again = client.post(f"{path}send-again/", {}, format="json")
    twice = client.post(f"{path}send-again/", {}, format="json")

    assert shown["remedy"] == "Let the receiver answer within 5 s. Then send it again."
    assert (again.status_code, again.json()["state"], again.json()["attempts"]) == (
        200,
        "pending",
        0,
    )
    assert again.json()["remedy"] == ""
    assert problem(twice) == (409, "notification_delivery_not_failed")


def test_deliveries_to_people_are_sent_again_by_the_platform_only(cast: Cast) -> None:
    path = f"{DELIVERIES}{given_up(cast, to_person=True).pk}/send-again/"
    answers = [
        api_client(person).post(path, {}, format="json").status_code
        for person in (cast.alice, cast.ann, cast.frank)
    ]

    assert answers == [404, 403, 200]
