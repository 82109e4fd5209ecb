"""People choose what they are not mailed about, and in which language the rest is."""

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.errors import ForbiddenError, InvalidInputError
from tenants.domain.identity.roles import Role
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry, NotificationDelivery, NotificationPreference
from tenants.selectors.actors import actor_of_user
from tenants.services.notifications.outbox import OrganizationNews, notify, notify_organizations
from tenants.services.notifications.preferences import choose_notifications
from tests.support.builders import AT, grant, make_organization, make_user
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
APPROVED = "quotas:request:approved"
INVOICED = "billing:invoice:finalized"


@shared_rows
def alice() -> User:
    person = make_user("alice")
    grant(person, Role.ORGANIZATION_ADMIN, organization=make_organization())
    return person


def choose(person: User, *muted: str, language: str = "", version: int | None = None) -> None:
    choose_notifications(
        person=person,
        muted_events=muted,
        language=language,
        expected_version=version,
        actor=actor_of_user(person),
        at=AT,
    )


def mailed() -> list[tuple[str, str]]:
    return list(NotificationDelivery.objects.order_by("pk").values_list("address", "language"))


def approve(person: User) -> None:
    with transaction.atomic():
        notify(
            event=APPROVED,
            organization_id=person.memberships.get().organization_id,
            subject="Approved",
            text="Yes.",
            usernames=[person.username],
            at=AT,
        )


def invoice(person: User, *, language: str) -> None:
    organization_id = person.memberships.get().organization_id
    assert organization_id is not None
    news = OrganizationNews(
        organization_id=organization_id,
        subject="Invoice",
        text="It is attached.",
        facts={},
        key="document:1",
        addresses=("accounts@acme.test",),
        translations={"de": ("Rechnung", "Sie ist angehängt.")},
        language=language,
    )
    with transaction.atomic():
        notify_organizations(event=INVOICED, news=[news], role=Role.ORGANIZATION_ADMIN, at=AT)


def test_a_muted_event_is_not_mailed_and_all_others_are(alice: User) -> None:
    choose(alice, INVOICED)

    approve(alice)
    invoice(alice, language="en")

    assert mailed() == [(alice.email, ""), ("accounts@acme.test", "en")]


def test_people_read_their_language_and_others_that_of_the_document(alice: User) -> None:
    choose(alice, language="en")

    invoice(alice, language="de")

    assert sorted(mailed()) == [("accounts@acme.test", "de"), (alice.email, "en")]


def test_a_change_is_audited_once_and_made_from_the_version_that_was_read(alice: User) -> None:
    choose(alice, APPROVED, version=1)
    choose(alice, APPROVED)

    with pytest.raises(StaleVersionError):
        choose(alice, version=1)

    stored = NotificationPreference.objects.get()
    entry = AuditEntry.objects.get(object_kind="notification_preference")
    assert (stored.muted_events, stored.version) == ([APPROVED], 2)
    assert entry.facts["changed"]["muted_events"] == [[], [APPROVED]]


def test_what_does_not_exist_is_refused(alice: User) -> None:
    for muted, language in (("quotas:request:forgotten", ""), (APPROVED, "fr")):
        with pytest.raises(InvalidInputError):
            choose(alice, muted, language=language)

    assert not NotificationPreference.objects.exists()


def test_nobody_chooses_for_another_person(alice: User) -> None:
    frank = make_user("frank")
    grant(frank, Role.PLATFORM_ADMIN)

    with pytest.raises(ForbiddenError):
        choose_notifications(
            person=alice, muted_events=[], language="de", actor=actor_of_user(frank), at=AT
        )

    assert not NotificationPreference.objects.exists()
