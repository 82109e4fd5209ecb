"""Waste: what was held at the end of a window, what its devices did, what is to be derived."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import BigIntegerField, Case, F, Q, Value, When

from metering.domain.catalogue.units import SharingMode
from metering.domain.collection.windows import WINDOW
from metering.domain.efficiency.rules import WasteRule, work_of
from metering.domain.efficiency.waste import Spell, Tenure
from metering.selectors.collection.usage import NET_USAGE
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import archived_hour

HolderKey = tuple[str, str]
"""Pod uid and resource, within one cluster."""
_MILLIONTH: Final = Decimal("0.000001")


@dataclass(frozen=True)
class HeldAllocation:
    """An allocation held at the end of a window."""

    organization_id: UUID
    project_id: UUID
    owner: str
    namespace: str
    pod_name: str
    pod_uid: str
    resource: str
    tenure: Tenure

    @property
    def key(self) -> HolderKey:
        """Return its unique key in its cluster."""
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
    """One sealed window to judge for waste."""

    id: int
    cluster_id: UUID
    start_at: datetime

    @property
    def end_at(self) -> datetime:
        """Return its end, excluded."""
        return self.start_at + WINDOW


_HOLDERS = f"""{NET_USAGE}
SELECT u.organization_id, u.project_id, u.owner, u.namespace, u.pod_name, u.pod_uid, u.resource,
       a.begin_at, a.started_at, a.source = 'kubernetes', u.units, u.size, u.price_group,
       u.sharing_mode, a.product, u.share_numerator, u.share_denominator, a.controller
  FROM net u
  JOIN metering_podallocation a ON a.cluster_id = u.cluster_id AND a.pod_uid = u.pod_uid
   AND a.resource = u.resource
 WHERE u.end_at = %(end)s AND (a.end_at IS NULL OR a.end_at > %(end)s)
   AND starts_with(u.resource, 'claim/') IS FALSE
 ORDER BY u.pod_uid, u.resource
"""  # noqa: S608 - The statement is put together from constants only.
# Rows are found by arrays of their keys, which an index answers where nested loops are ruled out: a
# statement costs the same however many pods, devices and hours there are beside its own.
#
# Waste is judged by SM activity; the busy ratio is used where SM activity is not known for all
# devices and all the time of a pod. An SM counter of exactly 0 on a busy device is stuck and
# ignored. A figure is weighted by its sampled seconds. Sums are whole numbers: millionths, and
# seconds times 100,000, as exact as the columns and much faster to add.
_SPELLS = """
WITH held AS MATERIALIZED (
  SELECT d.id AS holder_id, h.holder
    FROM unnest(%(uids)s::text[], %(resources)s::text[]) WITH ORDINALITY
           AS h(pod_uid, resource, holder)
    JOIN metering_deviceholder d USING (pod_uid, resource)
   WHERE d.pod_uid = ANY(%(uids)s) AND d.attribution = 'exclusive'),
hour AS MATERIALIZED (
  SELECT id, start_at FROM metering_meteringwindow
   WHERE cluster_id = %(cluster)s AND start_at >= %(since)s AND start_at < %(end)s),
figure AS MATERIALIZED (
  SELECT h.holder, f.window_start, f.device_id, f.coverage_id,
         (f.end_milliseconds - f.begin_milliseconds) / 1000 AS seconds,
         f.sm_active_millionths AS sm, f.busy_millionths AS busy,
         f.memory_used_peak_mebibytes AS memory, f.memory_total_mebibytes AS total,
         f.power_mean_milliwatts AS power
    FROM metering_devicefigure f
    JOIN held h USING (holder_id)
   WHERE f.window_start >= %(since)s AND f.window_start < %(end)s
     AND f.window_start = ANY(ARRAY(SELECT start_at FROM hour))
     AND f.id >> 22 = ANY(ARRAY(SELECT id FROM hour))),
