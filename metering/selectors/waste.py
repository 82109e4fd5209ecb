"""Waste: what was held at the end of a window, and what its devices did before."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from django.db import connection

from metering.domain.gpu_sizes import SharingMode
from metering.domain.waste import ACTIVITY_RULES, Spell, Tenure
from metering.domain.waste_rules import WasteRule, WasteThresholds
from metering.domain.window import WINDOW

HolderKey = tuple[str, str]
"""Pod uid and resource, within one cluster."""
_RATIO_STEP: Final = Decimal("0.000001")


@dataclass(frozen=True)
class Holder:
    """Who holds what at the end of a window; `unit_seconds` are those of the window."""

    organization_id: UUID
    project_id: UUID
    owner: str
    namespace: str
    pod_name: str
    pod_uid: str
    resource: str
    unit_seconds: int
    tenure: Tenure

    @property
    def key(self) -> HolderKey:
        """Return what tells it from others of its cluster."""
        return (self.pod_uid, self.resource)


@dataclass(frozen=True)
class StandingFinding:
    """What an allocation is or was accused of."""

    id: int
    rule: WasteRule
    state: str
    from_at: datetime
    until_at: datetime
    held_unit_seconds: int


@dataclass(frozen=True)
class JudgedWindow:
    """One sealed window, as waste is looked for in it."""

    id: int
    cluster_id: UUID
    start_at: datetime

    @property
    def end_at(self) -> datetime:
        """Return its end, excluded."""
        return self.start_at + WINDOW


_HOLDERS = """
SELECT u.organization_id, u.project_id, u.owner, u.namespace, u.pod_name, u.pod_uid, u.resource,
       u.unit_seconds, a.begin_at, a.started_at, a.source = 'kubernetes', u.units, u.size,
       u.price_group, u.sharing_mode, a.product, u.share_numerator, u.share_denominator
  FROM metering_usagerecord u
  JOIN metering_podallocation a ON a.cluster_id = u.cluster_id AND a.pod_uid = u.pod_uid
   AND a.resource = u.resource
 WHERE u.window_id = %(window)s AND u.window_start = %(start)s AND u.revision = 0
   AND u.end_at = %(end)s AND (a.end_at IS NULL OR a.end_at > %(end)s)
   AND starts_with(u.resource, 'claim/') IS FALSE
 ORDER BY u.pod_uid, u.resource
"""
# Use is how busy the device was, or how active its SMs were where only that is known. A figure is
# worth the seconds of it that were sampled.
_SPELLS = """
WITH asked AS (
  SELECT * FROM jsonb_to_recordset(%(asked)s) AS q(rule text, since timestamptz)),
held AS MATERIALIZED (
  SELECT u.pod_uid, u.resource FROM metering_usagerecord u
   WHERE u.window_id = %(window)s AND u.window_start = %(start)s AND u.revision = 0
     AND u.end_at = %(end)s AND u.sharing_mode IN ('whole', 'mig')),
seen AS MATERIALIZED (
  SELECT d.pod_uid, d.resource, d.window_start, d.uuid, d.instance_id,
         COALESCE(d.busy_ratio, d.sm_active_ratio) AS activity,
         d.seconds * CASE WHEN d.busy_ratio IS NULL THEN d.sm_active_coverage
                          ELSE d.busy_coverage END AS covered,
         d.memory_used_peak_mebibytes AS memory, d.memory_total_mebibytes AS total,
         d.power_mean_milliwatts AS power
    FROM metering_deviceusage d JOIN held USING (pod_uid, resource)
   WHERE d.cluster_id = %(cluster)s AND d.window_start < %(end)s
     AND d.window_start >= (SELECT min(since) FROM asked)
     AND d.attribution = 'exclusive' AND NOT d.is_busy_doubtful),
known AS (
  SELECT * FROM seen WHERE activity IS NOT NULL AND covered > 0),
hours AS (
  SELECT pod_uid, resource, window_start, sum(activity * covered) / sum(covered) AS activity,
         max(memory) AS memory, min(memory) AS memory_low, max(power) AS power
    FROM known GROUP BY pod_uid, resource, window_start),
by_hour AS (
  SELECT q.rule, h.pod_uid, h.resource, max(h.activity) AS highest,
         percentile_disc(0.95) WITHIN GROUP (ORDER BY h.activity) AS p95,
         max(h.memory) AS memory, min(h.memory_low) AS memory_low,
         percentile_disc(0.95) WITHIN GROUP (ORDER BY h.memory) AS memory_p95,
         max(h.power) AS power
    FROM asked q JOIN hours h ON h.window_start >= q.since GROUP BY 1, 2, 3),
by_device AS (
  SELECT q.rule, k.pod_uid, k.resource, sum(k.covered) AS covered,
         sum(k.activity * k.covered) AS worked, min(k.total) AS total
    FROM asked q JOIN known k ON k.window_start >= q.since
   GROUP BY 1, 2, 3, k.uuid, k.instance_id),
whole AS (
  SELECT rule, pod_uid, resource, floor(sum(covered))::bigint AS covered,
         sum(worked) / sum(covered) AS activity, min(total) AS total,
         array_agg(worked / covered ORDER BY worked / covered) AS devices
    FROM by_device GROUP BY 1, 2, 3)
