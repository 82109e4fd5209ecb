"""Sweeping: open, claim, collect, reconcile and seal until nothing is due.

Every step is idempotent and derives its work from the tables and the clock, so any number of
workers may sweep at once, and any may die at any moment.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import Final, Self, TypeVar
from uuid import UUID

import structlog
from django.db import DatabaseError, connection

from metering.domain.collection.avoidance import AvoidedClusters
from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy, WindowState
from metering.domain.corrections.exceptions import (
    REMEDIES,
    WAITING_KINDS,
    WAITING_SENTENCE,
    ExceptionKind,
)
from metering.domain.errors import ClaimLostError
from metering.protocols import UsageSource
from metering.protocols.parts import DividingSource
from metering.selectors.collection.windows import sealable_window_ids
from metering.services.collection.collecting import span_of
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.division.collecting import collect_claimed, expected_pods
from metering.services.collection.hour_decisions import waive_unmetered
from metering.services.collection.observing import repeatable_read
from metering.services.collection.sealing import reconcile_windows, seal_window
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.domain.actors import Actor
from tenants.domain.errors import ConflictError, SourceUnavailableError
from tenants.services.audit import audited_use
from tenants.services.turns import for_each_isolated, run_isolated

logger = structlog.get_logger(__name__)

WINDOWS_MAX = 200_000
"""A sweep that meters more windows than this does not end for another reason than work."""


@dataclass(frozen=True)
class Counts:
    """Counts of what was done; those of several runs add up."""

    def __add__(self, other: Self) -> Self:
        """Return both together."""
        ours, theirs = astuple(self), astuple(other)
        return type(self)(*(one + more for one, more in zip(ours, theirs, strict=True)))


@dataclass(frozen=True)
class CollectionSweep(Counts):
    """What a sweep did.

    Attributes:
        retried: Windows whose source observed nothing or too little, due again later or a gap.
        failed: Windows whose metering raised an unexpected error; their lease runs out.
        steps: Parts of windows of many pods, and their divisions, that were done.
    """

    opened: int = 0
    sealed: int = 0
    retried: int = 0
    failed: int = 0
    steps: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.opened or self.sealed or self.retried or self.failed or self.steps)


SomeCounts = TypeVar("SomeCounts", bound=Counts)
Progress = Callable[[CollectionSweep], None]


@dataclass(frozen=True)
class Worker:
    """The metering process, its source and its policy.

    Attributes:
        clusters: Those that it serves; None for all.
        avoided: Those of them whose source it could not reach, which it leaves to others.
        alone: Those of them whose source refused several hours together.
        lost: Claims that it could not finish, since the database was away.
        on_leased: Called when a row is leased, before it is done.
    """

    name: str
    source: UsageSource
    actor: Actor
    policy: MeteringPolicy = DEFAULT_POLICY
    clusters: Collection[UUID] | None = None
    avoided: AvoidedClusters = field(default_factory=AvoidedClusters)
    alone: AvoidedClusters = field(default_factory=AvoidedClusters)
    lost: list[ClaimedWindow] = field(default_factory=list)
    on_leased: Callable[[], None] = lambda: None


def meter_due(*, worker: Worker, at: datetime, progress: Progress | None = None) -> CollectionSweep:
    """Open, collect and seal every window that is due; return what was done.

    Args:
        worker: The metering process.
        at: Now.
        progress: Called with the sweep so far after every window.
    """
    begun = CollectionSweep(opened=open_due(at=at, policy=worker.policy))
    begun += seal_due(worker=worker, at=at)
    return sweep_all(begun, lambda: meter_next(worker=worker, at=at), progress=progress)


def sweep_all(
    total: SomeCounts,
    sweep_next: Callable[[], SomeCounts | None],
    progress: Callable[[SomeCounts], None] | None = None,
) -> SomeCounts:
    """Sweep hour after hour until None comes; return the sum, and report it after each hour."""
    for _ in range(WINDOWS_MAX):
        swept = sweep_next()
        if swept is None:
            break
        total += swept
        if progress is not None:
            progress(total)
    return total


def open_due(*, at: datetime, policy: MeteringPolicy) -> int:
    """Report what waits and open what is due; a fault of either is counted and stops nothing else.

    Returns:
        How many windows were opened.
    """
    run_isolated(
        lambda: report_waiting_windows(at=at, policy=policy),
        otherwise=0,
        event="metering.waiting.failed",
        key="",
        at=at,
    )
    return run_isolated(
        lambda: open_due_windows(at=at, policy=policy),
        otherwise=0,
        event="metering.open.failed",
        key="",
        at=at,
    )


def seal_due(*, worker: Worker, at: datetime) -> CollectionSweep:
    """Seal what is settled; a fault is counted and stops nothing else."""
    return run_isolated(
        lambda: seal_settled(worker=worker, at=at),
        otherwise=CollectionSweep(),
        event="metering.seal.failed",
        key="",
        at=at,
    )


def meter_next(*, worker: Worker, at: datetime) -> CollectionSweep | None:
    """Lease the window that is longest due, collect and seal it; return None when none is due.

    Of a backlog the hours that follow in its cluster are leased with it and observed together,
    then collected and sealed one by one. After a fault its lease keeps an hour behind the others.
    Clusters whose source this process could not reach are left to other processes for a while.
    Claims that a lost database left with this process are given up first; as attempts they count.
    """
    if worker.lost:
        _release(worker.lost, given_back=0)
        worker.lost.clear()
    claimed = claim_windows(
        worker=worker.name,
        limit=1,
        clusters=worker.clusters,
        avoided=worker.avoided.during(at),
        alone=worker.alone.during(at),
        at=at,
        policy=worker.policy,
    )
    if not claimed:
        return None
    worker.on_leased()
    try:
        return _meter_each(claimed, worker=worker, at=at)
    except DatabaseError:
        worker.lost.extend(claimed)
        raise


def _meter_each(
    claimed: Sequence[ClaimedWindow], *, worker: Worker, at: datetime
) -> CollectionSweep:
    if len(claimed) > 1:
        claimed, worker = _prefetched(claimed, worker=worker, at=at)
    swept = CollectionSweep()
    for position, one in enumerate(claimed, start=1):
        swept += meter_window(claimed=one, worker=worker, at=at)
        if one.cluster_id in worker.avoided.during(at):
            _release(claimed[position:])
            break
    return swept


def _prefetched(
    claimed: Sequence[ClaimedWindow], *, worker: Worker, at: datetime
) -> tuple[Sequence[ClaimedWindow], Worker]:
    """Return windows to collect and the worker with a source that has observed them together.

    Where that fails, the first one is left, to be observed alone; the others are released.
    """
    first, *following = claimed
    source = run_isolated(
        lambda: _prefetch(claimed, worker=worker, at=at),
        otherwise=None,
        event="metering.prefetch.failed",
        key=first.id,
        at=at,
    )
    if source is not None:
        return claimed, replace(worker, source=source)
    _release(following)
    return [first], worker


@repeatable_read()
def _prefetch(
    claimed: Sequence[ClaimedWindow], *, worker: Worker, at: datetime
) -> UsageSource | None:
    """Return a source that has asked about all windows; None where it asks about each alone."""
    target, cluster_id = claimed[0].target, claimed[0].cluster_id
    spans = [span_of(one, at=at, policy=worker.policy) for one in claimed]
    try:
        with audited_use(slug=target.slug, actor=worker.actor, at=at):
            if _is_large(claimed[0], worker=worker, at=at):
                return None
            source = worker.source.prefetch(target, spans)
    except SourceUnavailableError as error:
        logger.warning("metering.prefetch.refused", cluster=target.slug, reason=error.reason)
        source = worker.source
    if source is worker.source:
        worker.alone.add(cluster_id, at=at)
        return None
    worker.alone.remove(cluster_id)
    return source


def _is_large(claimed: ClaimedWindow, *, worker: Worker, at: datetime) -> bool:
    """Whether a window is metered in parts, so that its pods are not held together."""
    source, policy = worker.source, worker.policy
    if not isinstance(source, DividingSource):
        return False
    pods = expected_pods(claimed, source=source, at=at, policy=policy)
    return pods > policy.pods_undivided_max


_RELEASE = """
UPDATE metering_meteringwindow w
   SET state = 'open', attempt = w.attempt - %(given_back)s, lease_owner = '', lease_until = NULL
  FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS claimed(id, fence)
 WHERE w.id = claimed.id AND w.fence = claimed.fence AND w.state = 'collecting'
