"""Slices: the devices that ResourceSlices offer to claims, as they were last told."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from metering.domain.claimed_devices import kept_attributes
from metering.protocols.watch import SliceState
from metering.services.watching.ledgered import Changed
from metering.services.watching.told import Told

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
    cluster_id: UUID, *, told: Iterable[tuple[Told, SliceState]], at: datetime, is_list: bool
) -> Changed:
    """Write what slices offer now; what they no longer offer stays, with when it went."""
    latest = {state.name: (item, state) for item, state in told}
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
