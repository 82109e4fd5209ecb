"""Transactional outbox: a notification is written in the transaction of its event.

    notify(
        event="quotas:request:approved", organization_id=..., subject="...", text="...",
        facts={...}, usernames=["bob"], roles=[Role.PROJECT_LEAD], project_ids=[...], at=at,
    )

Nothing is sent here. `tenants.tick_notifications` sends what is due, at least once; receivers know
a repeated event by its id.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope
from tenants.domain.notification_events import NOTIFICATION_EVENTS
from tenants.domain.notifications import EndpointKind, wants
from tenants.models import (
    Membership,
    Notification,
    NotificationDelivery,
    NotificationEndpoint,
    NotificationPreference,
)
from tenants.models.organization import LifecycleState

SUBJECT_LENGTH_MAX: Final = 200


@dataclass(frozen=True)
class PersonalNews:
    """One person's own notification; others must not read it."""

    username: str
    subject: str
    text: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class OrganizationNews:
    """One notification of an organization.

    Attributes:
        addresses: Mailed beside its people.
        translations: By language, subject and text.
        language: Of mails to `addresses`, and to people without a choice.
        document_id: What is attached to mails.
    """

    organization_id: UUID
    subject: str
    text: str
    facts: Mapping[str, Any]
    key: str
    addresses: Sequence[str] = ()
    translations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    language: str = ""
    document_id: UUID | None = None


def notify(  # noqa: PLR0913 - Content and receivers; all are keyword only.
    *,
    event: str,
    organization_id: UUID | None,
    subject: str,
    text: str,
    facts: Mapping[str, Any] | None = None,
    usernames: Iterable[str] = (),
    roles: Iterable[Role] = (),
    project_ids: Iterable[UUID] = (),
    key: str | None = None,
    at: datetime,
) -> UUID | None:
    """Write a notification and its deliveries to all receivers; return the event's id.

    Receivers are the endpoints of the organization and of the platform with a matching pattern, and
    people by mail: those named, and those with one of the roles over the project, the organization
    or the platform. Each address gets it once, and people that have muted the event do not.

    Args:
        event: `<app>:<resource>:<verb>`, such as "quotas:request:approved".
        organization_id: The organization concerned; None for the platform.
        subject: One line, without a full stop; longer ones are cut.
        text: Plain text, understandable without further information.
        facts: JSON values for programs; never a secret.
        usernames: People that get it with any role in the organization, in one of its projects or
            on the platform.
        roles: All active holders of these roles get it.
        project_ids: Limits project roles in `roles` to these projects.
        key: Deduplication key: a second notification with the key is not written.
        at: When it happened, UTC.

    Returns:
        The id of the event; None when one with this key was written before.

    Raises:
        RuntimeError: Called outside a transaction: it could remain without its event.
        ValueError: The event's name is invalid.
    """
    _require_sense(event)
    notification = Notification(
        event=event,
        organization_id=organization_id,
        subject=_one_line(subject),
        text=text,
        facts=dict(facts or {}),
        key=key,
        occurred_at=at,
    )
    if not _new_of([notification]):
        return None
    NotificationDelivery.objects.bulk_create(
        [
            *_to_endpoints([notification]),
            *_to_people(
                notification,
                usernames=usernames,
                holders=_holders(roles, organization_id=organization_id, project_ids=project_ids),
            ),
        ],
        ignore_conflicts=True,
    )
    return notification.pk


def notify_each(
    *,
    event: str,
    organization_id: UUID | None,
    news: Iterable[PersonalNews],
    key: str,
    at: datetime,
) -> int:
    """Mail each person their own text, once for a key; return how many were written.

    Endpoints get nothing: `notify` is for events of the whole organization. The number of
    statements does not depend on the number of people.

    Args:
        event: As for `notify`.
        organization_id: The organization concerned; other people get nothing.
        news: The texts, one for each person.
        key: Deduplication key for each person.
        at: When it happened, UTC.

    Raises:
        RuntimeError: Called outside a transaction.
        ValueError: The event's name is invalid.
    """
    _require_sense(event)
    own = {one.username: one for one in news}
    people = _mailed(_people_of(organization_id, usernames=own), event).order_by("username")
    addresses: dict[UUID, str] = {}
    written = []
    for person in people:
        one = own[person.username]
        notification = Notification(
            event=event,
            organization_id=organization_id,
            subject=_one_line(one.subject),
            text=one.text,
            facts=dict(one.facts),
            key=f"{key}:{person.pk}",
            occurred_at=at,
        )
        addresses[notification.pk] = person.email
        written.append(notification)
    new = _new_of(written)
    NotificationDelivery.objects.bulk_create(
        _delivery(one, kind=EndpointKind.MAIL.value, address=addresses[one.pk]) for one in new
    )
    return len(new)


def notify_organizations(
    *, event: str, news: Sequence[OrganizationNews], role: Role, at: datetime
) -> int:
    """Write a notification for each key that is new; return how many were written.

    Receivers are endpoints as of `notify`, the holders of a role over the organization, and the
    addresses named. The number of statements does not depend on that of notifications.

    Args:
        event: As for `notify`.
        news: The texts.
        role: Of people in an organization.
        at: When it happened, UTC.

    Raises:
        RuntimeError: Called outside a transaction.
        ValueError: The event's name is invalid.
    """
    _require_sense(event)
    written = {
        one.key: Notification(
            event=event,
            organization_id=one.organization_id,
            subject=_one_line(one.subject),
            text=one.text,
            facts=dict(one.facts),
            key=one.key,
            translations={
                language: [_one_line(subject), text]
                for language, (subject, text) in one.translations.items()
            },
            document_id=one.document_id,
            occurred_at=at,
        )
        for one in news
    }
    new = _new_of(list(written.values()))
    people = _addresses_of(role, {one.organization_id for one in news}, event=event)
    sources = {one.key: one for one in news}
    NotificationDelivery.objects.bulk_create(
        [
            *_to_endpoints(new),
            *(
                delivery
                for one in new
                for delivery in _mails(one, sources[one.key or ""], people[one.organization_id])
            ),
        ],
        ignore_conflicts=True,
    )
    return len(new)


