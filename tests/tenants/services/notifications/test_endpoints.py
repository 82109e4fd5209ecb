"""Endpoints are registered by those whose matter they are, changed, and closed."""

from typing import Any

import pytest

from tenants.access import deliveries_visible_to, endpoints_visible_to
from tenants.domain.errors import ForbiddenError, InvalidInputError
from tenants.domain.refusals import EndpointClosedError, EndpointKnownError, StaleVersionError
from tenants.models import AuditEntry, NotificationDelivery, NotificationEndpoint
from tenants.selectors.actors import actor_of_user
from tenants.selectors.notifications import (
    deliveries_given_up,
    oldest_undelivered_age,
)
from tenants.services.notifications.endpoints import (
    change_endpoint,
    close_endpoint,
    register_endpoint,
)
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

HOOK = {
    "kind": "webhook",
    "address": "https://hooks.example.com/gpu",
    "secret_reference": "env:WEBHOOK_SECRET_ACME",
}


@shared_rows
def cast() -> Cast:
    return make_cast()


def register(cast: Cast, name: str = "alice", **fields: Any) -> NotificationEndpoint:  # noqa: ANN401 - As the service.
    given: dict[str, Any] = {
        "organization": cast.acme,
        "kind": "mail",
        "address": "gpu@acme.test",
        "events": ["quotas:request:*"],
        "actor": actor_of_user(getattr(cast, name)),
        "at": AT,
    }
    return register_endpoint(**{**given, **fields})


def test_an_organization_registers_a_mail_address_and_the_platform_a_webhook(cast: Cast) -> None:
    mail, hook = register(cast), register(cast, "frank", **HOOK)

    assert (mail.organization, mail.kind, mail.events) == (cast.acme, "mail", ["quotas:request:*"])
    assert hook.secret_reference == "env:WEBHOOK_SECRET_ACME"
    assert [entry.action for entry in AuditEntry.objects.all()] == [
        "tenants:notification_endpoint:create"
    ] * 2


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("alice", HOOK),
        ("alice", {"organization": None}),
        ("mallory", {}),
        ("bob", {}),
        ("ann", {}),
        ("dora", {"organization": None}),
    ],
)
def test_nobody_else_does(cast: Cast, name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ForbiddenError):
        register(cast, name, **fields)

    assert not NotificationEndpoint.objects.exists()


def test_everything_wrong_with_an_endpoint_is_reported_at_once(cast: Cast) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        register(
            cast,
            "frank",
            kind="webhook",
            address="http://127.0.0.1/",
            secret_reference="env:SECRET_KEY",
            events=["nothing"],
        )

    assert [problem.field for problem in refusal.value.problems] == [
        "address",
        "secret_reference",
        "events.0",
    ]
    assert not NotificationEndpoint.objects.exists()


def test_an_event_that_does_not_exist_is_refused_when_made_and_when_changed(cast: Cast) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        register(cast, events=["quotas:requests:*"])

    (problem,) = refusal.value.problems
    assert (problem.field, problem.code) == ("events.0", "event_unknown")
    assert "quotas:request:approved" in problem.message
    assert not NotificationEndpoint.objects.exists()
    mail, alice = register(cast), actor_of_user(cast.alice)
    with pytest.raises(InvalidInputError):
        change_endpoint(endpoint=mail, changes={"events": ["a:b:c"]}, actor=alice, at=AT)
    mail.refresh_from_db()
    assert (mail.events, mail.version) == (["quotas:request:*"], 1)


def test_an_address_is_reported_once(cast: Cast) -> None:
    first = register(cast)

    with pytest.raises(EndpointKnownError):
        register(cast)
    close_endpoint(endpoint=first, actor=actor_of_user(cast.alice), at=AT)

    assert register(cast).pk != first.pk