seen AS (
  SELECT f.holder, f.window_start, f.device_id, f.sm, f.busy, f.memory, f.total, f.power,
         f.seconds::bigint * nullif(c.sm_active, -1) AS sm_covered,
         f.seconds::bigint * nullif(c.busy, -1) AS busy_covered,
         bool_and(f.sm IS NOT NULL OR f.busy IS NULL) OVER (PARTITION BY f.holder) AS is_sm
    FROM figure f
    JOIN metering_devicecoverage c ON c.id = f.coverage_id
   WHERE c.id = ANY(ARRAY(SELECT DISTINCT coverage_id FROM figure)) AND NOT c.is_busy_uncertain
     AND NOT (f.sm IS NOT DISTINCT FROM 0 AND COALESCE(f.busy, 0) >= 50000)),
known AS MATERIALIZED (
  SELECT s.holder, s.window_start, s.device_id, s.memory, s.total, s.power, f.activity, f.covered
    FROM seen s
   CROSS JOIN LATERAL (
     SELECT CASE WHEN s.is_sm THEN s.sm ELSE s.busy END AS activity,
            CASE WHEN s.is_sm THEN s.sm_covered ELSE s.busy_covered END AS covered) f
   WHERE f.activity IS NOT NULL AND f.covered > 0),
hours AS (
  SELECT holder, round(sum(activity * covered) / sum(covered))::integer AS activity,
         max(memory) AS memory, min(memory) AS memory_low, max(power) AS power
    FROM known GROUP BY holder, window_start),
by_hour AS (
  SELECT holder, max(activity) AS highest,
         percentile_disc(0.95) WITHIN GROUP (ORDER BY activity) AS p95,
         max(memory) AS memory, min(memory_low) AS memory_low,
         percentile_disc(0.95) WITHIN GROUP (ORDER BY memory) AS memory_p95,
         max(power) AS power
    FROM hours GROUP BY holder),
by_fact AS MATERIALIZED (
  SELECT holder, device_id, sum(covered) AS covered, sum(activity * covered) AS worked,
         min(total) AS total
    FROM known GROUP BY holder, device_id),
by_device AS (
  SELECT b.holder, sum(b.covered) AS covered, sum(b.worked) AS worked, min(b.total) AS total
    FROM by_fact b JOIN metering_devicefact d ON d.id = b.device_id
   WHERE d.id = ANY(ARRAY(SELECT DISTINCT device_id FROM by_fact))
   GROUP BY b.holder, d.uuid, d.instance_id),
whole AS (
  SELECT holder, floor(sum(covered) / 100000)::bigint AS covered,
         round(sum(worked) / sum(covered))::integer AS activity, min(total) AS total,
         array_agg(round(worked / covered)::integer ORDER BY worked / covered) AS devices
    FROM by_device GROUP BY holder)
SELECT w.holder, w.covered, w.activity, h.highest, h.p95, h.memory, h.memory_low, h.memory_p95,
       w.total, h.power, w.devices
  FROM whole w JOIN by_hour h USING (holder)
"""
_STANDING = """
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(uids)s::text[], %(resources)s::text[]) AS k(pod_uid, resource))
SELECT pod_uid, resource, id, rule, state, from_at, until_at, held_unit_seconds
  FROM metering_wastefinding
 WHERE cluster_id = %(cluster)s AND state = 'open'
 UNION
SELECT pod_uid, resource, id, rule, state, from_at, until_at, held_unit_seconds
  FROM metering_wastefinding
 WHERE cluster_id = %(cluster)s AND pod_uid = ANY(%(uids)s)
   AND (pod_uid, resource) IN (SELECT pod_uid, resource FROM asked)
 ORDER BY id
"""
_HELD = """
WITH fact AS MATERIALIZED (
  SELECT f.id, f.version, f.organization_id, f.pod_uid, f.resource,
         date_trunc('hour', k.since) AS since
    FROM unnest(%(uids)s::text[], %(resources)s::text[], %(sinces)s::timestamptz[])
           AS k(pod_uid, resource, since)
    JOIN metering_usagefact f USING (pod_uid, resource)
   WHERE f.cluster_id = %(cluster)s AND f.pod_uid = ANY(%(uids)s))
