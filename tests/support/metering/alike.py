"""Exceptions for tests of what is alike: written as metering writes them, a few words each."""

from datetime import datetime, timedelta

from metering.models import ExceptionState, MeteringException, MeteringWindow, PodAllocation
from tenants.models import Cluster
from tests.support.metering.seen import HOUR

GPU = "nvidia.com/gpu"
PERCENTAGE = "nvidia_com_gpumem_percentage"


def hour_of(cluster: Cluster, number: int) -> MeteringWindow:
    """Return a cluster's hour so many after the first."""
    start_at = HOUR + timedelta(hours=number)
    window, _ = MeteringWindow.objects.get_or_create(
        cluster=cluster, start_at=start_at, defaults={"not_before": start_at}
    )
    return window


def excepted(
    window: MeteringWindow,
    kind: str = "unbound_namespace",
    *,
    subject: str = "",
    namespace: str = "",
    held: int = 0,
    state: str = ExceptionState.OPEN,
    **details: object,
) -> MeteringException:
    """Write one exception."""
    return MeteringException.objects.create(
        cluster=window.cluster,
        window=window,
        window_start=window.start_at,
        kind=kind,
        subject=subject,
        namespace=namespace,
        summary="What it is.",
        remedy="What to do.",
        held_unit_seconds=held,
        details=details,
        state=state,
        created_at=window.start_at,
    )


def stray(
    window: MeteringWindow, uid: str, *, namespace: str = "stray", held: int = 3600
) -> MeteringException:
    """Write the exception of a pod in a namespace of nobody."""
    return excepted(
        window,
        subject=f"{uid} nvidia_com_gpu",
        namespace=namespace,
        held=held,
        cause="unbound_namespace",
        resource=GPU,
        units=1,
    )


def percented(window: MeteringWindow, uid: str, units: int = 50) -> MeteringException:
    """Write the exception of a pod that asks for a percentage of a GPU's memory for an hour."""
    return excepted(
        window,
        "unknown_device",
        subject=f"{uid} {PERCENTAGE}",
        namespace="labeling",
        held=units * 3600,
        cause="unknown_resource",
        resource=PERCENTAGE,
        units=units,
    )


def allocated(
    cluster: Cluster, uid: str, size: str, *, at: datetime = HOUR, price_group: str = ""
) -> None:
    """Write into the ledger of what size a pod's GPU is."""
    PodAllocation.objects.create(
        cluster=cluster,
        pod_uid=uid,
        resource=GPU,
        namespace="stray",
        pod_name=uid,
        node="node-1",
        units=1,
        size=size,
        price_group=price_group,
        catalogue_version=1 if size else None,
        begin_at=at,
        last_seen_at=at,
    )
