"""Cluster health added up over hours."""

import pytest

from metering.models import ClusterHealth
from metering.selectors.devices.usage import HealthTotal, health_totals
from tests.support.metering.waste_world import DAY, HOUR, derive, make_waste_world, seal

pytestmark = pytest.mark.django_db


def test_hours_add_up_by_cluster_and_unknown_stays_unknown() -> None:
    world = make_waste_world()
    for hour in range(3):
        seal(world.window(hour))
    derive()
    first, second, later = ClusterHealth.objects.order_by("window_start")
    known = {"expected_seconds": 7200, "pending_pods": 2, "wait_seconds_max": 60}
    ClusterHealth.objects.filter(pk=first.pk).update(ready_seconds=7200, failures=1, **known)
    ClusterHealth.objects.filter(pk=second.pk).update(
        ready_seconds=3600, memory_errors=3, **{**known, "pending_pods": 5, "wait_seconds_max": 30}
    )
    ClusterHealth.objects.filter(pk=later.pk).update(failures=9)

    assert health_totals(begin_at=DAY, end_at=DAY + 2 * HOUR) == (
        HealthTotal(
            cluster_id=world.cluster.pk,
            hours=2,
            expected_seconds=14_400,
            ready_seconds=10_800,
            pending_pods_max=5,
            wait_seconds_max=60,
            memory_errors=3,
            failures=1,
        ),
    )
    assert health_totals(begin_at=DAY + 2 * HOUR, end_at=DAY + 3 * HOUR) == (
        HealthTotal(world.cluster.pk, 1, None, None, None, None, 0, 9),
    )
    assert health_totals(begin_at=DAY + 3 * HOUR, end_at=DAY + 9 * HOUR) == ()