def test_a_closed_endpoint_is_reported_nothing_that_was_still_on_its_way(cast: Cast) -> None:
    mail = register(cast)
    other = register(cast, address="other@acme.test")
    for key in ("sent", "waiting"):
        notify(
            event="quotas:request:approved",
            organization_id=cast.acme.pk,
            subject="x",
            text="x",
            key=key,
            usernames=["bob"],
            at=AT,
        )
    before = NotificationDelivery.objects.filter(endpoint=mail, notification__key="sent")
    before.update(state="sent", sent_at=AT)

    close_endpoint(endpoint=mail, actor=actor_of_user(cast.alice), at=AT)

    rows = NotificationDelivery.objects.order_by("notification__key", "address")
    assert list(rows.values_list("notification__key", "address", "state")) == [
        ("sent", "bob@example.test", "pending"),
        ("sent", "gpu@acme.test", "sent"),
        ("sent", "other@acme.test", "pending"),
        ("waiting", "bob@example.test", "pending"),
        ("waiting", "gpu@acme.test", "skipped"),
        ("waiting", "other@acme.test", "pending"),
    ]
    assert rows.get(state="skipped").last_error == "Its endpoint was closed."
    assert other.state == "active"


def test_events_change_at_a_known_version_and_nothing_else_does(cast: Cast) -> None:
    mail, alice = register(cast), actor_of_user(cast.alice)

    changed = change_endpoint(
        endpoint=mail, changes={"events": ["*"]}, expected_version=1, actor=alice, at=AT
    )

    assert (changed.events, changed.version) == (["*"], 2)
    with pytest.raises(StaleVersionError):
        change_endpoint(endpoint=mail, changes={}, expected_version=1, actor=alice, at=AT)
    with pytest.raises(InvalidInputError):
        change_endpoint(endpoint=mail, changes={"events": []}, actor=alice, at=AT)
    with pytest.raises(ValueError, match="not editable"):
        change_endpoint(endpoint=mail, changes={"address": "x@y.z"}, actor=alice, at=AT)
    with pytest.raises(ForbiddenError):
        close_endpoint(endpoint=mail, actor=actor_of_user(cast.mallory), at=AT)


def test_a_closed_endpoint_changes_no_more_and_its_address_is_registered_again(cast: Cast) -> None:
    mail, alice = register(cast), actor_of_user(cast.alice)
    close_endpoint(endpoint=mail, actor=alice, at=AT)

    with pytest.raises(EndpointClosedError) as refusal:
        change_endpoint(endpoint=mail, changes={"events": ["*"]}, actor=alice, at=AT)
    again = register(cast, events=["*"])

    mail.refresh_from_db()
    assert refusal.value.code == "notification_endpoint_closed"
    assert (mail.state, mail.events, mail.version) == ("closed", ["quotas:request:*"], 2)
    assert (again.state, again.events, again.address) == ("active", ["*"], mail.address)


def test_an_organization_sees_its_own_and_no_address_of_the_platforms_people(cast: Cast) -> None:
    register(cast)
    register(cast, "frank", organization=None, address="noc@platform.test")
    notify(
        event="quotas:request:approved",
        organization_id=cast.acme.pk,
        subject="x",
        text="x",
        usernames=["frank"],
        at=AT,
    )

    def seen(name: str) -> tuple[list[str], list[str]]:
        actor = actor_of_user(getattr(cast, name))
        return (
            sorted(endpoints_visible_to(actor).values_list("address", flat=True)),
            sorted(deliveries_visible_to(actor).values_list("address", flat=True)),
        )

    everything = ["frank@example.test", "gpu@acme.test", "noc@platform.test"]
    assert seen("alice") == (["gpu@acme.test"], ["gpu@acme.test"])
    assert seen("mallory") == seen("bob") == ([], [])
    assert seen("ann") == (["gpu@acme.test", "noc@platform.test"], everything)
    assert oldest_undelivered_age(at=AT) == {"mail": 0}
    assert deliveries_given_up() == {}
