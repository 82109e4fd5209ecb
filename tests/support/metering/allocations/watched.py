"""What a watch may have written about `HOUR`: rows of the ledger, spans, nodes and claims."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from metering.models import (
    ClaimConsumer,
    NodeLabelSet,
    NodeRecord,
    PodAllocation,
    QueuedPod,
    WatchSpan,
)
from tenants.models import Cluster
from tests.support.metering.seen import HOUR, moment

RAW_H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
}
LARGE_H100 = {
    "size": "large",
    "price_group": "H100/whole",
    "sharing_mode": "whole",
    "product": "NVIDIA-H100-80GB-HBM3",
    "catalogue_version": 1,
}
QUARTER_A100 = {
    "size": "small",
    "price_group": "A100/1of4",
    "sharing_mode": "time-slicing",
    "product": "NVIDIA-A100-SXM4-80GB",
    "share_denominator": 4,
    "catalogue_version": 1,
}
UNSIZED: dict[str, Any] = {"size": "", "catalogue_version": None}


def watched(
    cluster: Cluster, begin: int = -86_400, until: int = 7200, *, is_resumed: bool = False
) -> WatchSpan:
    """Let the watch be healthy for a time, in seconds from the hour's start."""
    Cluster.objects.filter(pk=cluster.pk).update(is_watched=True)
    return WatchSpan.objects.create(
        cluster=cluster, begin_at=moment(begin), until_at=moment(until), is_resumed=is_resumed
    )


def label_set(labels: Mapping[str, str]) -> NodeLabelSet | None:
    """Return the stored set of some labels; None for none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_label_set(%s)", [json.dumps(labels)])
        [(found,)] = cursor.fetchall()
    return NodeLabelSet.objects.filter(pk=found).first()


def ledgered(
    cluster: Cluster,
    uid: str,
    begin: int = -600,
    end: int | None = None,
    *,
    node_labels: Mapping[str, str] = RAW_H100,
    **fields: object,
) -> PodAllocation:
    """Let the watch have written what a pod held, to a container's end or until further notice."""
    defaults: dict[str, object] = {
        "resource": "nvidia.com/gpu",
        "namespace": "team-nlp",
        "pod_name": f"pod-{uid}",
        "node": "node-1",
        "source": "kubernetes",
        "units": 1,
        "begin_at": moment(begin),
        "end_at": None if end is None else moment(end),
        "end_kind": "open" if end is None else "exact",
        "last_seen_at": moment(begin),
        "label_set": label_set(node_labels),
        **LARGE_H100,
    }
    return PodAllocation.objects.create(cluster=cluster, pod_uid=uid, **{**defaults, **fields})


def offered(
    cluster: Cluster,
    node: str = "node-1",
    allocatable: Mapping[str, int] | None = None,
    *,
    begin: int = -86_400,
    end: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> NodeRecord:
    """Let the watch have written what a node offered; eight whole GPUs unless set otherwise."""
    return NodeRecord.objects.create(
        cluster=cluster,
        node=node,
        node_uid=f"uid-of-{node}",
        labels=dict(RAW_H100 if labels is None else labels),
        allocatable=dict({"nvidia.com/gpu": 8} if allocatable is None else allocatable),
        begin_at=moment(begin),
        end_at=None if end is None else moment(end),
    )


def reserved(
    cluster: Cluster, claim_uid: str, uid: str, begin: int, end: int | None = None
) -> ClaimConsumer:
    """Let a claim have been reserved for a pod for a time."""
    return ClaimConsumer.objects.create(
        cluster=cluster,
        claim_uid=claim_uid,
        pod_uid=uid,
        pod_name=f"pod-{uid}",
        owner=f"owner-of-{uid}",
        begin_at=moment(begin),
        end_at=None if end is None else moment(end),
    )


def queued(cluster: Cluster, uid: str, *, bound_at: datetime | None = HOUR) -> QueuedPod:
    """Let the watch have seen a pod on its way to a node."""
    return QueuedPod.objects.create(
        cluster=cluster,
        pod_uid=uid,
        namespace="team-nlp",
        pod_name=f"pod-{uid}",
        created_at=HOUR,
        bound_at=bound_at,
    )
