"""New incidents are reported once, together, however many exceptions and hours they have."""

from datetime import timedelta

import pytest

from metering.models import ExceptionState, MeteringException
from metering.services.corrections.notices import report_new_incidents
from tenants.domain.identity.roles import Role
from tenants.models import Cluster, Notification, NotificationDelivery
from tests.support.builders import grant, make_cluster, make_user
from tests.support.metering.alike import hour_of, stray
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
AT = HOUR + timedelta(hours=3)


@shared_rows
def cluster() -> Cluster:
    grant(make_user("frank"), Role.PLATFORM_ADMIN)
    return make_cluster(name="Hopper", metered_from=HOUR)


def test_causes_that_are_new_are_one_mail_with_what_to_do(cluster: Cluster) -> None:
    for hour in range(2):
        stray(hour_of(cluster, hour), "a")
    stray(hour_of(cluster, 1), "b", namespace="lost")

    reported = [report_new_incidents(at=AT) for _ in range(2)]

    notice = Notification.objects.get()
    assert reported == [2, 0]
    assert notice.subject == "2 new incidents"
    assert (
        "Unbound namespace, stray, cluster Hopper: 2 exceptions since 2026-10-05 13:00 UTC.\n"
        "What to do: What to do."
    ) in notice.text
    assert [one["namespace"] for one in notice.facts["incidents"]] == ["stray", "lost"]
    assert NotificationDelivery.objects.get().address == "frank@example.test"


def test_no_cause_of_many_is_left_out(cluster: Cluster) -> None:
    for number in range(60):
        stray(hour_of(cluster, 0), f"pod-{number}", namespace=f"stray-{number}")

    assert [report_new_incidents(at=AT) for _ in range(2)] == [60, 0]
    assert len(Notification.objects.get().facts["incidents"]) == 60


def test_further_hours_of_a_known_cause_are_not_reported(cluster: Cluster) -> None:
    stray(hour_of(cluster, 0), "a")
    report_new_incidents(at=AT)
    MeteringException.objects.update(state=ExceptionState.RESOLVED)

    stray(hour_of(cluster, 50), "a")
    later = report_new_incidents(at=HOUR + timedelta(hours=51))

    assert (later, Notification.objects.count()) == (0, 1)


def test_a_cause_that_comes_back_after_a_week_is_new_again(cluster: Cluster) -> None:
    stray(hour_of(cluster, 0), "a")
    report_new_incidents(at=AT)
    MeteringException.objects.update(state=ExceptionState.RESOLVED)

    stray(hour_of(cluster, 24 * 9), "a")

    assert report_new_incidents(at=HOUR + timedelta(days=9, hours=1)) == 1


def test_what_was_open_before_the_first_sweep_is_not_reported(cluster: Cluster) -> None:
    stray(hour_of(cluster, 0), "a")
    stray(hour_of(cluster, 30), "a")

    assert report_new_incidents(at=HOUR + timedelta(hours=31)) == 0