SELECT w.pod_uid, w.resource, w.rule, w.covered, w.activity, h.highest, h.p95, h.memory,
       h.memory_low, h.memory_p95, w.total, h.power, w.devices
  FROM whole w JOIN by_hour h USING (rule, pod_uid, resource)
"""
_STANDING = """
SELECT pod_uid, resource, id, rule, state, from_at, until_at, held_unit_seconds
  FROM metering_wastefinding
 WHERE cluster_id = %(cluster)s
   AND (state = 'open' OR (pod_uid, resource) IN (
     SELECT k.pod_uid, k.resource
       FROM jsonb_to_recordset(%(keys)s) AS k(pod_uid text, resource text)))
 ORDER BY id
"""
_HELD = """
SELECT k.pod_uid, k.resource, sum(u.unit_seconds)::bigint
  FROM jsonb_to_recordset(%(keys)s) AS k(pod_uid text, resource text, since timestamptz)
  JOIN metering_usagerecord u ON u.cluster_id = %(cluster)s AND u.pod_uid = k.pod_uid
   AND u.resource = k.resource AND u.revision = 0
   AND u.window_start >= date_trunc('hour', k.since) AND u.window_start < %(end)s
 WHERE u.window_start >= %(earliest)s
 GROUP BY 1, 2
"""


def holders_at_end(window: JudgedWindow) -> tuple[Holder, ...]:
    """Return what is still held when a sealed window ends, by pod uid and resource."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDERS, _given(window))
        return tuple(_holder(row) for row in cursor.fetchall())


def spells_before_end(
    window: JudgedWindow, *, thresholds: WasteThresholds
) -> dict[HolderKey, dict[WasteRule, Spell]]:
    """Return what the devices of each holder did, over the time each rule looks back."""
    asked = [
        {
            "rule": rule.value,
            "since": (window.end_at - timedelta(hours=thresholds.hours_of(rule))).isoformat(),
        }
        for rule in ACTIVITY_RULES
    ]
    with connection.cursor() as cursor:
        cursor.execute(_SPELLS, {**_given(window), "asked": json.dumps(asked)})
        rows = cursor.fetchall()
    spells: dict[HolderKey, dict[WasteRule, Spell]] = {}
    for pod_uid, resource, rule, *figures in rows:
        spells.setdefault((pod_uid, resource), {})[WasteRule(rule)] = _spell(figures)
    return spells


def standing_findings(
    cluster_id: UUID, *, keys: Iterable[HolderKey]
) -> dict[HolderKey, tuple[StandingFinding, ...]]:
    """Return every open finding of a cluster, and all there ever were of some holders."""
    named = [{"pod_uid": uid, "resource": resource} for uid, resource in keys]
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, {"cluster": cluster_id, "keys": json.dumps(named)})
        rows = cursor.fetchall()
    found: dict[HolderKey, tuple[StandingFinding, ...]] = {}
    for pod_uid, resource, key, rule, *rest in rows:
        finding = StandingFinding(key, WasteRule(rule), *rest)
        found[pod_uid, resource] = (*found.get((pod_uid, resource), ()), finding)
    return found


def held_since(
    window: JudgedWindow, *, since: Mapping[HolderKey, datetime]
) -> dict[HolderKey, int]:
    """Return the unit-seconds of holders from a time of their own to the end of a window."""
    if not since:
        return {}
    keys = [
        {"pod_uid": uid, "resource": resource, "since": at.isoformat()}
        for (uid, resource), at in since.items()
    ]
    given = {
        **_given(window),
        "keys": json.dumps(keys),
        "earliest": min(since.values()).replace(minute=0, second=0, microsecond=0),
    }
    with connection.cursor() as cursor:
        cursor.execute(_HELD, given)
        return {(uid, resource): held for uid, resource, held in cursor.fetchall()}


def _given(window: JudgedWindow) -> dict[str, Any]:
    return {
        "window": window.id,
        "cluster": window.cluster_id,
        "start": window.start_at,
        "end": window.end_at,
    }


def _holder(row: tuple[Any, ...]) -> Holder:
    organization_id, project_id, owner, namespace, pod_name, uid, resource, seconds, *held = row
    begin_at, started_at, is_known, units, size, group, mode, product, part, whole = held
    tenure = Tenure(
        begin_at=begin_at,
        started_at=started_at,
        is_start_known=is_known,
        units=units,
        size=size,
        price_group=group,
        sharing_mode=SharingMode(mode),
        product=product,
        share=Fraction(part, whole),
    )
    return Holder(
        organization_id, project_id, owner, namespace, pod_name, uid, resource, seconds, tenure
    )


def _spell(figures: list[Any]) -> Spell:
    covered, activity, highest, p95, memory, low, memory_p95, total, power, devices = figures
    return Spell(
        covered_seconds=covered,
        activity=activity.quantize(_RATIO_STEP),
        activity_highest=highest.quantize(_RATIO_STEP),
        activity_p95=p95.quantize(_RATIO_STEP),
        memory_peak_mebibytes=memory,
        memory_lowest_mebibytes=low,
        memory_p95_mebibytes=memory_p95,
        memory_total_mebibytes=total,
        power_milliwatts=power,
        devices=tuple(device.quantize(_RATIO_STEP) for device in devices),
    )
