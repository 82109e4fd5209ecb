"""Deriving: what follows from a sealed window beside the bill: health, credits and waste."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import structlog
from django.db import connection, transaction

from metering.domain.catalogue.sizing import Catalogue
from metering.domain.efficiency.rules import DEFAULT_THRESHOLDS, WasteThresholds
from metering.selectors.efficiency import (
    JudgedWindow,
    corrected_windows,
    is_first_of_day,
    is_newest,
    underived_windows,
)
from metering.selectors.locks import try_tick_lock
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sweeping import Counts
from metering.services.collection.windows import month_of
from metering.services.devices.credits import propose_credits, retract_credits
from metering.services.efficiency.waste import update_waste
from tenants.domain.actors import Actor
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import is_archived
from tenants.services.audit import record
from tenants.services.turns import run_isolated

MEMORY_XIDS: Final = ("48", "63", "64", "94", "95", "140")
"""XIDs of memory errors: double-bit errors, remapping, contained and uncontained errors."""

# With a watch, nodes are counted Ready by the API. Without one, only the time for which each was
# observed to offer its GPUs is known.
_INSERT = """
WITH w AS (
  SELECT id, cluster_id, start_at, start_at + interval '1 hour' AS end_at
    FROM metering_meteringwindow WHERE id = %(window)s AND state = 'sealed'),
reported AS (
  SELECT count(DISTINCT n.node) AS nodes,
         sum(extract(epoch FROM LEAST(n.end_at, w.end_at) - GREATEST(n.begin_at, w.start_at)))
           AS expected,
         COALESCE(sum(extract(epoch FROM LEAST(n.end_at, w.end_at)
           - GREATEST(n.begin_at, w.start_at))) FILTER (WHERE n.is_ready), 0) AS ready
    FROM w JOIN metering_noderecord n ON n.cluster_id = w.cluster_id AND n.begin_at < w.end_at
      AND (n.end_at IS NULL OR n.end_at > w.start_at)),
offered AS (
  SELECT count(*) AS nodes, 3600 * count(*) AS expected, sum(seconds) AS ready
    FROM (SELECT c.node, max(c.capacity_unit_seconds / c.allocatable_units) AS seconds
            FROM w JOIN metering_capacityrecord c ON c.window_id = w.id
           WHERE c.allocatable_units > 0 GROUP BY c.node) by_node),
queue AS (
  SELECT count(*) AS queued,
         count(*) FILTER (WHERE COALESCE(q.bound_at, q.gone_at) IS NULL
           OR COALESCE(q.bound_at, q.gone_at) >= w.end_at) AS pending,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY floor(extract(epoch FROM
           LEAST(COALESCE(q.bound_at, q.gone_at), w.end_at) - q.created_at))) AS p50,
         max(floor(extract(epoch FROM
           LEAST(COALESCE(q.bound_at, q.gone_at), w.end_at) - q.created_at))) AS longest
    FROM w JOIN metering_queuedpod q ON q.cluster_id = w.cluster_id AND q.created_at < w.end_at
      AND COALESCE(q.bound_at, q.gone_at, 'infinity') > w.start_at),
errors AS (
  SELECT count(*) FILTER (WHERE e.kind IN ('ecc', 'row_remap')
           OR (e.kind = 'xid' AND e.code = ANY(%(memory_xids)s))) AS memory,
         count(*) FILTER (WHERE e.severity = 'fail') AS failures
    FROM w JOIN metering_deviceevent e ON e.cluster_id = w.cluster_id
      AND e.begin_at >= w.start_at AND e.begin_at < w.end_at),
measured AS (
  SELECT count(DISTINCT d.uuid) AS devices
    FROM w JOIN metering_deviceusage d ON d.window_id = w.id AND d.window_start = w.start_at)
INSERT INTO metering_clusterhealth (window_id, window_start, cluster_id, nodes, expected_seconds,
  ready_seconds, node_source, queued_pods, pending_pods, wait_seconds_p50, wait_seconds_max,
  memory_errors, failures, devices, corrections_seen, created_at)
SELECT w.id, w.start_at, w.cluster_id,
       CASE WHEN reported.nodes > 0 THEN reported.nodes ELSE offered.nodes END,
       CASE WHEN reported.nodes > 0 THEN reported.expected ELSE NULLIF(offered.expected, 0) END,
       CASE WHEN reported.nodes > 0 THEN reported.ready ELSE offered.ready END,
       CASE WHEN reported.nodes > 0 THEN 'kubernetes' WHEN offered.nodes > 0 THEN 'prometheus'
            ELSE '' END,
       CASE WHEN watched.is_so THEN queue.queued END,
       CASE WHEN watched.is_so THEN queue.pending END,
       CASE WHEN watched.is_so THEN queue.p50 END,
       CASE WHEN watched.is_so THEN queue.longest END,
       errors.memory, errors.failures, measured.devices,
       (SELECT count(*) FROM w JOIN metering_posted_correction c ON c.window_id = w.id), %(at)s
  FROM w, reported, offered, queue, errors, measured,
       (SELECT EXISTS (SELECT FROM w JOIN metering_clusterwatch c USING (cluster_id)) AS is_so)
         AS watched
ON CONFLICT (window_id) DO NOTHING
"""
_SEE_CORRECTIONS = """
UPDATE metering_clusterhealth h
   SET corrections_seen = c.posted
  FROM (SELECT count(*) AS posted FROM metering_posted_correction
         WHERE window_id = %(window)s) c
 WHERE h.window_id = %(window)s AND h.corrections_seen <> c.posted