"""


def _release(claimed: Sequence[ClaimedWindow], *, given_back: int = 1) -> None:
    """Give up claims on windows that were not tried: another attempt may claim them at once."""
    ids, fences = [one.id for one in claimed], [one.fence for one in claimed]
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, {"ids": ids, "fences": fences, "given_back": given_back})


def meter_window(*, claimed: ClaimedWindow, worker: Worker, at: datetime) -> CollectionSweep:
    """Collect one claimed window and seal it if it adds up; one bad window stops no other.

    After a fault the lease runs out, and the window is quarantined if it fails so again and again.
    """
    return run_isolated(
        lambda: _meter(claimed=claimed, worker=worker, at=at),
        otherwise=CollectionSweep(failed=1),
        event="metering.window.failed",
        key=claimed.id,
        at=at,
    )


def _meter(*, claimed: ClaimedWindow, worker: Worker, at: datetime) -> CollectionSweep:
    try:
        collected = collect_claimed(
            claimed=claimed,
            worker=worker.name,
            source=worker.source,
            actor=worker.actor,
            at=at,
            policy=worker.policy,
        )
    except ClaimLostError:
        logger.warning("metering.window.lease_lost", window_id=claimed.id)
        return CollectionSweep()
    except DatabaseError:
        if connection.connection is None or connection.connection.closed:
            worker.lost.append(claimed)
        raise
    if collected.is_away:
        worker.avoided.add(claimed.cluster_id, at=at)
    else:
        worker.avoided.remove(claimed.cluster_id)
    if collected.is_step:
        return CollectionSweep(steps=1)
    if collected.state is not WindowState.RECONCILED:
        return CollectionSweep(retried=1)
    return CollectionSweep(sealed=_seal(claimed.id, worker=worker, at=at))


def seal_settled(*, worker: Worker, at: datetime) -> CollectionSweep:
    """Waive hours that are no longer metered; seal what was collected but left behind."""
    waive_unmetered(actor=worker.actor, at=at)
    settled = sealable_window_ids()
    if not settled:
        return CollectionSweep()
    reconcile_windows(window_ids=settled, actor=worker.actor, at=at)
    event = "metering.window.seal_failed"
    return CollectionSweep(
        sealed=for_each_isolated(
            settled, lambda one: _seal(one, worker=worker, at=at), event=event, at=at
        )
    )


def _seal(window_id: int, *, worker: Worker, at: datetime) -> int:
    """Seal a window unless another worker is faster; return how many were sealed here."""
    try:
        seal_window(window_id=window_id, actor=worker.actor, at=at)
    except ConflictError as refusal:
        logger.info("metering.window.not_sealed", window_id=window_id, code=refusal.code)
        return 0
    return 1


_REPORT_WAITING = """
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT w.cluster_id, w.id, w.start_at, cause.kind, '', '',
       COALESCE(NULLIF(w.last_error, ''), %(sentence)s), cause.remedy, 0, '{}', 'open', now.at, ''
  FROM (SELECT moment AS at, moment - make_interval(secs => %(lateness)s) AS overdue_at,
               moment - interval '1 hour' - make_interval(secs => %(patience)s) AS old_at
          FROM LEAST(%(at)s, clock_timestamp()) AS moment) now
  JOIN metering_meteringwindow w ON w.state <> 'sealed'
  JOIN jsonb_to_recordset(%(causes)s) AS cause(state text, kind text, remedy text)
    ON cause.state = CASE WHEN w.state = 'open' AND w.failures = 0 THEN '' ELSE w.state END
 WHERE (w.state <> 'open' OR (w.not_before <= now.overdue_at AND w.start_at <= now.old_at))
   AND NOT EXISTS (SELECT FROM metering_meteringexception o
                    WHERE o.window_id = w.id AND o.state = 'open' AND o.kind = ANY(%(waiting)s))
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET summary = EXCLUDED.summary, remedy = EXCLUDED.remedy, state = 'open', resolved_at = NULL,
       resolved_by_id = NULL, resolution = ''
