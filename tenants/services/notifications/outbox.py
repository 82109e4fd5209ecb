"""Telling what happened: written into an outbox in the transaction of what it tells.

    notify(
        event="quotas:request:approved", organization_id=..., subject="...", text="...",
        facts={...}, usernames=["bob"], roles=[Role.PROJECT_LEAD], project_ids=[...], at=at,
    )

Nothing is sent here. `tenants.tick_notifications` sends what is due, at least once; receivers know
a repeated event by its id.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope
from tenants.domain.notifications import EndpointKind, is_event, wants
from tenants.models import Membership, Notification, NotificationDelivery, NotificationEndpoint
from tenants.models.organization import LifecycleState
from tenants.selectors.people import mail_addresses, people_of

SUBJECT_LENGTH_MAX: Final = 200


@dataclass(frozen=True)
class PersonalNews:
    """What one person is told, who must not learn what the others are."""

    username: str
    subject: str
    text: str
    facts: Mapping[str, Any]


def notify(  # noqa: PLR0913 - What is told, and to whom; all are keyword only.
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
    """Write down what happened for everybody who is to be told; return the event's id.

    Told are the endpoints of the organization and of the platform whose patterns ask for the
    event, and people by mail: those named, and those who hold one of the roles over the project,
    the organization or the platform. Nobody is told twice.

    Args:
        event: `<app>:<resource>:<verb>`, such as "quotas:request:approved".
        organization_id: Whose matter it is; None for the platform's own.
        subject: One line, without a full stop; longer ones are cut.
        text: Plain text that a person understands without looking anything up.
        facts: JSON values for programs; never a secret.
        usernames: People who are told whatever their role, as long as it is one in the
            organization, in one of its projects or on the platform.
        roles: Everybody active who holds one of them is told.
        project_ids: Whose leads and members `roles` means.
        key: What is told once only: a second notification with the key is not written.
        at: When it happened, UTC.

    Returns:
        The id of the event; None when one with this key was written before.

    Raises:
        RuntimeError: Called outside a transaction, where it could outlive what it tells.
        ValueError: The event's name is none.
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
            *_to_endpoints(notification),
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
    """Tell each person their own by mail, once for a key; return how many are told now.

    No endpoint is told: what concerns the organization as a whole is told by `notify`. The number
    of statements does not grow with the people.

    Args:
        event: As for `notify`.
        organization_id: Whose matter it is; others' people are told nothing.
        news: What is told to whom, one for each person.
        key: What is told to each once only.
        at: When it happened, UTC.

    Raises:
        RuntimeError: Called outside a transaction.
        ValueError: The event's name is none.
    """
    _require_sense(event)
    own = {one.username: one for one in news}
    people = people_of(organization_id, usernames=own).exclude(email="").order_by("username")
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


def _require_sense(event: str) -> None:
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("A notification is written in the transaction of what it tells.")
    if not is_event(event):
        raise ValueError(f"{event!r} is no event's name")


def _one_line(subject: str) -> str:
    return " ".join(subject.split())[:SUBJECT_LENGTH_MAX]


def _new_of(notifications: Sequence[Notification]) -> list[Notification]:
    """Write notifications; return those whose key was not there before, even a moment ago."""
    Notification.objects.bulk_create(notifications, ignore_conflicts=True)
    keyed = [one.pk for one in notifications if one.key is not None]
    there = set(Notification.objects.filter(pk__in=keyed).values_list("pk", flat=True))
    return [one for one in notifications if one.key is None or one.pk in there]


def _to_endpoints(notification: Notification) -> list[NotificationDelivery]:
    told = Q(organization=None)
    if notification.organization_id is not None:
        told |= Q(organization=notification.organization_id)
    asking = NotificationEndpoint.objects.filter(told, state=LifecycleState.ACTIVE)
    return [
        _delivery(notification, kind=row.kind, address=row.address, endpoint=row)
        for row in asking
        if wants(row.events, notification.event)
    ]


def _to_people(
    notification: Notification, *, usernames: Iterable[str], holders: Q
) -> list[NotificationDelivery]:
    addresses = mail_addresses(
        usernames=usernames,
        organization_id=notification.organization_id,
        memberships=Membership.objects.filter(holders),
    )
    return [
        _delivery(notification, kind=EndpointKind.MAIL.value, address=address)
        for address in addresses
    ]


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
    endpoint: NotificationEndpoint | None = None,
) -> NotificationDelivery:
    return NotificationDelivery(
        notification=notification,
        endpoint=endpoint,
        kind=kind,
        address=address,
        next_at=notification.occurred_at,
        created_at=notification.occurred_at,
    )