def _mails(
    notification: Notification, news: OrganizationNews, people: Mapping[str, str]
) -> list[NotificationDelivery]:
    """Return a mail to each person and to each further address, in the language of each."""
    languages = {**dict.fromkeys(news.addresses, ""), **people}
    return [
        _delivery(
            notification,
            kind=EndpointKind.MAIL.value,
            address=address,
            language=languages[address] or news.language,
        )
        for address in sorted(languages)
    ]


def _addresses_of(
    role: Role, organization_ids: Collection[UUID], *, event: str
) -> dict[UUID | None, dict[str, str]]:
    """Return mail addresses of the holders of a role with their languages, by organization."""
    holders = Membership.objects.filter(
        role=role.value,
        organization__in=organization_ids,
        user__in=_mailed(User.objects.all(), event),
    )
    addresses: dict[UUID | None, dict[str, str]] = defaultdict(dict)
    for organization_id, address, language in holders.values_list(
        "organization_id", "user__email", "user__notification_preference__language"
    ):
        addresses[organization_id][address] = language or ""
    return addresses


def _mailed(people: QuerySet[User], event: str) -> QuerySet[User]:
    """Return active people with an address that have not muted the event."""
    muted = NotificationPreference.objects.filter(muted_events__contains=[event])
    return people.filter(is_active=True).exclude(email="").exclude(pk__in=muted.values("pk"))


def _require_sense(event: str) -> None:
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("A notification is written in the transaction of the change it reports.")
    if event not in NOTIFICATION_EVENTS:
        raise ValueError(f"{event!r} is no event's name")


def _one_line(subject: str) -> str:
    return " ".join(subject.split())[:SUBJECT_LENGTH_MAX]


def _new_of(notifications: Sequence[Notification]) -> list[Notification]:
    """Write notifications; return those with a new key, also under concurrent writes."""
    Notification.objects.bulk_create(notifications, ignore_conflicts=True)
    keyed = [one.pk for one in notifications if one.key is not None]
    there = set(Notification.objects.filter(pk__in=keyed).values_list("pk", flat=True))
    return [one for one in notifications if one.key is None or one.pk in there]


def _to_endpoints(notifications: Sequence[Notification]) -> list[NotificationDelivery]:
    concerned = {one.organization_id for one in notifications} - {None}
    recipients = Q(organization=None) | Q(organization__in=concerned)
    asking = list(NotificationEndpoint.objects.filter(recipients, state=LifecycleState.ACTIVE))
    return [
        _delivery(one, kind=row.kind, address=row.address, endpoint=row)
        for one in notifications
        for row in asking
        if row.organization_id in {None, one.organization_id} and wants(row.events, one.event)
    ]


def _to_people(
    notification: Notification, *, usernames: Iterable[str], holders: Q
) -> list[NotificationDelivery]:
    """Return a delivery to each mail address of the named people and the holders of roles."""
    organization_id = notification.organization_id
    named = Q(pk__in=_people_of(organization_id, usernames=usernames).values("pk"))
    memberships = Membership.objects.filter(holders, user__isnull=False)
    holding = Q(pk__in=memberships.values("user_id"))
    people = _mailed(User.objects.filter(named | holding), notification.event)
    languages = dict(people.values_list("email", "notification_preference__language"))
    return [
        _delivery(
            notification,
            kind=EndpointKind.MAIL.value,
            address=address,
            language=languages[address] or "",
        )
        for address in sorted(languages)
    ]


def _people_of(organization_id: UUID | None, *, usernames: Iterable[str]) -> QuerySet[User]:
    """Return the named people that are active and hold a role there or on the platform.

    Names come from pod labels, which every user can write: a person of another organization must
    not be notified.

    Args:
        organization_id: The organization with its projects; None for the platform only.
        usernames: As written at sign-in.
    """
    held = Q(organization__isnull=True, project__isnull=True)
    if organization_id is not None:
        held |= Q(organization=organization_id) | Q(project__organization=organization_id)
    holding = Membership.objects.filter(held, user__isnull=False).values("user_id")
    return User.objects.filter(username__in=list(usernames), pk__in=holding, is_active=True)


def _holders(
    roles: Iterable[Role], *, organization_id: UUID | None, project_ids: Iterable[UUID]
) -> Q:
    """Return which memberships hold one of the roles over what the notification is about."""
    reach = {
        RoleScope.PLATFORM: Q(),
        RoleScope.ORGANIZATION: Q(organization=organization_id, organization__isnull=False),
        RoleScope.PROJECT: Q(project__in=list(project_ids)),
    }
    held = Q(pk__in=[])
    for role in roles:
        held |= Q(role=role.value) & reach[ROLE_SCOPES[role]]
    return held


def _delivery(
    notification: Notification,
    *,
    kind: str,
    address: str,
    language: str = "",
    endpoint: NotificationEndpoint | None = None,
) -> NotificationDelivery:
    return NotificationDelivery(
        notification=notification,
        endpoint=endpoint,
        kind=kind,
        address=address,
        language=language,
        next_at=notification.occurred_at,
        created_at=notification.occurred_at,
    )
