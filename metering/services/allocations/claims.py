"""Claims: ResourceClaims written as allocations of their own, and the devices they were offered.

Claims are few beside pods, so a batch of them is compared in memory; the statements are the same
few however many there are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from metering.domain.allocations.claims import (
    CLASS_LENGTH_MAX,
    ClaimBook,
    ClaimRow,
    ClaimSnapshot,
    ConsumerRow,
    is_claim_of_resource,
    units_by_class,
)
from metering.domain.allocations.timeline import EndKind
from metering.domain.catalogue.claimed_devices import common_attributes, kept_attributes
from metering.domain.catalogue.sizing import Catalogue
from metering.models import ClaimConsumer, DeviceClass, OfferedDevice, PodAllocation, QueuedPod
from metering.protocols.watch import ClaimedDevice, ClaimState, ClassState, SliceState
from metering.services.allocations.sizing import SIZES, sizes_json
from metering.services.allocations.states import Changed, Observed

_ROW = """r(claim_uid text, resource text, namespace text, name text, node text, units integer,
  labels jsonb, begin_at timestamptz, end_at timestamptz, end_kind text, slack_seconds integer,
  last_seen_at timestamptz)"""
_OPEN = f"""
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node, owner,
  priority_class, controller, source, project_id, units, size, price_group, sharing_mode, product,
  share_numerator, share_denominator, catalogue_version, label_set_id, begin_at, end_at,
  end_slack_seconds, end_kind, last_seen_at)
SELECT %(cluster_id)s, r.claim_uid, r.resource, r.namespace, r.name, r.node, '', '', '',
       'kubernetes', b.project_id, r.units, COALESCE(z.size, ''), COALESCE(z.price_group, ''),
       COALESCE(z.sharing_mode, ''), COALESCE(z.product, ''), COALESCE(z.share_numerator, 1),
       COALESCE(z.share_denominator, 1), z.catalogue_version, metering_label_set(r.labels),
       r.begin_at, r.end_at, r.slack_seconds, r.end_kind, r.last_seen_at
  FROM jsonb_to_recordset(%(rows)s) AS {_ROW}
  LEFT JOIN {SIZES} ON z.resource = r.resource AND z.labels = r.labels
  LEFT JOIN tenants_namespacebinding b
    ON b.cluster_id = %(cluster_id)s AND b.namespace = r.namespace AND b.valid @> r.begin_at
"""  # noqa: S608 - The relations are constants of ours.
_CHANGE = f"""
UPDATE metering_podallocation a
   SET end_at = r.end_at, end_kind = r.end_kind, end_slack_seconds = r.slack_seconds,
       last_seen_at = GREATEST(a.last_seen_at, r.last_seen_at),
       label_set_id = metering_label_set(r.labels)
  FROM jsonb_to_recordset(%(rows)s) AS {_ROW}
 WHERE a.cluster_id = %(cluster_id)s AND a.pod_uid = r.claim_uid AND a.resource = r.resource
"""  # noqa: S608 - As above.
_CONSUMER = """c(claim_uid text, pod_uid text, pod_name text, begin_at timestamptz,
  end_at timestamptz, is_return boolean)"""
# A pod uses a claim from its bind to its end, where the pod's own stream has reported these
# already. A pod that returns was bound before it left.
_BEGIN = "CASE WHEN c.is_return THEN c.begin_at ELSE COALESCE(q.bound_at, c.begin_at) END"
_RESERVE = f"""
INSERT INTO metering_claimconsumer (cluster_id, claim_uid, pod_uid, pod_name, owner, begin_at,
  end_at)
SELECT %(cluster_id)s, c.claim_uid, c.pod_uid, c.pod_name, COALESCE(q.owner, ''),
       {_BEGIN},
       CASE WHEN c.end_at IS NOT NULL THEN GREATEST({_BEGIN}, LEAST(c.end_at, q.gone_at)) END
  FROM jsonb_to_recordset(%(rows)s) AS {_CONSUMER}
  LEFT JOIN metering_queuedpod q ON q.cluster_id = %(cluster_id)s AND q.pod_uid = c.pod_uid
