"""When and to whom documents were sent: recorded by people, and from the outbox for reminders."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from billing.domain.documents.invoicing import InvoiceState
from billing.domain.ledger.errors import DocumentDeliveryInvalidError
from billing.models import DocumentDelivery, Invoice, Reminder
from tenants.domain.actors import Actor
from tenants.models import DeliveryState, NotificationDelivery
from tenants.services.audit import record

RECORDED_WITHIN: Final = timedelta(days=7)
"""Of a reminder; the outbox gives up after two days."""


def record_delivery(
    *,
    document_id: UUID,
    channel: str,
    recipient: str,
    sent_at: datetime,
    actor: Actor,
    at: datetime,
) -> DocumentDelivery:
    """Record that a person sent a final document.

    Args:
        document_id: A final one.
        channel: A value of `DeliveryChannel`.
        recipient: An address or a name.
        sent_at: Not in the future.
        actor: The account that records it.
        at: When it is recorded.

    Raises:
        DocumentDeliveryInvalidError: It is not final, or recipient or time cannot be kept.
    """
    document = Invoice.objects.select_related("period").get(pk=document_id)
    whom = recipient.strip()
    if document.state != InvoiceState.FINAL.value:
        raise DocumentDeliveryInvalidError("The document is a draft.", field="document")
    if not whom or not whom.isprintable():
        raise DocumentDeliveryInvalidError("The recipient is not named.", field="recipient")
    if sent_at > at:
        raise DocumentDeliveryInvalidError("The time is in the future.", field="sent_at")
    with transaction.atomic():
        made = DocumentDelivery.objects.create(
            document=document,
            channel=channel,
            recipient=whom,
            sent_at=sent_at,
            recorded_by=actor.label,
            recorded_at=at,
        )
        record(
            actor=actor,
            at=at,
            action="billing:document_delivery:record",
            object_kind="document_delivery",
            object_id=made.pk,
            organization_id=document.organization_id,
            facts={
                "document": document.reference,
                "channel": channel,
                "sent_at": sent_at.isoformat(),
            },
        )
    return made


def record_sent_reminders(*, actor: Actor, at: datetime) -> int:
    """Record the reminders that the outbox has sent since, and return how many there were.

    Args:
        actor: The account that records them.
        at: When.
    """
    with transaction.atomic():
        recent = Reminder.objects.filter(reminded_on__gte=(at - RECORDED_WITHIN).date())
        reminders = {one.notification_key: one for one in recent}
        if not reminders:
            return 0
        sent = NotificationDelivery.objects.filter(
            state=DeliveryState.SENT, notification__key__in=reminders
        ).select_related("notification")
        known = set(
            DocumentDelivery.objects.filter(reminder__in=recent).values_list(
                "notification_delivery_id", flat=True
            )
        )
        made = [
            _of_outbox(one, reminders[one.notification.key or ""], actor=actor, at=at)
            for one in sent
            if one.pk not in known
        ]
        DocumentDelivery.objects.bulk_create(made, ignore_conflicts=True)
        if made:
            record(
                actor=actor,
                at=at,
                action="billing:document_delivery:record_sent",
                object_kind="document_delivery",
                object_id="",
                facts={"deliveries": len(made)},
            )
    return len(made)


def _of_outbox(
    sent: NotificationDelivery, reminder: Reminder, *, actor: Actor, at: datetime
) -> DocumentDelivery:
    return DocumentDelivery(
        document_id=reminder.document_id,
        channel=sent.kind,
        recipient=sent.shown_address,
        sent_at=sent.sent_at or at,
        reminder=reminder,
        notification_delivery_id=sent.pk,
        recorded_by=actor.label,
        recorded_at=at,
    )
