"""What happened is written down for everybody who is to be reported, once."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tenants.domain.identity.roles import Role
from tenants.models import Notification, NotificationDelivery, NotificationEndpoint, Organization
from tenants.services.notifications.outbox import PersonalNews, notify, notify_each
from tests.support.builders import AT, grant, make_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows


@shared_rows
def cast() -> Cast:
    return make_cast()


def tell(**fields: Any) -> Any:  # noqa: ANN401 - As the service.
    given: dict[str, Any] = {
        "event": "quotas:request:approved",
        "organization_id": None,
        "subject": "Your request is approved",
        "text": "LLM may hold 8 large.",
        "at": AT,
    }
    return notify(**{**given, **fields})


def endpoint(
    organization: Organization | None, address: str, *events: str, **fields: object
) -> NotificationEndpoint:
    return NotificationEndpoint.objects.create(
        organization=organization,
        kind="webhook" if "/" in address else "mail",
        address=address,
        events=list(events) or ["*"],
        created_at=AT,
        **fields,
    )


def reported() -> list[tuple[str, str]]:
    rows = NotificationDelivery.objects.order_by("kind", "address")
    return list(rows.values_list("kind", "address"))


def test_it_is_kept_with_everything_that_was_said(cast: Cast) -> None:
    event_id = tell(organization_id=cast.acme.pk, facts={"units": 8}, key="k", usernames=["bob"])

    stored = Notification.objects.get()
    assert stored.pk == event_id
    assert (stored.event, stored.organization) == ("quotas:request:approved", cast.acme)
    assert (stored.subject, stored.text) == ("Your request is approved", "LLM may hold 8 large.")
    assert (stored.facts, stored.key, stored.occurred_at) == ({"units": 8}, "k", AT)
    delivery = NotificationDelivery.objects.get()
    assert (delivery.notification, delivery.endpoint) == (stored, None)
    assert (delivery.kind, delivery.address) == ("mail", "bob@example.test")
    assert (delivery.state, delivery.attempts, delivery.next_at) == ("pending", 0, AT)


def test_endpoints_of_the_organization_and_of_the_platform_are_reported_when_they_ask(
    cast: Cast,
) -> None:
    endpoint(cast.acme, "https://acme.test/all")
    endpoint(cast.acme, "quota@acme.test", "quotas:*:*")
    endpoint(cast.acme, "money@acme.test", "billing:*:*")
    endpoint(cast.acme, "gone@acme.test", state="closed")
    endpoint(cast.umbrella, "https://umbrella.test/all")
    endpoint(None, "https://platform.test/all", "quotas:request:approved")

    tell(organization_id=cast.acme.pk)

    assert reported() == [
        ("mail", "quota@acme.test"),
        ("webhook", "https://acme.test/all"),
        ("webhook", "https://platform.test/all"),
    ]


def test_a_matter_of_the_platform_is_reported_to_no_organization(cast: Cast) -> None:
    endpoint(cast.acme, "https://acme.test/all")
    endpoint(None, "https://platform.test/all")

    tell(roles=[Role.ORGANIZATION_ADMIN, Role.PROJECT_LEAD, Role.FINANCE_ADMIN])

    assert reported() == [("mail", "dora@example.test"), ("webhook", "https://platform.test/all")]


@pytest.mark.parametrize(
    ("roles", "names"),
    [
        ([Role.PROJECT_LEAD], ["bob"]),
        ([Role.MEMBER, Role.PROJECT_LEAD], ["bob", "carol"]),
        ([Role.ORGANIZATION_ADMIN], ["alice"]),
        ([Role.PLATFORM_ADMIN], ["frank"]),
        ([Role.AUDITOR], ["ann"]),
        ([], []),
    ],
)
def test_people_are_reported_by_the_roles_they_hold_over_the_matter(
    cast: Cast, roles: list[Role], names: list[str]
) -> None:
    tell(organization_id=cast.acme.pk, project_ids=[cast.llm.pk], roles=roles)

    assert reported() == [("mail", f"{name}@example.test") for name in names]


def test_leads_of_a_project_are_reported_only_where_it_is_about_one(cast: Cast) -> None:
    tell(organization_id=cast.acme.pk, roles=[Role.PROJECT_LEAD, Role.MEMBER])
    tell(organization_id=cast.acme.pk, project_ids=[cast.vision.pk], roles=[Role.PROJECT_LEAD])

    assert reported() == []


def test_nobody_is_reported_twice(cast: Cast) -> None:
    grant(cast.bob, Role.ORGANIZATION_ADMIN, organization=cast.acme)
    endpoint(cast.acme, "bob@example.test")
    cast.dora.email = "bob@example.test"
    cast.dora.save()

    tell(
        organization_id=cast.acme.pk,
        project_ids=[cast.llm.pk],
        usernames=["bob", "dora"],
        roles=[Role.PROJECT_LEAD, Role.ORGANIZATION_ADMIN],
    )

    assert reported() == [("mail", "alice@example.test"), ("mail", "bob@example.test")]


def test_who_left_or_has_no_address_is_not_reported(cast: Cast) -> None:
    cast.bob.is_active = False
    cast.bob.save()
    cast.carol.email = ""
    cast.carol.save()

    tell(organization_id=cast.acme.pk, usernames=["bob", "carol", "nobody"])

    assert Notification.objects.count() == 1
    assert reported() == []


def test_who_is_named_is_reported_only_with_a_role_there_or_on_the_platform(cast: Cast) -> None:
    everybody = ["alice", "bob", "carol", "dora", "frank", "ann", "mallory"]
    make_user("stranger")

    tell(organization_id=cast.acme.pk, usernames=[*everybody, "stranger"])
    of_acme = reported()
    NotificationDelivery.objects.all().delete()
    tell(usernames=everybody)

    assert of_acme == [
        ("mail", f"{name}@example.test")
        for name in ("alice", "ann", "bob", "carol", "dora", "frank")
    ]
    assert reported() == [("mail", f"{name}@example.test") for name in ("ann", "dora", "frank")]


def test_each_is_reported_their_own_and_no_endpoint_is(cast: Cast) -> None:
    endpoint(cast.acme, "https://acme.test/all")
    own = [
        PersonalNews(username=name, subject=f"For {name}", text=f"{name}'s", facts={"pods": 1})
        for name in ("bob", "carol", "mallory", "nobody")
    ]

    counts = [
        notify_each(
            event="quotas:preemption:announced",
            organization_id=cast.acme.pk,
            news=own,
            key="plan",
            at=AT,
        )
        for _ in range(2)
    ]

    assert counts == [2, 0]
    rows = NotificationDelivery.objects.order_by("address")
    assert list(rows.values_list("address", "notification__subject", "notification__text")) == [
        ("bob@example.test", "For bob", "bob's"),
        ("carol@example.test", "For carol", "carol's"),
    ]
    assert Notification.objects.count() == 2


def test_telling_each_their_own_takes_as_many_statements_for_many(cast: Cast) -> None:
    def count(names: list[str], key: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            notify_each(
                event="quotas:preemption:announced",
                organization_id=cast.acme.pk,
                news=[PersonalNews(name, "s", "t", {}) for name in names],
                key=key,
                at=AT,
            )
        return len(queries)

    few = count(["bob"], "few")
    names = [f"member-{number}" for number in range(20)]
    for name in names:
        grant(make_user(name), Role.MEMBER, project=cast.llm)

    assert count(names, "many") == few
    assert NotificationDelivery.objects.count() == 21


def test_what_has_a_key_is_reported_once(cast: Cast) -> None:
    acme = {"organization_id": cast.acme.pk}
    first = tell(key="reminder:1", usernames=["bob"], **acme)
    second = tell(key="reminder:1", usernames=["bob", "carol"], **acme)
    other = tell(key="reminder:2")

    assert first is not None
    assert second is None
    assert other is not None
    assert Notification.objects.count() == 2
    assert reported() == [("mail", "bob@example.test")]


def test_what_has_no_key_is_reported_each_time(cast: Cast) -> None:
    tell(organization_id=cast.acme.pk, usernames=["bob"])
    tell(organization_id=cast.acme.pk, usernames=["bob"])

    assert Notification.objects.count() == 2
    assert reported() == [("mail", "bob@example.test")] * 2


@pytest.mark.usefixtures("cast")
def test_a_subject_is_one_line_that_fits() -> None:
    tell(subject="A\r\nBcc: everybody@example.test\n" + "x" * 300)

    subject = Notification.objects.get().subject
    assert subject.startswith("A Bcc: everybody@example.test xxx")
    assert len(subject) == 200


def test_statements_do_not_grow_with_those_who_are_reported(cast: Cast) -> None:
    with CaptureQueriesContext(connection) as few:
        tell(organization_id=cast.acme.pk, roles=[Role.PROJECT_LEAD], project_ids=[cast.llm.pk])
    for number in range(20):
        grant(make_user(f"lead-{number}"), Role.PROJECT_LEAD, project=cast.llm)
        endpoint(cast.acme, f"https://acme.test/{number}")
    with CaptureQueriesContext(connection) as many:
        tell(organization_id=cast.acme.pk, roles=[Role.PROJECT_LEAD], project_ids=[cast.llm.pk])

    assert len(many) == len(few)
    assert NotificationDelivery.objects.count() == 1 + 41


@pytest.mark.usefixtures("cast")
@pytest.mark.parametrize("event", ["", "quotas", "quotas:request:*", "a:b:c\n"])
def test_what_is_no_event_is_a_mistake(event: str) -> None:
    with pytest.raises(ValueError, match="is no event"):
        tell(event=event)

    assert not Notification.objects.exists()


@pytest.mark.usefixtures("committed_db")
def test_it_is_written_with_what_it_shows_or_not_at_all() -> None:
    def roll_back() -> None:
        with transaction.atomic():
            tell()
            transaction.set_rollback(True)

    with pytest.raises(RuntimeError, match="transaction"):
        tell()
    roll_back()

    assert not Notification.objects.exists()
