"""Deliveries: leased, sent outside any transaction, and marked; at least once.

A lease moves a delivery's `next_at` ahead. If the worker crashes, the next tick after the lease
sends it again, and the receiver may get the same event id twice. An attempt is counted when it
begins, so a crash does not use up attempts of later deliveries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import transaction
from django.db.models import F, QuerySet

from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.notifications import LEASE, EndpointKind, wait_after
from tenants.domain.refusals import DeliveryNotFailedError, EndpointClosedError
from tenants.models import DeliveryState, NotificationDelivery
from tenants.models.organization import LifecycleState
from tenants.protocols import MailAttachment, NotificationSender, OutgoingNotification
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.turns import report_crash

WRITE: Final = "tenants:notification:write"
DocumentLoader = Callable[[UUID], Sequence[MailAttachment]]
"""Returns the files of a document."""

log = structlog.get_logger(__name__)


def no_documents(document_id: UUID) -> Sequence[MailAttachment]:  # noqa: ARG001 - As a loader.
    """Return no file."""
    return ()


@dataclass(frozen=True)
class ClaimedDelivery:
    """A delivery leased by a worker.

    Attributes:
        attempts: Attempts before this one.
        claimed_until: End of the lease; it also identifies this lease.
    """

    delivery_id: UUID
    kind: str
    attempts: int
    claimed_until: datetime
    notification: OutgoingNotification


@transaction.atomic
def claim_deliveries(*, limit: int, actor: Actor, at: datetime) -> tuple[ClaimedDelivery, ...]:
    """Lease up to `limit` due deliveries, the oldest first; other workers skip them.

    Deliveries to an endpoint closed in the meantime are marked as skipped.

    Args:
        limit: The number that can be sent within the lease.
        actor: A system actor.
        at: When, UTC.
    """
    due = list(
        NotificationDelivery.objects.filter(state=DeliveryState.PENDING, next_at__lte=at)
        .order_by("next_at", "pk")
        .select_for_update(of=("self",), skip_locked=True, no_key=True)
        .select_related("notification__organization", "endpoint")[:limit]
    )
    closed = {row.pk for row in due if row.endpoint and row.endpoint.state != LifecycleState.ACTIVE}
    if closed:
        skip_closed(NotificationDelivery.objects.filter(pk__in=closed))
    taken = [row for row in due if row.pk not in closed]
    NotificationDelivery.objects.filter(pk__in=[row.pk for row in taken]).update(next_at=at + LEASE)
    if taken:
        log.info("tenants.notifications.leased", deliveries=len(taken), by=actor.label)
    return tuple(_claimed(row, until=at + LEASE) for row in taken)


def skip_closed(deliveries: QuerySet[NotificationDelivery]) -> int:
    """Skip pending deliveries to closed endpoints; return how many."""
    return deliveries.filter(state=DeliveryState.PENDING).update(
        state=DeliveryState.SKIPPED, last_error="Its endpoint was closed."
    )


def send_claimed(
    *,
    claimed: Sequence[ClaimedDelivery],
    senders: Mapping[str, NotificationSender],
    load_document: DocumentLoader = no_documents,
    has_time: Callable[[], bool] = lambda: True,
    at: datetime,
) -> int:
    """Send leased deliveries one by one and mark each; return how many failed.

    An error in one does not stop the others. When time is up, the remaining leases are released.

    Args:
        claimed: By `claim_deliveries`, after its transaction.
        senders: By kind; without a sender the delivery is skipped permanently.
        load_document: Returns what is attached to a mail about a document.
        has_time: Called before each; whether another may begin.
        at: When it was leased, UTC.

    Raises:
        celery.exceptions.SoftTimeLimitExceeded: The task's time is up, which is not a failure
            of the current address; the rest is sent after the lease.
    """
    failed = 0
    for position, one in enumerate(claimed):
        if not has_time():
            _give_back(claimed[position:], at=at)
            break
        sender = senders.get(one.kind)
        if sender is None:
            _skip(one)
        elif _begin(one) and not _is_sent(one, sender, load_document, at=at):
            failed += 1
    return failed


@transaction.atomic
def resend_delivery(*, delivery_id: UUID, actor: Actor, at: datetime) -> NotificationDelivery:
    """Send a delivery that has failed for good again, with all attempts before it.

    Args:
        delivery_id: Which one.
        actor: The caller.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not write its endpoint or, for a person, the platform's.
        DeliveryNotFailedError: It is pending, sent or skipped.
        EndpointClosedError: Its endpoint is closed.
    """
    (row,) = lock_rows(NotificationDelivery.objects.filter(pk=delivery_id))
    endpoint = row.endpoint
    require_capability(
        actor, WRITE, organization_id=None if endpoint is None else endpoint.organization_id
    )
    if row.state != DeliveryState.GIVEN_UP:
        raise DeliveryNotFailedError("This delivery has not failed for good.")
    if endpoint is not None and endpoint.state != LifecycleState.ACTIVE:
        raise EndpointClosedError("The endpoint of this delivery is closed.")
    error, row.state, row.attempts, row.next_at = row.last_error, DeliveryState.PENDING, 0, at
    row.save(update_fields=["state", "attempts", "next_at"])
    record(
        actor=actor,
        at=at,
        action="tenants:notification_delivery:resend",
        object_kind="notification_delivery",
        object_id=row.pk,
        organization_id=row.notification.organization_id,
        facts={"event": row.notification.event, "last_error": error},
    )
    return row


def _give_back(claimed: Sequence[ClaimedDelivery], *, at: datetime) -> None:
    NotificationDelivery.objects.filter(
        pk__in=[one.delivery_id for one in claimed],
        state=DeliveryState.PENDING,
        next_at=claimed[0].claimed_until,
    ).update(next_at=at)
    log.warning("tenants.notifications.deadline_exceeded", deliveries=len(claimed))


def _begin(one: ClaimedDelivery) -> bool:
    """Count the attempt that begins now; False when the lease was lost or the delivery is done."""
    return _mark(one, attempts=F("attempts") + 1)


def _is_sent(
    one: ClaimedDelivery,
    sender: NotificationSender,
    load_document: DocumentLoader,
    *,
    at: datetime,
) -> bool:
    try:
        sender.send(_with_document(one.notification, load_document))
    except SourceUnavailableError as error:
        _postpone(one, f"{error.reason}: {error}", reason=error.reason, at=at)
        return False
    except SoftTimeLimitExceeded:
        raise
    except Exception as error:  # noqa: BLE001 - A mistake at one address must stop no other.
        report_crash(error, event="tenants.notifications.crashed", key=one.delivery_id, at=at)
        _postpone(one, f"unexpected: {type(error).__name__}", reason="unexpected", at=at)
        return False
    _mark(one, state=DeliveryState.SENT, sent_at=at, last_error="")
    return True


def _with_document(
    notification: OutgoingNotification, load_document: DocumentLoader
) -> OutgoingNotification:
    if notification.document_id is None:
        return notification
    return replace(notification, attachments=tuple(load_document(notification.document_id)))


def _postpone(one: ClaimedDelivery, text: str, *, reason: str, at: datetime) -> None:
    attempts = one.attempts + 1
    wait = wait_after(attempts)
    error = text[:200]
    if wait is None:
        _mark(one, state=DeliveryState.GIVEN_UP, last_error=error)
        log.error(
            "tenants.notifications.given_up",
            delivery=str(one.delivery_id),
            notification_event=one.notification.event,
            reason=reason,
            attempts=attempts,
        )
        return
    _mark(one, next_at=at + wait, last_error=error)
    log.warning(
        "tenants.notifications.postponed",
        delivery=str(one.delivery_id),
        reason=reason,
        attempts=attempts,
        seconds=int(wait.total_seconds()),
    )


def _skip(one: ClaimedDelivery) -> None:
    error = f"This installation sends no {one.kind}."
    _mark(one, state=DeliveryState.SKIPPED, last_error=error)


def _mark(one: ClaimedDelivery, **fields: object) -> bool:
    """Write the result of a delivery if the lease is still ours; return whether it is."""
    held = NotificationDelivery.objects.filter(
        pk=one.delivery_id, state=DeliveryState.PENDING, next_at=one.claimed_until
    )
    return held.update(**fields) > 0


def outgoing_of(row: NotificationDelivery) -> OutgoingNotification:
    """Return the notification of a delivery; the same at every attempt."""
    notification = row.notification
    organization = notification.organization
    translated = notification.translations.get(row.language)
    subject, text = translated or (notification.subject, notification.text)
    return OutgoingNotification(
        event_id=notification.pk,
        event=notification.event,
        occurred_at=notification.occurred_at,
        organization="" if organization is None else organization.slug,
        subject=subject,
        text=text,
        facts=notification.facts,
        address=row.address,
        secret_reference="" if row.endpoint is None else row.endpoint.secret_reference,
        language=row.language if translated else "en",
        document_id=notification.document_id if row.kind == EndpointKind.MAIL else None,
    )


def _claimed(row: NotificationDelivery, *, until: datetime) -> ClaimedDelivery:
    return ClaimedDelivery(
        delivery_id=row.pk,
        kind=row.kind,
        attempts=row.attempts,
        claimed_until=until,
        notification=outgoing_of(row),
    )
