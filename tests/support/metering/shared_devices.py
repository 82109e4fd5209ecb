"""Pods on shared devices and on MIG instances, written straight into the ledgers."""

from datetime import datetime, timedelta

from metering.models import CapacityRecord, DeviceUsage, MeteringWindow, PodAllocation
from tenants.models import Cluster, Project
from tests.support.builders import AT
from tests.support.metering.device_rows import make_device_usage

HOUR = AT.replace(minute=0, second=0, microsecond=0)


def moment(minute: int) -> datetime:
    """Return a minute from the hour's start."""
    return HOUR + timedelta(minutes=minute)


def window_of(cluster: Cluster, start_at: datetime = HOUR) -> MeteringWindow:
    """Return the window of an hour."""
    window, _ = MeteringWindow.objects.get_or_create(
        cluster=cluster, start_at=start_at, defaults={"not_before": start_at}
    )
    return window


def share(
    cluster: Cluster, holder: Project, begin: int, end: int | None, **fields: object
) -> PodAllocation:
    """Return a pod that held a quarter of an A100 by time-slicing, in minutes of the hour."""
    number = PodAllocation.objects.count()
    given: dict[str, object] = {
        "cluster": cluster,
        "pod_uid": f"uid-{number}",
        "resource": "nvidia.com/gpu",
        "namespace": "ns",
        "pod_name": f"pod-{number}",
        "node": "node-1",
        "project": holder,
        "units": 1,
        "size": "small",
        "price_group": "A100/1of4",
        "sharing_mode": "time-slicing",
        "share_denominator": 4,
        "catalogue_version": 1,
        "begin_at": moment(begin),
        "end_at": None if end is None else moment(end),
        "end_kind": "open" if end is None else "exact",
        "last_seen_at": AT,
    }
    return PodAllocation.objects.create(**{**given, **fields})


def offer(cluster: Cluster, units: int, *, node: str = "node-1") -> CapacityRecord:
    """Return what a node offered in the hour; four units are one device."""
    window = window_of(cluster)
    return CapacityRecord.objects.create(
        window=window,
        window_start=window.start_at,
        cluster=cluster,
        node=node,
        resource="nvidia.com/gpu",
        size="small",
        price_group="A100/1of4",
        share_denominator=4,
        allocatable_units=units,
        capacity_unit_seconds=0,
        billed_unit_seconds=0,
        held_unit_seconds=0,
        idle_unit_seconds=0,
    )


def instance(
    cluster: Cluster,
    holder: Project,
    number: int,
    *,
    begin: int = 0,
    end: int = 60,
    **fields: object,
) -> DeviceUsage:
    """Return what a MIG instance of one GPU did for the only pod it served."""
    window = window_of(cluster)
    given: dict[str, object] = {
        "node": "node-1",
        "uuid": "GPU-1",
        "instance_id": str(number),
        "instance_profile": "1g.10gb",
        "attribution": "exclusive",
        "namespace": holder.slug,
        "pod_name": f"{holder.slug}-{number}",
        "pod_uid": f"{holder.slug}-{number}",
        "resource": "nvidia.com/mig-1g.10gb",
        "organization": holder.organization,
        "project": holder,
        "sharing_mode": "mig",
        "begin_at": moment(begin),
        "end_at": moment(end),
    }
    return make_device_usage(window, **{**given, **fields})