ON CONFLICT DO NOTHING
"""  # noqa: S608 - As above.
_LEAVE = f"""
UPDATE metering_claimconsumer m
   SET end_at = CASE WHEN c.end_at IS NOT NULL
         THEN GREATEST(m.begin_at, LEAST(c.end_at, q.gone_at)) END
  FROM jsonb_to_recordset(%(rows)s) AS {_CONSUMER}
  LEFT JOIN metering_queuedpod q ON q.cluster_id = %(cluster_id)s AND q.pod_uid = c.pod_uid
 WHERE m.cluster_id = %(cluster_id)s AND m.claim_uid = c.claim_uid AND m.pod_uid = c.pod_uid
   AND m.begin_at = c.begin_at
"""  # noqa: S608 - As above.


@dataclass(frozen=True)
class _Around:
    """What else has to be known of a batch: its devices, and its consumers.

    Attributes:
        pods: By uid: when it was bound, and what it requests.
        resources: The resource name that each observed device class gives; "" for none.
    """

    devices: Mapping[tuple[str, str, str], tuple[str, Mapping[str, str]]]
    pods: Mapping[str, tuple[datetime | None, Mapping[str, Any]]]
    resources: Mapping[str, str]


def write_claims(
    cluster_id: UUID,
    *,
    observed: Iterable[tuple[Observed, ClaimState]],
    catalogue: Catalogue,
    at: datetime,
    alive_at: datetime | None,
    is_list: bool,
) -> Changed:
    """Write what claims hold and for which pods; a complete list also ends absent ones."""
    items = list(observed)
    uids = frozenset(state.uid for _, state in items)
    book = _book(cluster_id, uids=uids, alive_at=alive_at, is_list=is_list)
    around = _around(cluster_id, states=[state for _, state in items])
    for item, state in items:
        book.apply(_snapshot(item, state=state, around=around))
    if is_list:
        book.end_absent(uids, at=at)
    return _write(cluster_id, book=book, catalogue=catalogue)


def _book(
    cluster_id: UUID, *, uids: frozenset[str], alive_at: datetime | None, is_list: bool
) -> ClaimBook:
    rows = PodAllocation.objects.select_related("label_set").filter(
        cluster_id=cluster_id, resource__startswith="claim/"
    )
    reserved = ClaimConsumer.objects.filter(cluster_id=cluster_id)
    open_rows, using = rows.filter(pod_uid__in=uids), reserved.filter(claim_uid__in=uids)
    if is_list:
        open_rows |= rows.filter(end_at__isnull=True)
        using |= reserved.filter(end_at__isnull=True)
    return ClaimBook(
        [_known(row) for row in open_rows.order_by("pod_uid", "begin_at", "id")],
        [
            ConsumerRow(row.claim_uid, row.pod_uid, row.pod_name, row.begin_at, row.end_at)
            for row in using.order_by("begin_at", "id")
        ],
        alive_at=alive_at,
    )


def _known(row: PodAllocation) -> ClaimRow:
    return ClaimRow(
        claim_uid=row.pod_uid,
        resource=row.resource,
        units=row.units,
        begin_at=row.begin_at,
        last_seen_at=row.last_seen_at,
        end_at=row.end_at,
        end_kind=EndKind(row.end_kind),
        slack_seconds=row.end_slack_seconds,
        labels=row.node_labels,
    )


def _around(cluster_id: UUID, *, states: Sequence[ClaimState]) -> _Around:
    pools = {device.pool for state in states for device in state.devices}
    offered = OfferedDevice.objects.filter(cluster_id=cluster_id, pool__in=pools)
    uids = {uid for state in states for uid, _ in state.consumers}
    pods = QueuedPod.objects.filter(cluster_id=cluster_id, pod_uid__in=uids)
    return _Around(
        devices={(row.driver, row.pool, row.device): (row.node, row.attributes) for row in offered},
        pods={
            uid: (bound_at, requests)
            for uid, bound_at, requests in pods.values_list("pod_uid", "bound_at", "requests")
        },
        resources=dict(
            DeviceClass.objects.filter(cluster_id=cluster_id).values_list(
                "name", "extended_resource"
            )
        ),
    )


def _snapshot(item: Observed, *, state: ClaimState, around: _Around) -> ClaimSnapshot:
    counted = _counted_with_pods(state, around)
    held = [d for d in state.devices if not item.is_gone and d.device_class not in counted]
    known = [around.pods[uid][0] for uid, _ in state.consumers if uid in around.pods]
    binds = [bound_at for bound_at in known if bound_at is not None]
    nodes = [around.devices[_key(d)][0] for d in held if _key(d) in around.devices]
    units = units_by_class(device.device_class for device in held)
    return ClaimSnapshot(
        uid=state.uid,
        namespace=state.namespace,
        name=state.name,
        node=state.node or (nodes[0] if nodes else ""),
        units=units,
        labels={name: _labels(held, device_class=name, around=around) for name in units},
        consumers={} if item.is_gone else dict(state.consumers),
        observed_at=item.observed_at,
        is_prompt=item.is_prompt,
        allocated_at=state.allocated_at,
        bound_at=min(binds, default=None),
        counted_with_pods=frozenset(name[:CLASS_LENGTH_MAX] for name in counted),
    )


def _counted_with_pods(state: ClaimState, around: _Around) -> frozenset[str]:
    """Return the device classes of a ResourceClaim for whose devices its pods have rows.

    Only the scheduler reserves one for a pod whose specification does not name it.
    """
    if not (state.is_for_extended_resource and state.consumers):
        return frozenset()
    return frozenset(
        name
        for name in {device.device_class for device in state.devices}
        if all(
            uid in around.pods
            and is_claim_of_resource(
                state.name,
                around.pods[uid][1],
                device_class=name,
                resource=around.resources.get(name),
            )
            for uid, _ in state.consumers
        )
    )


def _labels(
    held: Sequence[ClaimedDevice], *, device_class: str, around: _Around
) -> Mapping[str, str]:
    ours = [device for device in held if device.device_class[:CLASS_LENGTH_MAX] == device_class]
    return common_attributes([around.devices.get(_key(device), ("", {}))[1] for device in ours])


def _key(device: ClaimedDevice) -> tuple[str, str, str]:
    return (device.driver, device.pool, device.device)


def _write(cluster_id: UUID, *, book: ClaimBook, catalogue: Catalogue) -> Changed:
    new = [row for row in book.rows if row.is_new]
    changed = [row for row in book.rows if row.is_changed and not row.is_new]
    with connection.cursor() as cursor:
        if new:
            asked = {(row.resource, json.dumps(row.labels, sort_keys=True)): row for row in new}
            sizes = sizes_json(catalogue, [(row.resource, row.labels) for row in asked.values()])
            given: dict[str, Any] = {"cluster_id": cluster_id, "rows": _rows(new), "sizes": sizes}
            cursor.execute(_OPEN, given)
        for statement, listed in (
            (_CHANGE, _rows(changed)),
            (_RESERVE, _reserved([c for c in book.consumers if c.is_new])),
            (_LEAVE, _reserved([c for c in book.consumers if c.is_changed and not c.is_new])),
        ):
            cursor.execute(statement, {"cluster_id": cluster_id, "rows": listed})
    ended = sum(row.end_at is not None for row in [*changed, *new])
    return Changed(opened=len(new), closed=ended)


def _rows(rows: Sequence[ClaimRow]) -> str:
    return json.dumps(
        [
            {
                "claim_uid": row.claim_uid,
                "resource": row.resource,
                "namespace": row.namespace,
                "name": row.name,
                "node": row.node,
                "units": row.units,
                "labels": dict(row.labels),
                "begin_at": row.begin_at.isoformat(),
                "end_at": row.end_at and row.end_at.isoformat(),
                "end_kind": row.end_kind.value,
                "slack_seconds": row.slack_seconds,
                "last_seen_at": row.last_seen_at.isoformat(),
            }
            for row in rows
        ]
    )


def _reserved(consumers: Sequence[ConsumerRow]) -> str:
    return json.dumps(
        [
            {
                "claim_uid": consumer.claim_uid,
                "pod_uid": consumer.pod_uid,
                "pod_name": consumer.pod_name,
                "begin_at": consumer.begin_at.isoformat(),
                "end_at": consumer.end_at and consumer.end_at.isoformat(),
                "is_return": consumer.is_return,
            }
            for consumer in consumers
        ]
    )


_OFFER = """
INSERT INTO metering_offereddevice AS o (cluster_id, driver, pool, device, slice_name, node,
  attributes)