SELECT f.pod_uid, f.resource, sum(r.unit_seconds)::bigint
  FROM metering_usagerecord r
  JOIN fact f ON (f.id, f.version, f.organization_id)
               = (r.fact_id, r.fact_version, r.organization_id) AND r.window_start >= f.since
  JOIN metering_meteringwindow w ON w.id = r.window_id
 WHERE r.window_start >= %(earliest)s AND r.window_start < %(end)s
   AND w.cluster_id = %(cluster)s AND w.start_at >= %(earliest)s AND w.start_at < %(end)s
   AND w.state = 'sealed'
 GROUP BY 1, 2
"""


def holders_at_end(window: JudgedWindow) -> tuple[HeldAllocation, ...]:
    """Return what is still held when a sealed window ends, by pod uid and resource."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDERS, _given(window))
        return tuple(_holder(row) for row in cursor.fetchall())


def spells_before_end(
    window: JudgedWindow, *, holders: Sequence[HeldAllocation], hours: int
) -> dict[HolderKey, Spell]:
    """Return what the devices of each holder did in the last hours before a window's end.

    Holders that were not there all the time are left out.
    """
    since = window.end_at - timedelta(hours=hours)
    asked = [holder.key for holder in holders if holder.tenure.begin_at <= since]
    given = {**_given(window), **_keys(asked), "since": since}
    with connection.cursor() as cursor:
        cursor.execute(_SPELLS, given)
        return {asked[number - 1]: _spell(figures) for number, *figures in cursor.fetchall()}


def standing_findings(
    cluster_id: UUID, *, keys: Iterable[HolderKey]
) -> dict[HolderKey, tuple[StandingFinding, ...]]:
    """Return every open finding of a cluster, and all there ever were of some holders."""
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, {"cluster": cluster_id, **_keys(keys)})
        rows = cursor.fetchall()
    found: dict[HolderKey, tuple[StandingFinding, ...]] = {}
    for pod_uid, resource, key, rule, *rest in rows:
        finding = StandingFinding(key, WasteRule(rule), *rest)
        found[pod_uid, resource] = (*found.get((pod_uid, resource), ()), finding)
    return found


def held_since(
    window: JudgedWindow, *, since: Mapping[HolderKey, datetime]
) -> dict[HolderKey, int]:
    """Return the unit-seconds of holders from a time of their own to the end of a window.

    Those of sealed hours, with the corrections that are posted by now.
    """
    if not since:
        return {}
    given = {
        **_given(window),
        **_keys(since),
        "sinces": list(since.values()),
        "earliest": min(since.values()).replace(minute=0, second=0, microsecond=0),
    }
    with connection.cursor() as cursor:
        cursor.execute(_HELD, given)
        return {(uid, resource): held for uid, resource, held in cursor.fetchall()}


def _keys(keys: Iterable[HolderKey]) -> dict[str, list[str]]:
    named = list(keys)
    return {"uids": [uid for uid, _ in named], "resources": [resource for _, resource in named]}


def _given(window: JudgedWindow) -> dict[str, Any]:
    return {
        "window": window.id,
        "cluster": window.cluster_id,
        "start": window.start_at,
        "end": window.end_at,
    }


def _holder(row: tuple[Any, ...]) -> HeldAllocation:
    organization_id, project_id, owner, namespace, pod_name, uid, resource, *held = row
    begin_at, started_at, is_known, units, size, group, mode, product, *rest = held
    part, whole, controller = rest
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
        work=work_of(controller),
    )
    return HeldAllocation(
        organization_id, project_id, owner, namespace, pod_name, uid, resource, tenure
    )


def _spell(figures: list[Any]) -> Spell:
    covered, activity, highest, p95, memory, low, memory_p95, total, power, devices = figures
    return Spell(
        covered_seconds=covered,
        activity=_ratio(activity),
        activity_highest=_ratio(highest),
        activity_p95=_ratio(p95),
        memory_peak_mebibytes=memory,
        memory_lowest_mebibytes=low,
        memory_p95_mebibytes=memory_p95,
        memory_total_mebibytes=total,
        power_milliwatts=power,
        devices=tuple(_ratio(device) for device in devices),
    )


def _ratio(millionths: int) -> Decimal:
    return millionths * _MILLIONTH


