"""Times and addresses of sent documents: recorded by people, and from the outbox."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from billing.domain.documents.invoicing import InvoiceState
from billing.domain.ledger.errors import DocumentDeliveryInvalidError
from billing.models import DocumentDelivery, Invoice, Reminder
from billing.services.ledger.notices import notification_key
from tenants.domain.actors import Actor
from tenants.models import DeliveryState, NotificationDelivery
from tenants.services.audit import record

RECORDED_WITHIN: Final = timedelta(days=7)
"""Of a document or a reminder; the outbox gives up after two days."""


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


def record_sent_mails(*, actor: Actor, at: datetime) -> int:
    """Record the documents and reminders that the outbox has sent since; return how many.

    What endpoints of the platform got is left out: the customer reads these records, and is not to
    learn the addresses of the platform.

    Args:
        actor: The account that records them.
        at: When.
    """
    with transaction.atomic():
        sources = _sources(since=at - RECORDED_WITHIN)
        sent = NotificationDelivery.objects.filter(
            Q(endpoint=None) | Q(endpoint__organization__isnull=False),
            state=DeliveryState.SENT,
            notification__key__in=sources,
        ).select_related("notification")
        recorded = DocumentDelivery.objects.filter(notification_delivery_id__in=sent.values("pk"))
        known = set(recorded.values_list("notification_delivery_id", flat=True))
        made = [
            _of_outbox(one, *sources[one.notification.key or ""], actor=actor, at=at)
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


def _sources(*, since: datetime) -> dict[str, tuple[UUID, Reminder | None]]:
    """Return the documents that were issued or reminded of lately, by notification key."""
    issued = Invoice.objects.filter(state=InvoiceState.FINAL.value, finalized_at__gte=since)
    reminders = Reminder.objects.filter(reminded_on__gte=since.date())
    return {
        **{notification_key(one): (one.pk, None) for one in issued.only("pk")},
        **{one.notification_key: (one.document_id, one) for one in reminders},
    }


def _of_outbox(
    sent: NotificationDelivery,
    document_id: UUID,
    reminder: Reminder | None,
    *,
    actor: Actor,
    at: datetime,
) -> DocumentDelivery:
    return DocumentDelivery(
        document_id=document_id,
        channel=sent.kind,
        recipient=sent.shown_address,
        sent_at=sent.sent_at or at,
        reminder=reminder,
        notification_delivery_id=sent.pk,
        recorded_by=actor.label,
        recorded_at=at,
    )