SELECT DISTINCT ON (driver, pool, device) %(cluster_id)s, d.*
  FROM jsonb_to_recordset(%(devices)s) AS d(driver text, pool text, device text, slice_name text,
    node text, attributes jsonb)
 ORDER BY driver, pool, device, slice_name DESC
ON CONFLICT (cluster_id, driver, pool, device) DO UPDATE
   SET slice_name = EXCLUDED.slice_name, node = EXCLUDED.node, attributes = EXCLUDED.attributes,
       gone_at = NULL
 WHERE (o.slice_name, o.node, o.attributes, o.gone_at) IS DISTINCT FROM
       (EXCLUDED.slice_name, EXCLUDED.node, EXCLUDED.attributes, NULL::timestamptz)
"""
# A device may have moved to another slice of its pool: then that one offers it.
_WITHDRAW = """
UPDATE metering_offereddevice o SET gone_at = %(at)s
 WHERE o.cluster_id = %(cluster_id)s AND o.gone_at IS NULL
   AND (%(is_list)s OR o.slice_name = ANY(%(slices)s))
   AND NOT EXISTS (
     SELECT FROM jsonb_to_recordset(%(devices)s) AS d(driver text, pool text, device text)
      WHERE d.driver = o.driver AND d.pool = o.pool AND d.device = o.device)