"""


def write_cluster_health(*, window_id: int, at: datetime) -> bool:
    """Write the health of a sealed window; return False when it is there, or not sealed."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, {"window": window_id, "memory_xids": list(MEMORY_XIDS), "at": at})
        return int(cursor.rowcount) == 1


def see_corrections(*, window_id: int) -> bool:
    """Take note of a derived window's corrections; return False when there are no new ones."""
    with connection.cursor() as cursor:
        cursor.execute(_SEE_CORRECTIONS, {"window": window_id})
        return int(cursor.rowcount) == 1


logger = structlog.get_logger(__name__)

TICK: Final = "metering.tick_waste"
"""The owner of the lock: that of the task and of `manage.py tick`."""
WINDOWS_PER_ROUND_MAX = 500
"""A day of twenty clusters; a longer backlog takes several runs."""


@dataclass(frozen=True)
class Derived(Counts):
    """The result of one run; `findings` are those open at the end of its windows.

    Attributes:
        corrected: Windows whose credits were recomputed because they were corrected.
    """

    windows: int = 0
    corrected: int = 0
    credits: int = 0
    findings: int = 0


def derive_windows(
    *,
    actor: Actor,
    at: datetime,
    thresholds: WasteThresholds = DEFAULT_THRESHOLDS,
    limit: int = WINDOWS_PER_ROUND_MAX,
) -> Derived | None:
    """Derive what follows from sealed windows, one after another; see `derive_each`.

    Returns:
        What was done; None when another worker was at it before anything was.
    """
    done = list(derive_each(actor=actor, at=at, thresholds=thresholds, limit=limit))
    total = sum(filter(None, done), Derived())
    return None if None in done and total == Derived() else total


def derive_each(
    *,
    actor: Actor,
    at: datetime,
    thresholds: WasteThresholds = DEFAULT_THRESHOLDS,
    limit: int = WINDOWS_PER_ROUND_MAX,
) -> Iterator[Derived | None]:
    """Derive waste and credits from sealed windows not derived yet, oldest first.

    Then recompute the credits of those that were corrected. Each window is a separate transaction,
    done once, by one worker at a time: a second worker returns at once, so that no lock is held or
    waited for longer than a window takes. A failed window does not stop the others.

    Yields:
        What was done for each window; None when another worker is at it, and nothing after that.
    """
    for derive in _derivations(actor=actor, at=at, thresholds=thresholds, limit=limit):
        failed: Derived | None = Derived()
        done = run_isolated(
            partial(_derive_alone, derive),
            otherwise=failed,
            event="metering.derive.failed",
            key="",
            at=at,
        )
        yield done
        if done is None:
            return


def _derive_alone(derive: Callable[[], Derived]) -> Derived | None:
    with transaction.atomic():
        return derive() if try_tick_lock(TICK) else None


def _derivations(
    *, actor: Actor, at: datetime, thresholds: WasteThresholds, limit: int
) -> Iterator[Callable[[], Derived]]:
    """Yield what is to be done for each window, in its order."""
    windows = underived_windows(limit=limit)
    if windows:
        catalogue = ensure_catalogue(actor=actor, at=at)
        for window in windows:
            yield partial(
                derive_window,
                window=window,
                catalogue=catalogue,
                thresholds=thresholds,
                actor=actor,
                at=at,
            )
    for window in corrected_windows(limit=limit):
        yield partial(derive_corrections, window=window, actor=actor, at=at)


def derive_window(
    *,
    window: JudgedWindow,
    catalogue: Catalogue,
    thresholds: WasteThresholds,
    actor: Actor,
    at: datetime,
) -> Derived:
    """Derive waste and credits from one sealed window; no-op when done before.

    Waste is judged by the newest window only: an hour that was sealed late makes no findings. Rules
    that look back a day or more are judged by the first window of a cluster's UTC day.
    """
    with transaction.atomic():
        if not write_cluster_health(window_id=window.id, at=at):
            return Derived()
        credited = propose_credits(window_id=window.id, start_at=window.start_at, at=at)
        findings = 0
        if is_newest(window):
            findings = update_waste(
                window=window,
                is_daily=is_first_of_day(window),
                thresholds=thresholds,
                catalogue=catalogue,
                at=at,
            )
        record(
            actor=actor,
            at=at,
            action="metering:window:derive",
            object_kind="metering_window",
            object_id=window.id,
            facts={"credits": credited, "findings": findings},
        )
    logger.info("metering.window.derived", window_id=window.id, credits=credited, findings=findings)
    return Derived(windows=1, credits=credited, findings=findings)


def derive_corrections(*, window: JudgedWindow, actor: Actor, at: datetime) -> Derived:
    """Recompute the credits of a derived window that was corrected; no-op when it was not.

    Its waste findings stay: they do not change after the hour is over. While its device rows are
    archived, accepted credits shrink with their usage, and none is proposed.
    """
    with transaction.atomic():
        if not see_corrections(window_id=window.id):
            return Derived()
        facts: dict[str, object]
        if is_archived(ArchivedTable.DEVICES, month_of(window.start_at)):
            retract_credits(window_id=window.id, start_at=window.start_at)
            credited, facts = 0, {"devices": "archived"}
        else:
            credited = propose_credits(window_id=window.id, start_at=window.start_at, at=at)
            facts = {}
        record(
            actor=actor,
            at=at,
            action="metering:window:recredit",
            object_kind="metering_window",
            object_id=window.id,
            facts={"credits": credited, **facts},
        )
    logger.info("metering.window.recredited", window_id=window.id, credits=credited)
    return Derived(corrected=1, credits=credited)
