"""Deliveries that have failed for good are sent again by a person, once their cause is gone."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from simulator.adapters.notification_sender import SimulatedSender
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.notifications import ATTEMPTS_MAX, remedy_of
from tenants.domain.refusals import DeliveryNotFailedError, EndpointClosedError
from tenants.models import (
    AuditEntry,
    Notification,
    NotificationDelivery,
    NotificationEndpoint,
)
from tenants.protocols import MailAttachment
from tenants.services.notifications.deliveries import resend_delivery, send_claimed
from tests.support.builders import AT
from tests.tenants.services.notifications.test_deliveries import ACTOR, claim, make_hooks, send

pytestmark = pytest.mark.django_db
DOCUMENT = UUID("01890000-0000-7000-8000-000000000002")


@pytest.fixture(autouse=True)
def not_notified() -> Iterator[None]:
    SimulatedSender.purge()
    yield
    SimulatedSender.purge()


def give_up() -> NotificationDelivery:
    """Return a delivery that was given up."""
    make_hooks()
    NotificationDelivery.objects.update(
        state="given_up", attempts=ATTEMPTS_MAX, last_error="status_500: It answered 500."
    )
    return NotificationDelivery.objects.get()


def test_what_was_given_up_is_sent_again_from_its_first_attempt_on() -> None:
    given_up = give_up()

    resend_delivery(delivery_id=given_up.pk, actor=ACTOR, at=AT)
    send(claim())

    stored = NotificationDelivery.objects.get()
    assert (stored.state, stored.attempts, stored.last_error) == ("sent", 1, "")
    entry = AuditEntry.objects.get(action="tenants:notification_delivery:resend")
    assert entry.facts == {
        "event": "quotas:request:approved",
        "last_error": "status_500: It answered 500.",
    }


def test_only_what_was_given_up_is_sent_again() -> None:
    make_hooks()
    pending = NotificationDelivery.objects.get()

    with pytest.raises(DeliveryNotFailedError):
        resend_delivery(delivery_id=pending.pk, actor=ACTOR, at=AT)
    NotificationEndpoint.objects.update(state="closed")
    NotificationDelivery.objects.update(state="given_up")
    with pytest.raises(EndpointClosedError):
        resend_delivery(delivery_id=pending.pk, actor=ACTOR, at=AT)

    assert NotificationDelivery.objects.get().state == "given_up"


def test_a_document_that_cannot_be_loaded_waits_with_its_remedy() -> None:
    give_up()
    Notification.objects.update(document_id=DOCUMENT)
    NotificationDelivery.objects.update(
        state="pending", kind="mail", address="a@acme.test", attempts=ATTEMPTS_MAX - 1
    )

    def load(document_id: UUID) -> tuple[MailAttachment, ...]:
        raise SourceUnavailableError(f"No {document_id}.", reason="document_missing")

    failed = send_claimed(
        claimed=claim(), senders={"mail": SimulatedSender()}, load_document=load, at=AT
    )

    stored = NotificationDelivery.objects.get()
    remedy = remedy_of(state=stored.state, last_error=stored.last_error)
    assert (failed, stored.state) == (1, "given_up")
    assert remedy.startswith("Open the document")
    assert SimulatedSender.sent == []
