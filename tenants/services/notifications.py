"""Telling what happened: written into an outbox in the transaction of what it tells.

    notify(
        event="quotas:request:approved", organization_id=..., subject="...", text="...",
        facts={...}, usernames=["bob"], roles=[Role.PROJECT_LEAD], project_id=..., at=at,
    )

Nothing is sent here. `tenants.tick_notifications` sends what is due, at least once; receivers know
a repeated event by its id.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from tenants.domain.notification_rules import EndpointKind, is_event, wants
from tenants.domain.roles import ROLE_SCOPES, Role, RoleScope
from tenants.models import Membership, Notification, NotificationDelivery, NotificationEndpoint
from tenants.models.organization import LifecycleState
from tenants.selectors.people import mail_addresses

SUBJECT_LENGTH_MAX: Final = 200


def notify(  # noqa: PLR0913 - What is told, and to whom; all are keyword only.
    *,
    event: str,
    organization_id: UUID | None,
    subject: str,
    text: str,
    facts: Mapping[str, Any] | None = None,
    usernames: Iterable[str] = (),
    roles: Iterable[Role] = (),
    project_id: UUID | None = None,
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
        usernames: People who are told whatever their role.
        roles: Everybody active who holds one of them is told.
        project_id: Whose leads and members `roles` means; None for no project.
        key: What is told once only: a second notification with the key is not written.
        at: When it happened, UTC.

    Returns:
        The id of the event; None when one with this key was written before.

    Raises:
        RuntimeError: Called outside a transaction, where it could outlive what it tells.
        ValueError: The event's name is none.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("A notification is written in the transaction of what it tells.")
    if not is_event(event):
        raise ValueError(f"{event!r} is no event's name")
    notification = Notification(
        event=event,
        organization_id=organization_id,
        subject=" ".join(subject.split())[:SUBJECT_LENGTH_MAX],
        text=text,
        facts=dict(facts or {}),
        key=key,
        occurred_at=at,
    )
    if not _is_new(notification):
        return None
    NotificationDelivery.objects.bulk_create(
        [
            *_to_endpoints(notification),
            *_to_people(
                notification,
                usernames=usernames,
                holders=_holders(roles, organization_id=organization_id, project_id=project_id),
            ),
        ],
        ignore_conflicts=True,
    )
    return notification.pk


def _is_new(notification: Notification) -> bool:
    """Write a notification; False when its key was there before, even a moment ago."""
    Notification.objects.bulk_create([notification], ignore_conflicts=True)
    return notification.key is None or Notification.objects.filter(pk=notification.pk).exists()


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
    addresses = mail_addresses(usernames=usernames, memberships=Membership.objects.filter(holders))
    return [
        _delivery(notification, kind=EndpointKind.MAIL.value, address=address)
        for address in addresses
    ]


def _holders(roles: Iterable[Role], *, organization_id: UUID | None, project_id: UUID | None) -> Q:
    """Return which memberships hold one of the roles over what the notification is about."""
    reach = {
        RoleScope.PLATFORM: Q(),
        RoleScope.ORGANIZATION: Q(organization=organization_id, organization__isnull=False),
        RoleScope.PROJECT: Q(project=project_id, project__isnull=False),
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
