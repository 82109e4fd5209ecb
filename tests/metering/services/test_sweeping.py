"""Sweeping: what is due is metered and sealed, and nothing else."""

import pytest

from metering.models import CapacityRecord, MeteringWindow, PodAllocation, UsageRecord
from metering.services.sweeping import meter_due
from tests.builders import bind, make_cluster, make_organization, make_project
from tests.metering.seen import HOUR, moment, observation, pod, worker

pytestmark = pytest.mark.django_db


def test_a_due_hour_is_metered_and_sealed() -> None:
    cluster = make_cluster(metered_from=HOUR)
    project = make_project(make_organization())
    bind(cluster, "team-nlp", project)

    sweep = meter_due(worker=worker(observation(pod(units=2))), at=moment(3600 + 900))

    assert (sweep.opened, sweep.sealed, sweep.retried, sweep.failed) == (1, 1, 0, 0)
    record = UsageRecord.objects.get()
    assert (record.project_id, record.size, record.price_group) == (
        project.id,
        "large",
        "H100/whole",
    )
    assert (record.units, record.seconds, record.unit_seconds) == (2, 3600, 7200)
    assert MeteringWindow.objects.get().record_digest != ""
    assert PodAllocation.objects.get().resource == "nvidia.com/gpu"
    capacity = CapacityRecord.objects.get()
    assert (capacity.capacity_unit_seconds, capacity.idle_unit_seconds) == (28800, 21600)
