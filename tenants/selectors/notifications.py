"""Notifications: preferences, the search of addresses, and how many are stuck."""

from datetime import datetime
from typing import Final, TypeVar

from django.contrib.auth.models import User
from django.db.models import Case, CharField, Count, F, Func, Min, QuerySet, Value, When

from tenants.domain.notifications import EndpointKind
from tenants.models import (
    DeliveryState,
    NotificationDelivery,
    NotificationEndpoint,
    NotificationPreference,
)

HOST_PATTERN: Final = "^[a-z]+://[^/?#]+"
"""The part of a webhook's address that holds no token; user names are refused in one."""
AddressedRow = TypeVar("AddressedRow", NotificationEndpoint, NotificationDelivery)


def preference_of(person: User) -> NotificationPreference:
    """Return what a person has chosen; an unsaved one, which mutes nothing, before that."""
    stored = NotificationPreference.objects.filter(user=person).first()
    return stored or NotificationPreference(user=person)


def with_searched_address(rows: QuerySet[AddressedRow]) -> QuerySet[AddressedRow]:
    """Return rows with `searched_address`: a mail address whole, of a webhook scheme and host.

    A token that cannot be read must not be found by trying one letter after another either.
    """
    host = Func(F("address"), Value(HOST_PATTERN), function="substring")
    return rows.annotate(
        searched_address=Case(
            When(kind=EndpointKind.MAIL.value, then=F("address")),
            default=host,
            output_field=CharField(),
        )
    )


def deliveries_given_up() -> dict[str, int]:
    """Return the number of deliveries that failed for good, by kind; one statement."""
    rows = NotificationDelivery.objects.filter(state=DeliveryState.GIVEN_UP)
    return {row["kind"]: row["count"] for row in rows.values("kind").annotate(count=Count("pk"))}


def oldest_undelivered_age(*, at: datetime) -> dict[str, int]:
    """Return the seconds since the oldest undelivered notification was written, by kind."""
    rows = NotificationDelivery.objects.filter(state=DeliveryState.PENDING)
    oldest = rows.values("kind").annotate(begin_at=Min("created_at"))
    return {row["kind"]: max(0, int((at - row["begin_at"]).total_seconds())) for row in oldest}