"""


def write_slices(
    cluster_id: UUID,
    *,
    observed: Iterable[tuple[Observed, SliceState]],
    at: datetime,
    is_list: bool,
) -> Changed:
    """Write what slices offer now; what they no longer offer stays, with when it went."""
    latest = {state.name: (item, state) for item, state in observed}
    offered = [state for item, state in latest.values() if not item.is_gone]
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "at": at,
        "is_list": is_list,
        "slices": sorted(latest),
        "devices": json.dumps([values for state in offered for values in _devices(state)]),
    }
    with connection.cursor() as cursor:
        cursor.execute(_OFFER, given)
        opened = cursor.rowcount
        cursor.execute(_WITHDRAW, given)
        return Changed(opened=opened, closed=cursor.rowcount)


def _devices(state: SliceState) -> Iterator[dict[str, object]]:
    for device, attributes in state.devices.items():
        yield {
            "driver": state.driver,
            "pool": state.pool,
            "device": device,
            "slice_name": state.name,
            "node": state.node,
            "attributes": kept_attributes(attributes),
        }


def write_classes(
    cluster_id: UUID, *, observed: Iterable[tuple[Observed, ClassState]], is_list: bool
) -> Changed:
    """Write which classes there are now; of several states of a class the last one counts."""
    latest = {state.name: (item, state) for item, state in observed}
    rows = DeviceClass.objects.filter(cluster_id=cluster_id)
    there = {name for name, (item, _) in latest.items() if not item.is_gone}
    stale = rows.exclude(name__in=there) if is_list else rows.filter(name__in=latest.keys() - there)
    closed, _ = stale.delete()
    made = [
        DeviceClass(
            cluster_id=cluster_id,
            name=name,
            extended_resource=latest[name][1].extended_resource,
            created_at=latest[name][1].created_at,
        )
        for name in sorted(there)
    ]
    DeviceClass.objects.bulk_create(
        made,
        update_conflicts=True,
        unique_fields=["cluster", "name"],
        update_fields=["extended_resource", "created_at"],
    )
    return Changed(opened=len(made), closed=closed)