"""


_WAITS_FOR: Final = {
    WindowState.GAP.value: ExceptionKind.LOW_COVERAGE,
    WindowState.QUARANTINED.value: ExceptionKind.QUARANTINED,
    WindowState.OPEN.value: ExceptionKind.SOURCE_UNAVAILABLE,
    "": ExceptionKind.OVERDUE,
}
"""By state; "" is an open window that no attempt has failed at."""


def report_waiting_windows(*, at: datetime, policy: MeteringPolicy = DEFAULT_POLICY) -> int:
    """Open an exception for every window that waits without one; return how many there were.

    A gap and a quarantined window wait for a decision; one older than the policy's patience that
    was not tried when it was due waits for a worker. Whatever resolved its exceptions, it is never
    out of every queue. Call it before windows are opened: new ones have had no time yet.
    """
    causes = [
        {"state": state, "kind": kind.value, "remedy": REMEDIES[kind]}
        for state, kind in _WAITS_FOR.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            _REPORT_WAITING,
            {
                "at": at,
                "causes": json.dumps(causes),
                "sentence": WAITING_SENTENCE,
                "waiting": sorted(kind.value for kind in WAITING_KINDS),
                "lateness": policy.lateness_seconds,
                "patience": policy.gap_patience_seconds,
            },
        )
        return int(cursor.rowcount)
