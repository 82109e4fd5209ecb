"""Writing device events: with the window that saw them, once; ended by a person."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from metering.domain.devices.events import (
    DeviceEventFact,
    DeviceObservations,
    Stretch,
    device_events,
)
from metering.domain.errors import DeviceEventEndedError, required_note
from metering.models import DeviceEvent
from metering.protocols import DeviceFigures, DeviceObservation
from metering.protocols.health import HealthObservation
from metering.selectors.devices.usage import known_levels
from metering.services.devices.leasing import LeasedDevices
from tenants.domain.actors import Actor
from tenants.services.audit import record

_FACTS: Final = """jsonb_to_recordset(%(events)s) AS f(uuid text, node text, instance_id text,
  instance_profile text, kind text, code text, severity text, metric text, begin_at timestamptz,
  end_at timestamptz, value_before numeric, value_after numeric, is_continued boolean)"""
_SAME: Final = """e.cluster_id = %(cluster_id)s AND e.uuid = f.uuid
   AND e.instance_id = f.instance_id AND e.kind = f.kind AND e.code = f.code"""
# A level that was still present when the window began continues the event of the window before.
_EXTEND = f"""
UPDATE metering_deviceevent e SET end_at = GREATEST(e.end_at, f.end_at)
  FROM {_FACTS}
 WHERE {_SAME} AND f.is_continued AND e.begin_at < f.begin_at AND e.end_at >= f.begin_at
   AND e.note = ''
"""  # noqa: S608 - Put together from constants only.
_INSERT = f"""
INSERT INTO metering_deviceevent AS e (cluster_id, window_id, uuid, node, instance_id,
  instance_profile, kind, code, severity, metric, begin_at, end_at, value_before, value_after,
  evidence, note)
SELECT %(cluster_id)s, %(window_id)s, f.uuid, f.node, f.instance_id, f.instance_profile, f.kind,
       f.code, f.severity, f.metric, f.begin_at, f.end_at, f.value_before, f.value_after,
       %(evidence)s, ''
  FROM {_FACTS}
 WHERE NOT (f.is_continued AND EXISTS (
   SELECT FROM metering_deviceevent e
    WHERE {_SAME} AND e.begin_at < f.begin_at AND e.end_at >= f.begin_at))
ON CONFLICT (cluster_id, uuid, instance_id, kind, code, begin_at) DO UPDATE
   SET end_at = GREATEST(e.end_at, EXCLUDED.end_at)
 WHERE EXCLUDED.end_at IS NOT NULL AND e.note = ''
"""  # noqa: S608 - As above.


def write_device_events(leased: LeasedDevices, *, figures: DeviceFigures) -> int:
    """Write what went wrong on devices in a window; return how much, known or new.

    Called in the transaction that seals the hour's device figures. Three statements, none without
    signals.
    """
    health = figures.health
    if not health.signals:
        return 0
    observed = DeviceObservations(
        start_at=leased.start_at,
        end_at=leased.end_at,
        step_seconds=health.step_seconds,
        seen=_seen(figures.devices),
        known=known_levels(leased.cluster_id, before=leased.start_at),
    )
    events = device_events(health.signals, observed=observed)
    if events:
        parameters: dict[str, Any] = {
            "cluster_id": leased.cluster_id,
            "window_id": leased.id,
            "evidence": json.dumps(_evidence(health)),
            "events": json.dumps([_values(event) for event in events]),
        }
        with connection.cursor() as cursor:
            cursor.execute(_EXTEND, parameters)
            cursor.execute(_INSERT, parameters)
    return len(events)


def end_device_event(*, event_id: int, note: str, actor: Actor, at: datetime) -> DeviceEvent:
    """Record that a device is healthy again, or out of service: nothing later is creditable.

    Raises:
        NoteMissingError: The note is empty.
        DeviceEventEndedError: It has an end already.
    """
    text = required_note(note)
    with transaction.atomic():
        changed = DeviceEvent.objects.filter(
            pk=event_id, end_at__isnull=True, begin_at__lte=at
        ).update(end_at=at, note=text)
        event = DeviceEvent.objects.get(pk=event_id)
        if not changed:
            raise DeviceEventEndedError("The event has an end already.")
        record(
            actor=actor,
            at=at,
            action="metering:device_event:end",
            object_kind="device_event",
            object_id=event_id,
            facts={"uuid": event.uuid, "kind": event.kind, "code": event.code, "note": text},
        )
    return event


def _seen(devices: Iterable[DeviceObservation]) -> dict[str, list[Stretch]]:
    seen: dict[str, list[Stretch]] = defaultdict(list)
    for device in devices:
        seen[device.uuid].append((device.begin_at, device.end_at))
    return seen


def _evidence(health: HealthObservation) -> dict[str, object]:
    asked_at = health.asked_at
    return {
        "query": health.query,
        "at": None if asked_at is None else asked_at.isoformat(),
        "sha256": health.sha256,
    }


def _values(event: DeviceEventFact) -> dict[str, object]:
    return {
        "uuid": event.uuid,
        "node": event.node,
        "instance_id": event.instance_id,
        "instance_profile": event.instance_profile,
        "kind": event.kind.value,
        "code": event.code[:64],
        "severity": event.severity.value,
        "metric": event.metric,
        "begin_at": event.begin_at.isoformat(),
        "end_at": None if event.end_at is None else event.end_at.isoformat(),
        "value_before": None if event.before is None else str(event.before),
        "value_after": str(event.after),
        "is_continued": event.is_continued,
    }