# Rows that are archived would be read as none at all: such an hour waits until they are restored.
_UNDERIVED = f"""
SELECT w.id, w.cluster_id, w.start_at
  FROM metering_meteringwindow w
 WHERE w.state = 'sealed'
   AND NOT EXISTS (SELECT FROM metering_clusterhealth h WHERE h.window_id = w.id)
   AND NOT EXISTS (SELECT FROM metering_devicewindow d
                    WHERE d.window_id = w.id AND d.state IN ('due', 'collecting'))
   AND NOT {archived_hour(ArchivedTable.USAGE, "w.start_at")}
   AND NOT {archived_hour(ArchivedTable.DEVICES, "w.start_at")}
 ORDER BY w.start_at, w.id
 LIMIT %(limit)s
"""  # noqa: S608 - Constants.
# Corrections are only ever added, so their number shows whether there are new ones.
_CORRECTED = f"""
SELECT w.id, w.cluster_id, w.start_at
  FROM (SELECT window_id, count(*) AS posted FROM metering_posted_correction GROUP BY 1) c
  JOIN metering_clusterhealth h USING (window_id)
  JOIN metering_meteringwindow w ON w.id = h.window_id
 WHERE h.corrections_seen <> c.posted AND NOT {archived_hour(ArchivedTable.USAGE, "w.start_at")}
 ORDER BY w.start_at, w.id
 LIMIT %(limit)s
"""  # noqa: S608 - Constants.
_HAS_NEWS = """
SELECT h.corrections_seen <> (
         SELECT count(*) FROM metering_posted_correction c WHERE c.window_id = h.window_id)
  FROM metering_clusterhealth h WHERE h.window_id = %(window)s
"""
_IS_FIRST_OF_DAY = """
SELECT NOT EXISTS (
  SELECT FROM metering_clusterhealth
   WHERE cluster_id = %(cluster)s AND window_start >= %(day)s AND window_start < %(start)s)
"""
_IS_NEWEST = """
SELECT NOT EXISTS (
  SELECT FROM metering_clusterhealth
   WHERE cluster_id = %(cluster)s AND window_start > %(start)s)
"""


def underived_windows(*, limit: int) -> tuple[JudgedWindow, ...]:
    """Return windows from which nothing was derived yet, oldest first.

    Their usage is sealed and their device figures are final: sealed, or never to be known. Neither
    is archived.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNDERIVED, {"limit": limit})
        return tuple(JudgedWindow(*row) for row in cursor.fetchall())


def corrected_windows(*, limit: int) -> tuple[JudgedWindow, ...]:
    """Return derived windows of which corrections were posted since, oldest first.

    Those whose usage is archived are left out.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTED, {"limit": limit})
        return tuple(JudgedWindow(*row) for row in cursor.fetchall())


def has_news(window_id: int) -> bool:
    """Whether a derived window was corrected after its credits were computed."""
    with connection.cursor() as cursor:
        cursor.execute(_HAS_NEWS, {"window": window_id})
        found = cursor.fetchone()
    return found is not None and bool(found[0])


def is_first_of_day(window: JudgedWindow) -> bool:
    """Whether nothing was derived from an earlier window of the cluster's UTC day."""
    given: dict[str, Any] = {
        "cluster": window.cluster_id,
        "start": window.start_at,
        "day": window.start_at.replace(hour=0, minute=0, second=0, microsecond=0),
    }
    with connection.cursor() as cursor:
        cursor.execute(_IS_FIRST_OF_DAY, given)
        return bool(cursor.fetchone()[0])


def is_newest(window: JudgedWindow) -> bool:
    """Whether nothing was derived from a later window of the cluster."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_NEWEST, {"cluster": window.cluster_id, "start": window.start_at})
        return bool(cursor.fetchone()[0])


SAVING_UNKNOWN: Final = Q(
    suggested_units__gt=0, wasted_unit_seconds=0, memory_peak_mebibytes__isnull=True
)
"""The opposite of `WasteFinding.is_saving_known`."""

WASTED_ORDER: Final = Case(
    When(SAVING_UNKNOWN, then=Value(-1)),
    default=F("wasted_unit_seconds"),
    output_field=BigIntegerField(),
)
"""Sorts what is unknown behind what is nothing."""
