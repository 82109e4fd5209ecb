"""Device usage: written after its window is sealed, frozen by a seal of its own."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from metering.models import DeviceUsage, DeviceWindow, MeteringWindow, UsageActivity, UsageRecord
from metering.protocols import DeviceObservation, EnergyObservation, Observation
from metering.services.collection.sealing import seal_window
from metering.services.devices.collection import DeviceSweep, collect_due_devices
from tenants.models import Project
from tests.support.metering.collecting import DUE, claim, collect, measure
from tests.support.metering.device_rows import make_device_usage
from tests.support.metering.seen import (
    ACTOR,
    MIXED_H100,
    SLICED_A100,
    device,
    moment,
    node,
    observation,
    pod,
    worker,
)

pytestmark = pytest.mark.usefixtures("project")
HALF = 1800
SMUGGLED = (
    "INSERT INTO metering_devicefigure SELECT id + 9, window_start, energy_millijoules, device_id,"
    " holder_id, coverage_id, begin_milliseconds, end_milliseconds FROM metering_devicefigure"
)
SMUGGLED_ACTIVITY = (
    "INSERT INTO metering_usageactivity (window_id, window_start, pod_uid, resource)"
    " SELECT window_id, window_start, 'smuggled', resource FROM metering_usageactivity"
)


def rows() -> list[tuple[object, ...]]:
    """Return what is shown each device: where, whose, how busy, which energy."""
    return list(
        DeviceUsage.objects.order_by("uuid", "instance_id", "begin_at", "attribution").values_list(
            "uuid", "instance_id", "attribution", "pod_uid", "seconds", "energy_millijoules"
        )
    )


def instance(number: str, profile: str, pod_name: str = "", **fields: Any) -> DeviceObservation:  # noqa: ANN401 - Fields of an observation.
    """Return a MIG instance that served one pod, or nobody, all the hour."""
    named: dict[str, Any] = {"namespace": "team-nlp" if pod_name else "", "pod": pod_name}
    return device(
        instance_id=number,
        instance_profile=profile,
        energy_millijoules=None,
        **named,
        **fields,
    )


def partitioned() -> Observation:
    """Return an hour of a GPU cut into 3g, 2g and 1g, the 1g idle, that took 700 kJ."""
    resources = {"nvidia_com_mig_3g_40gb": 1, "nvidia_com_mig_2g_20gb": 1}
    labels = {
        **MIXED_H100,
        "nvidia_com_mig_3g_40gb_product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
        "nvidia_com_mig_3g_40gb_replicas": "1",
        "nvidia_com_mig_2g_20gb_product": "NVIDIA-H100-80GB-HBM3-MIG-2g.20gb",
        "nvidia_com_mig_2g_20gb_replicas": "1",
    }
    return observation(
        pod("a", "nvidia_com_mig_3g_40gb", labels=labels),
        pod("b", "nvidia_com_mig_2g_20gb", labels=labels),
        nodes=(node(allocatable={**resources, "nvidia_com_mig_1g_10gb": 1}, labels=labels),),
        devices=(
            instance("2", "3g.40gb", "pod-a", busy_ratio=Decimal("0.8")),
            instance("3", "2g.20gb", "pod-b", busy_ratio=Decimal("0.4")),
            instance("9", "1g.10gb", busy_ratio=Decimal(0)),
        ),
        energies=(
            EnergyObservation(
                "GPU-1", "node-1", (moment(0), moment(3600)), (0, 700_000_000), 70_000
            ),
        ),
    )


def sliced(*devices: DeviceObservation) -> Observation:
    """Return an hour of two pods that share the GPUs of a time-slicing node."""
    return observation(
        pod("a", labels=SLICED_A100),
        pod("b", labels=SLICED_A100, scheduled_at=moment(HALF), first_seen_at=moment(HALF)),
        nodes=(node(allocatable={"nvidia_com_gpu": 4}, labels=SLICED_A100),),
        devices=devices,
    )


def test_a_whole_gpu_is_reported_with_its_pod_and_project(project: Project) -> None:
    seen = device(
        sm_active_ratio=Decimal("0.25"),
        dram_active_ratio=Decimal("0.125"),
        memory_used_peak_mebibytes=70_124,
        memory_total_mebibytes=81_559,
        power_mean_milliwatts=642_317,
        figure_samples={"sm_active": 120, "dram_active": 60, "memory": 30, "power": 240},
    )

    measure(observation(pod("uid-1"), devices=(seen,)))

    row = DeviceUsage.objects.get()
    assert (row.attribution, row.pod_uid, row.pod_name) == ("exclusive", "uid-1", "pod-uid-1")
    assert (row.project, row.organization) == (project, project.organization)
    assert (row.size, row.price_group, row.sharing_mode) == ("large", "H100/whole", "whole")
    assert (row.resource, row.node, row.model) == ("nvidia.com/gpu", "node-1", seen.model)
    assert (row.busy_ratio, row.busy_coverage) == (Decimal("0.500000"), Decimal("1.00000"))
    assert (row.sm_active_ratio, row.sm_active_coverage) == (Decimal("0.25"), Decimal(1))
    assert (row.dram_active_ratio, row.dram_active_coverage) == (Decimal("0.125"), Decimal("0.5"))
    assert (row.memory_used_peak_mebibytes, row.memory_total_mebibytes) == (70_124, 81_559)
    assert (row.memory_coverage, row.power_coverage) == (Decimal("0.25"), Decimal(1))
    assert (row.power_mean_milliwatts, row.energy_millijoules) == (642_317, 1_000_000)


def test_a_gpu_is_not_idle_while_a_pod_beside_it_waits_in_an_exception() -> None:
    measure(observation(pod("a", namespace="stray"), devices=(device(namespace="", pod=""),)))

    assert rows() == [("GPU-1", "", "unattributed", "", 3600, 1_000_000)]


def test_what_is_not_sampled_is_null_and_covered_by_nothing() -> None:
    measure(observation(pod("uid-1"), devices=(device(busy_ratio=None, samples=0),)))

    row = DeviceUsage.objects.get()
    assert (row.busy_ratio, row.busy_coverage) == (None, Decimal(0))
    assert (row.sm_active_ratio, row.sm_active_coverage) == (None, Decimal(0))
    assert (row.tensor_active_ratio, row.tensor_active_coverage) == (None, Decimal(0))
    assert (row.power_mean_milliwatts, row.memory_total_mebibytes) == (None, None)


def test_a_window_names_the_figures_that_nobody_exports() -> None:
    measure(observation(pod("uid-1"), devices=(device(),), missing_figures=("sm_active",)))

    assert DeviceWindow.objects.get().missing_figures == ["sm_active"]


def test_activity_in_doubt_is_reported_as_such_and_nobody_is_accused() -> None:
    uncertain = device(busy_ratio=Decimal(0), is_busy_uncertain=True)

    measure(observation(pod("uid-1"), devices=(uncertain,)))

    row = DeviceUsage.objects.get()
    assert (row.is_busy_uncertain, row.busy_ratio) == (True, None)
    activity = UsageActivity.objects.get()
    assert (activity.busy_ratio, activity.energy_millijoules) == (None, 1_000_000)


def test_instances_share_out_what_their_gpu_took() -> None:
    measure(partitioned())

    assert rows() == [
        ("GPU-1", "", "overhead", "", 3600, 36_000_000),
        ("GPU-1", "2", "exclusive", "a", 3600, 444_000_000),
        ("GPU-1", "3", "exclusive", "b", 3600, 184_000_000),
        ("GPU-1", "9", "idle", "", 3600, 36_000_000),
    ]
    assert sum(int(str(row[-1])) for row in rows()) == 700_000_000
    records = UsageRecord.objects.order_by("pod_uid").values_list(
        "activity__busy_ratio", "activity__energy_millijoules"
    )
    assert list(records) == [
        (Decimal("0.800000"), 444_000_000),
        (Decimal("0.400000"), 184_000_000),
    ]


def test_energy_of_a_gpu_that_showed_nothing_else_is_passed_over() -> None:
    energy = EnergyObservation("GPU-9", "node-1", (moment(0), moment(3600)), (0, 100))

    measure(observation(pod("uid-1"), devices=(device(),), energies=(energy,)))

    assert rows() == [("GPU-1", "", "exclusive", "uid-1", 3600, 1_000_000)]


def test_energy_between_two_pods_is_overhead_beside_their_rows() -> None:
    marks = (moment(0), moment(600), moment(1200), moment(3600))
    energy = EnergyObservation("GPU-1", "node-1", marks, (0, 100, 150, 400))

    measure(
        observation(
            pod("a"),
            pod("b"),
            devices=(
                device(pod="pod-a", end_at=moment(600), samples=20, expected_samples=20),
                device(pod="pod-b", begin_at=moment(1200), samples=80, expected_samples=80),
            ),
            energies=(energy,),
        )
    )

    assert rows() == [
        ("GPU-1", "", "exclusive", "a", 600, 100),
        ("GPU-1", "", "overhead", "", 3600, 50),
        ("GPU-1", "", "exclusive", "b", 2400, 250),
    ]


def test_labels_too_long_for_the_table_do_not_stop_the_hour() -> None:
    odd = device("GPU-2", model="H" * 200, namespace="n" * 70, pod="p" * 300)

    swept = measure(
        observation(pod("uid-1"), devices=(device(), odd, device("G" * 65), device("GPU-3")))
    )

    assert swept == DeviceSweep(sealed=1)
    assert [row[0] for row in rows()] == ["GPU-1", "GPU-2", "GPU-3"]
    kept = DeviceUsage.objects.get(uuid="GPU-2")
    assert (kept.model, kept.namespace, kept.pod_name) == ("H" * 128, "n" * 63, "p" * 253)


def test_a_shared_gpu_is_reported_as_a_whole_and_its_energy_goes_by_share_and_time() -> None:
    measure(sliced(device(pod="pod-a", energy_millijoules=4_000_000)))

    assert rows() == [("GPU-1", "", "shared", "", 3600, 4_000_000)]
    row = DeviceUsage.objects.get()
    assert (row.busy_ratio, row.project, row.sharing_mode) == (
        Decimal("0.500000"),
        None,
        "time-slicing",
    )
    # A quarter of an hour's GPU and a quarter of half an hour's; the rest was nobody's.
    records = UsageRecord.objects.order_by("pod_uid").values_list(
        "activity__busy_ratio", "activity__energy_millijoules"
    )
    assert list(records) == [(None, 1_000_000), (None, 500_000)]


def test_the_shared_gpus_of_a_node_are_taken_together() -> None:
    measure(
        sliced(
            device(pod="", namespace="", energy_millijoules=3_000_000),
            device("GPU-2", pod="", namespace="", energy_millijoules=1_000_000),
        )
    )

    assert [row[2] for row in rows()] == ["shared", "shared"]
    energies = UsageRecord.objects.order_by("pod_uid").values_list(
        "activity__energy_millijoules", flat=True
    )
    assert list(energies) == [500_000, 250_000]


def test_one_shared_gpu_of_unknown_energy_leaves_everybodys_unknown() -> None:
    measure(sliced(device(), device("GPU-2", energy_millijoules=None)))

    energies = UsageRecord.objects.values_list("activity__energy_millijoules", flat=True)
    assert list(energies) == [None, None]


def test_an_attempt_that_starts_anew_replaces_what_was_written() -> None:
    window_id = collect(observation(pod("uid-1"))).window_id
    window = MeteringWindow.objects.get(pk=window_id)
    make_device_usage(**row_of(window, uuid="GPU-left", end_at=moment(3600)))
    seal_window(window_id=window_id, actor=ACTOR, at=DUE)

    collect_due_devices(worker=worker(observation(devices=(device("GPU-3"),))), at=DUE)

    assert [row[0] for row in rows()] == ["GPU-3"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE metering_devicefigure SET end_milliseconds = 1",
        "DELETE FROM metering_devicefigure",
        "TRUNCATE metering_devicefigure",
        "DELETE FROM metering_deviceusage",
        SMUGGLED,
        "UPDATE metering_devicefact SET uuid = 'GPU-2'",
        "UPDATE metering_deviceholder SET pod_uid = 'uid-2'",
        "UPDATE metering_devicecoverage SET busy = 1",
        "DELETE FROM metering_deviceholder",
        "UPDATE metering_usageactivity SET busy_ratio = 1",
        "DELETE FROM metering_usageactivity",
        "TRUNCATE metering_usageactivity",
        SMUGGLED_ACTIVITY,
        "UPDATE metering_devicewindow SET state = 'due', sealed_at = NULL",
        "UPDATE metering_devicewindow SET row_digest = ''",
        "DELETE FROM metering_devicewindow",
        "TRUNCATE metering_devicewindow",
    ],
)
def test_sealed_device_figures_are_frozen(change: str) -> None:
    measure(observation(pod("uid-1"), devices=(device(),)))
    before = rows(), list(UsageActivity.objects.values()), list(DeviceWindow.objects.values())

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)

    after = rows(), list(UsageActivity.objects.values()), list(DeviceWindow.objects.values())
    assert after == before


def test_a_row_must_lie_inside_its_window() -> None:
    window = MeteringWindow.objects.get(pk=claim().id)

    with pytest.raises(DatabaseError, match="within_its_hour"), transaction.atomic():
        make_device_usage(**row_of(window, uuid="GPU-9", end_at=moment(3601)))

    assert rows() == []


def test_a_device_serves_one_organization_from_one_time_on(project: Project) -> None:
    window = MeteringWindow.objects.get(pk=claim().id)
    row = row_of(window, uuid="GPU-9", end_at=moment(3600))
    own: dict[str, Any] = {"organization": project.organization, "project": project}
    make_device_usage(**row)

    twice = pytest.raises(DatabaseError, match="has GPU-9 from one time on twice")
    with twice, transaction.atomic():
        make_device_usage(**row, **own)

    assert [row[:3] for row in rows()] == [("GPU-9", "", "idle")]


def test_a_holder_has_the_organization_of_its_project(project: Project) -> None:
    window = MeteringWindow.objects.get(pk=claim().id)
    row = row_of(window, uuid="GPU-9", end_at=moment(3600))

    with pytest.raises(DatabaseError, match="is not of the organization"), transaction.atomic():
        make_device_usage(**row, organization=project.organization)

    assert rows() == []


@pytest.mark.parametrize(
    ("column", "fact"), [("device_id", "0"), ("holder_id", "0"), ("coverage_id", "0")]
)
def test_a_row_has_facts_that_exist(column: str, fact: str) -> None:
    window = MeteringWindow.objects.get(pk=claim().id)
    make_device_usage(**row_of(window, uuid="GPU-9", end_at=moment(3600)))
    smuggled = SMUGGLED.replace(f" {column},", f" {fact},")

    with (
        pytest.raises(DatabaseError, match="has facts of no device of its cluster"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(smuggled)

    assert len(rows()) == 1


def row_of(window: MeteringWindow, *, uuid: str, end_at: datetime) -> dict[str, Any]:
    """Return an idle device from the start of a window."""
    return {
        "window": window,
        "node": "node-1",
        "uuid": uuid,
        "attribution": "idle",
        "begin_at": moment(0),
        "end_at": end_at,
    }
