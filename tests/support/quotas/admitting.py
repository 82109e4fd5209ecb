"""What tests of admission share: pods that ask, and what the counters and their truth say."""

import json
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import connection

from metering.domain.catalogue.units import GPUSize
from metering.models import ClaimConsumer, ClusterWatch, PodAllocation, QueuedPod
from quotas.domain.admission.live_use import LiveUseSweep, sweep_of
from quotas.domain.admission.values import AdmissionVerdict, Demand, PodQuestion
from quotas.models import QuotaCounter, QuotaLimit, Reservation
from quotas.services.admission.admission import admit
from quotas.services.admission.live_use import sweep_live_use
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import AT

TTL_SECONDS = 120
LATER = AT + timedelta(seconds=TTL_SECONDS)
"""When what was let in at `AT` expires."""
BURST_CLASSES = ("gpu-ledger-burst",)
Counted = tuple[int, int, int, int]
"""Held, reserved, burst held, burst reserved."""


def demand(
    units: int = 1,
    *,
    size: str = "large",
    groups: tuple[str, ...] = ("H100",),
    resource: str = "nvidia.com/gpu",
) -> Demand:
    """Return what a pod asks of one resource."""
    return Demand(resource=resource, size=GPUSize(size), units=units, model_groups=groups)


def question(
    cluster: Cluster, namespace: str = "llm", uid: str = "pod-1", *demands: Demand, **fields: object
) -> PodQuestion:
    """Return a pod that asks for one Large H100 unless it says otherwise."""
    asked = PodQuestion(
        cluster_id=cluster.pk,
        namespace=namespace,
        pod_uid=uid,
        pod_name=uid,
        owner="",
        demands=demands or (demand(),),
    )
    return replace(asked, **fields)  # type: ignore[arg-type] # The caller's fields are its own.


def ask(
    cluster: Cluster,
    namespace: str = "llm",
    uid: str = "pod-1",
    *demands: Demand,
    at: datetime = AT,
    unbound: str = "deny",
    **fields: object,
) -> AdmissionVerdict:
    """Ask for a pod, and return what was answered."""
    return admit(
        question=question(cluster, namespace, uid, *demands, **fields),
        at=at,
        ttl_seconds=TTL_SECONDS,
        unbound=unbound,
    )


def sweep(at: datetime = LATER) -> LiveUseSweep:
    """Bring reservations to what the watch has reported."""
    return sweep_live_use(burst_classes=BURST_CLASSES, actor=system_actor("tests"), at=at)


def turns(keys_max: int, at: datetime = LATER) -> list[str]:
    """Return the turns a sweep would take, as the ledger shows them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT keys::text FROM quotas_batches(%s, %s, %s)", [at, list(BURST_CLASSES), keys_max]
        )
        return [keys for (keys,) in cursor.fetchall()]


def looks_differ(at: datetime = LATER) -> list[tuple[object, ...]]:
    """Return what only one of the two looks shows, when both are at the same keys."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH whole AS (SELECT * FROM quotas_wanted(%s, %s)), picked AS ("
            "SELECT * FROM quotas_wanted_of(%s, %s, (SELECT jsonb_agg(w) FROM whole w)))"
            " (TABLE whole EXCEPT TABLE picked) UNION ALL (TABLE picked EXCEPT TABLE whole)",
            [at, list(BURST_CLASSES)] * 2,
        )
        return list(cursor.fetchall())


def take(turn: str, at: datetime = LATER) -> LiveUseSweep:
    """Take one turn of a sweep, and no more."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT quotas_sweep(%s, %s, %s::jsonb)", [at, list(BURST_CLASSES), turn])
        (answer,) = cursor.fetchone()
    return sweep_of(json.loads(answer))


def share(cluster: Cluster, claim: str, uid: str) -> None:
    """Let the watch see that a pod is bound, and which device claim it uses."""
    see(cluster, uid, bound_at=AT)
    ClaimConsumer.objects.create(
        cluster=cluster, claim_uid=claim, pod_uid=uid, pod_name=uid, begin_at=AT
    )


def beat(cluster: Cluster, at: datetime = LATER) -> None:
    """Let the watch say that it has eyes, and has written all it saw."""
    ClusterWatch.objects.update_or_create(cluster=cluster, defaults={"healthy_at": at})


def counted(limit: QuotaLimit) -> Counted:
    """Return what a limit's counter says; one that is not open yet has counted nothing."""
    row = QuotaCounter.objects.filter(pk=limit.pk).first() or QuotaCounter()
    return (row.held_units, row.reserved_units, row.burst_held_units, row.burst_reserved_units)


def drifted() -> list[tuple[object, ...]]:
    """Return every counter that is not the sum of its reservations, with both."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n.*, c.* FROM quotas_counted n"
            " LEFT JOIN quotas_quotacounter c ON c.limit_id = n.limit_id"
            " WHERE (c.held_units, c.reserved_units, c.burst_held_units, c.burst_reserved_units)"
            " IS DISTINCT FROM (n.held_units, n.reserved_units, n.burst_held_units,"
            " n.burst_reserved_units)"
        )
        return list(cursor.fetchall())


def held_by_truth(limit: QuotaLimit) -> int:
    """Return the units that live reservations of a project's limit add up to."""
    rows = Reservation.objects.filter(project=limit.project, size=limit.size)
    return sum(rows.exclude(state="released").values_list("units", flat=True))


def see(cluster: Cluster, uid: str = "pod-1", **fields: object) -> QueuedPod:
    """Let the watch see a pod that waits."""
    defaults: dict[str, object] = {"namespace": "llm", "pod_name": uid, "created_at": AT}
    return QueuedPod.objects.create(cluster=cluster, pod_uid=uid, **{**defaults, **fields})


def start(cluster: Cluster, uid: str = "pod-1", **fields: object) -> PodAllocation:
    """Bind a pod."""
    defaults: dict[str, object] = {
        "resource": "nvidia.com/gpu",
        "namespace": "llm",
        "pod_name": uid,
        "node": "node-1",
        "units": 1,
        "size": "large",
        "price_group": "H100/whole",
        "sharing_mode": "whole",
        "catalogue_version": 1,
        "begin_at": AT,
        "last_seen_at": AT,
    }
    return PodAllocation.objects.create(cluster=cluster, pod_uid=uid, **{**defaults, **fields})


def end(allocation: PodAllocation, at: datetime = LATER) -> None:
    """End what a pod holds."""
    PodAllocation.objects.filter(pk=allocation.pk).update(end_at=at, end_kind="exact")


def state(uid: str = "pod-1") -> tuple[str, str]:
    """Return where a pod's one reservation stands, and why it was released."""
    row = Reservation.objects.get(pod_uid=uid)
    return row.state, row.release_reason
