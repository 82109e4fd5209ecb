"""Notifications: what an actor sees of endpoints and deliveries, and how many are stuck."""

from datetime import datetime
from typing import Final

from django.db.models import Count, Min, QuerySet

from tenants.domain.actors import Actor
from tenants.models import DeliveryState, NotificationDelivery, NotificationEndpoint
from tenants.selectors.visibility import is_platform_wide, organizations_visible_to

READ_NOTIFICATION: Final = "tenants:notification:read"


def endpoints_visible_to(
    actor: Actor, capability: str = READ_NOTIFICATION
) -> QuerySet[NotificationEndpoint]:
    """Return the endpoints of the organizations an actor reaches; the platform's to its people."""
    rows = NotificationEndpoint.objects.select_related("organization")
    if is_platform_wide(actor, capability):
        return rows
    return rows.filter(organization__in=organizations_visible_to(actor, capability))


def deliveries_visible_to(actor: Actor) -> QuerySet[NotificationDelivery]:
    """Return what went to endpoints an actor sees; what went to people, to the platform's people.

    An organization does not learn the mail addresses of those who run the platform.
    """
    rows = NotificationDelivery.objects.select_related("notification", "endpoint")
    if is_platform_wide(actor, READ_NOTIFICATION):
        return rows
    return rows.filter(endpoint__in=endpoints_visible_to(actor))


def deliveries_given_up() -> dict[str, int]:
    """Return how many deliveries were given up, by kind; one statement."""
    rows = NotificationDelivery.objects.filter(state=DeliveryState.GIVEN_UP)
    return {row["kind"]: row["count"] for row in rows.values("kind").annotate(count=Count("pk"))}


def oldest_undelivered_age(*, at: datetime) -> dict[str, int]:
    """Return the seconds since the oldest undelivered notification was written, by kind."""
    rows = NotificationDelivery.objects.filter(state=DeliveryState.PENDING)
    oldest = rows.values("kind").annotate(begin_at=Min("created_at"))
    return {row["kind"]: max(0, int((at - row["begin_at"]).total_seconds())) for row in oldest}
