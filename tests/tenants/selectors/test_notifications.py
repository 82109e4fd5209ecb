"""How many deliveries are stuck, and for how long, by kind."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client

from tenants.models import NotificationDelivery
from tenants.selectors.notifications import deliveries_given_up, oldest_undelivered_age
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT
from tests.support.cast import make_cast

LATER = AT + timedelta(hours=1)


def tell(count: int) -> None:
    """Write so many deliveries by mail, a minute between them."""
    cast = make_cast()
    for number in range(count):
        with transaction.atomic():
            notify(
                event="quotas:request:approved",
                organization_id=cast.acme.pk,
                subject="x",
                text="x",
                usernames=["bob"],
                at=AT + timedelta(minutes=number),
            )


@pytest.mark.django_db
def test_nothing_is_stuck_where_nothing_was_reported() -> None:
    assert deliveries_given_up() == {}
    assert oldest_undelivered_age(at=AT) == {}


@pytest.mark.django_db
def test_the_oldest_that_waits_shows_the_age_of_its_kind() -> None:
    tell(4)
    rows = list(NotificationDelivery.objects.order_by("created_at"))
    NotificationDelivery.objects.filter(pk=rows[0].pk).update(state="sent", sent_at=AT)
    NotificationDelivery.objects.filter(pk=rows[2].pk).update(kind="webhook")

    assert oldest_undelivered_age(at=LATER) == {"mail": 59 * 60, "webhook": 58 * 60}
    assert oldest_undelivered_age(at=AT) == {"mail": 0, "webhook": 0}


@pytest.mark.django_db
def test_what_was_given_up_is_counted_and_exported_without_a_name() -> None:
    tell(3)
    first = NotificationDelivery.objects.order_by("created_at")[0]
    NotificationDelivery.objects.exclude(pk=first.pk).update(state="given_up")

    page = Client().get("/metrics", SERVER_PORT=str(settings.METRICS_PORT)).content.decode()

    assert deliveries_given_up() == {"mail": 2}
    assert 'gpu_ledger_notifications_given_up{kind="mail"} 2.0' in page
    assert 'gpu_ledger_undelivered_notification_age_seconds{kind="mail"} ' in page
    assert "bob@example.test" not in page
