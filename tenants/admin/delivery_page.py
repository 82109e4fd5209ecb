"""The page of one delivery: what was said, word for word, to whom, and what came of it."""

import json
from datetime import datetime
from typing import Any

from django.conf import settings

from tenants.adapters.notification_mail import subject_of, text_of
from tenants.adapters.notification_webhook import body_of
from tenants.domain.delivery_words import next_try_words, result_words, tries_words
from tenants.domain.notification_rules import EndpointKind
from tenants.models import NotificationDelivery
from tenants.protocols import OutgoingNotification
from tenants.services.deliveries import outgoing_of


def delivery_context(delivery: NotificationDelivery, *, at: datetime) -> dict[str, Any]:
    """Return the template's values for one delivery.

    Args:
        delivery: With its notification, the organization and the endpoint.
        at: Now.
    """
    outgoing = outgoing_of(delivery)
    return {
        "delivery": delivery,
        "said": _said(delivery.kind, outgoing),
        "subject": subject_of(outgoing) if delivery.kind == EndpointKind.MAIL else "",
        "has_earlier_failures": delivery.attempts > 1,
        "facts": [
            ("To", delivery.shown_address),
            ("How", _how(delivery)),
            ("Event", outgoing.event),
            ("About", outgoing.organization or "the whole platform"),
            ("Happened", f"{outgoing.occurred_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("Tries", tries_words(delivery.attempts)),
            ("Last result", last_result(delivery)),
            ("Next try", next_try(delivery, at=at)),
        ],
    }


def last_result(delivery: NotificationDelivery) -> str:
    """Return what came of the last try."""
    return result_words(
        state=delivery.state,
        attempts=delivery.attempts,
        sent_at=delivery.sent_at,
        last_error=delivery.last_error,
    )


def next_try(delivery: NotificationDelivery, *, at: datetime) -> str:
    """Return when it is tried next."""
    return next_try_words(state=delivery.state, next_at=delivery.next_at, at=at)


def _said(kind: str, outgoing: OutgoingNotification) -> str:
    """Return a mail's text, or a webhook's JSON in lines; neither holds the secret that signs."""
    if kind == EndpointKind.MAIL:
        return text_of(outgoing, public_url=settings.PUBLIC_URL)
    return json.dumps(json.loads(body_of(outgoing)), indent=2, ensure_ascii=False)


def _how(delivery: NotificationDelivery) -> str:
    if delivery.kind == EndpointKind.MAIL:
        return "mail" if delivery.endpoint else "mail, to the address of an account"
    return "POST of JSON, signed; the secret is shown nowhere"
