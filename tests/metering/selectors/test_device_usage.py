"""Device totals: each project's own devices beside its use, in two statements."""

from datetime import timedelta
from decimal import Decimal

from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.models import DeviceUsage, MeteringWindow, UsageRecord
from metering.selectors.devices.usage import KnownMean, ProjectDevices, project_devices
from metering.services.collection.windows import open_due_windows
from tenants.models import Project
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.collecting import DUE, measure
from tests.support.metering.seen import HOUR, SLICED_A100, device, moment, node, observation, pod
from tests.support.shared_rows import shared_rows

END = HOUR + timedelta(hours=1)
UNKNOWN = KnownMean(None, 0)


@shared_rows
def project() -> Project:
    """The project of namespace `team-nlp`, whose first window is due."""
    project = make_project(make_organization())
    bind(make_cluster(metered_from=HOUR), "team-nlp", project)
    open_due_windows(at=DUE)
    return project


def test_means_are_weighted_by_seconds_over_what_is_known(project: Project) -> None:
    full = {"sm_active": 120, "dram_active": 120, "power": 120, "memory": 120}
    measure(
        observation(
            pod("uid-1", units=2),
            devices=(
                device(
                    busy_ratio=Decimal("0.9"),
                    sm_active_ratio=Decimal("0.5"),
                    dram_active_ratio=Decimal("0.3"),
                    memory_used_peak_mebibytes=20_000,
                    memory_total_mebibytes=80_000,
                    power_mean_milliwatts=600_000,
                    figure_samples=full,
                ),
                device(
                    "GPU-2",
                    end_at=moment(1200),
                    busy_ratio=Decimal("0.1"),
                    sm_active_ratio=Decimal("0.1"),
                    memory_used_peak_mebibytes=60_000,
                    memory_total_mebibytes=80_000,
                    power_mean_milliwatts=200_000,
                    samples=40,
                    expected_samples=40,
                    # Under four fifths: not reported.
                    figure_samples={**full, "sm_active": 31, "power": 40},
                ),
                device("GPU-3", namespace="", pod="", busy_ratio=Decimal(0)),
            ),
        )
    )

    assert project_devices(begin_at=HOUR, end_at=END) == (
        ProjectDevices(
            project_id=project.pk,
            unit_seconds=7200,
            energy_millijoules=None,
            device_seconds=4800,
            busy=KnownMean(Decimal("0.700000"), 4800),
            sm_active=KnownMean(Decimal("0.500000"), 3600),
            dram_active=KnownMean(Decimal("0.300000"), 3600),
            memory_peak_ratio=Decimal("0.750000"),
            power=KnownMean(Decimal("500000.000000"), 4800),
        ),
    )


def test_a_project_on_shared_devices_only_has_use_and_no_activity(project: Project) -> None:
    measure(
        observation(
            pod("a", labels=SLICED_A100),
            nodes=(node(allocatable={"nvidia_com_gpu": 4}, labels=SLICED_A100),),
            devices=(device(pod="pod-a", energy_millijoules=400),),
        )
    )

    assert project_devices(begin_at=HOUR, end_at=END) == (
        ProjectDevices(project.pk, 3600, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, None, UNKNOWN),
    )


def test_only_the_range_and_the_cluster_asked_for_are_reported(project: Project) -> None:
    measure(observation(pod("uid-1"), devices=(device(),)))
    cluster = MeteringWindow.objects.get().cluster
    other = make_cluster("ampere")

    assert project_devices(begin_at=END, end_at=END + timedelta(hours=1)) == ()
    assert project_devices(begin_at=HOUR, end_at=END, cluster_id=other.pk) == ()
    [reported] = project_devices(begin_at=HOUR, end_at=END, cluster_id=cluster.pk)
    assert (reported.project_id, reported.energy_millijoules) == (project.pk, 1_000_000)


def test_it_costs_three_statements(project: Project) -> None:
    measure(observation(pod("uid-1"), devices=(device(), device("GPU-2"))))
    assert (UsageRecord.objects.count(), DeviceUsage.objects.count()) == (1, 2)
    assert project is not None

    with CaptureQueriesContext(connection) as captured:
        project_devices(begin_at=HOUR, end_at=END)

    assert len(captured) == 3
