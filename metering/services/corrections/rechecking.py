"""Rechecking: a sealed hour is observed again, composed as of now, and corrected.

The sources are queried outside any transaction. The result is compared with what the ledger holds
while the window is locked, so that a recheck done twice, or by two workers, finds nothing the
second time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import structlog
from django.db import transaction

from metering.domain.allocations.timeline import seconds_between
from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.windows import (
    DEFAULT_POLICY,
    LOOK_AHEAD_DOUBLINGS_MAX,
    GapPolicy,
    MeteringPolicy,
    query_time,
)
from metering.domain.corrections.correction import (
    CorrectionState,
    RecheckComparison,
    RecheckState,
)
from metering.domain.errors import ClaimLostError
from metering.models import MeteringWindow, UsageCorrection
from metering.protocols import UsageSource
from metering.selectors.collection.record_digest import capacity_digest
from metering.selectors.locks import holds_recheck, lock_cluster_ledger
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.division.reading import observe_pods
from metering.services.collection.observing import Basis, HourObservation, basis_of
from metering.services.collection.posting import write_allocations
from metering.services.collection.sweeping import Counts, Worker, sweep_all
from metering.services.corrections.comparing import Compared, compare_hour
from metering.services.corrections.drafting import drafts_of
from metering.services.corrections.posting import (
    Draft,
    add_findings,
    facts_of,
    resolve_released,
    still_held,
    write_drafts,
)
from metering.services.corrections.recheck_ends import Outcome, finish, lapse, postpone
from metering.services.corrections.rechecks import (
    REMEMBERED_BY_ALL,
    ClaimedRecheck,
    claim_rechecks,
    make_due_rechecks,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use, record
from tenants.services.turns import run_isolated

logger = structlog.get_logger(__name__)


def recheck_window(
    *,
    claimed: ClaimedRecheck,
    source: UsageSource,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> Outcome:
    """Do one claimed recheck; with too little observation it is due again later.

    More use than the ledger holds is posted, unless it contradicts a node's capacity or a person's
    correction. Less is proposed to a person when the API reported an exact end, and ignored
    otherwise.

    Raises:
        ClaimLostError: Another worker took the recheck over; nothing was written.
        ValueError: The window is not due by `at`, or by the time of the claim.
    """
    at = min(at, claimed.claimed_at)
    age = at - claimed.start_at
    if age >= timedelta(seconds=policy.recheck_retention_seconds):
        return lapse(claimed=claimed, at=at)
    memory = (
        None if age < REMEMBERED_BY_ALL else _memory(claimed, source=source, actor=actor, at=at)
    )
    if memory is not None and age >= memory:
        return lapse(claimed=claimed, at=at)
    as_of = query_time(
        policy,
        start_at=claimed.start_at,
        at=at,
        scrape_interval_seconds=claimed.target.scrape_interval_seconds,
        failures=LOOK_AHEAD_DOUBLINGS_MAX,
    )
    observed = observe_pods(
        hour=claimed.hour,
        pods=claimed.records,
        source=source,
        as_of=as_of,
        actor=actor,
        at=at,
        policy=policy,
    )
    crashpoint("recheck.after_observe")
    if age >= REMEMBERED_BY_ALL and memory is None and _holds_nothing(observed):
        return lapse(claimed=claimed, at=at)
    basis = basis_of(observed, policy=policy, accepts_low_coverage=claimed.accepts_low_coverage)
    if _observed_too_little(observed, basis=basis, claimed=claimed, policy=policy):
        return postpone(claimed=claimed, observed=observed, at=at)
    return _judge(claimed, observed=observed, basis=basis, actor=actor, at=at, policy=policy)


def _memory(
    claimed: ClaimedRecheck, *, source: UsageSource, actor: Actor, at: datetime
) -> timedelta | None:
    """Return the source's retention; None where it is unknown, or the source is unavailable."""
    if not claimed.hour.asks_a_source:
        return timedelta.max
    try:
        with audited_use(slug=claimed.target.slug, actor=actor, at=at):
            return source.memory(claimed.target)
    except SourceUnavailableError:
        return None


def _holds_nothing(observed: HourObservation) -> bool:
    """Whether a source responded, and had neither a pod nor a scrape of the hour."""
    seen = observed.observation
    return seen is not None and not seen.ticks and not observed.pod_uids


def _observed_too_little(
    observed: HourObservation, *, basis: Basis, claimed: ClaimedRecheck, policy: MeteringPolicy
) -> bool:
    """Whether a source covered the hour well enough when it was sealed, but does not now.

    Data of one source must not be compared with data of both. A source that never covered the hour
    is not waited for.
    """
    if claimed.gap_policy is GapPolicy.LAST_KNOWN and observed.failure is None:
        # Later hours may show that a pod lasted through the gap.
        return False
    if not basis.suffices:
        return True
    least = Decimal(0)
    if not claimed.accepts_low_coverage:
        window_seconds = seconds_between(claimed.start_at, claimed.end_at)
        least = 1 - Decimal(policy.hole_seconds_max) / window_seconds
    had_scrapes = claimed.coverage is not None and claimed.coverage >= least
    had_watch = claimed.watch_coverage is not None and claimed.watch_coverage >= least
    return claimed.hour.has_two_sources and (
        (had_scrapes and not basis.scrapes_suffice) or (had_watch and not basis.watch_suffices)
    )


def _judge(
    claimed: ClaimedRecheck,
    *,
    observed: HourObservation,
    basis: Basis,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
) -> Outcome:
    catalogue = ensure_catalogue(actor=actor, at=at)
    with transaction.atomic():
        if not holds_recheck(claimed.id, fence=claimed.fence):
            raise ClaimLostError("Another worker took the recheck over.")
        window = MeteringWindow.objects.select_for_update().get(pk=claimed.window_id)
        lock_cluster_ledger(window.cluster_id)
        found = compare_hour(
            window,
            observed=observed,
            basis=basis,
            catalogue=catalogue,
            gap_policy=claimed.gap_policy,
        )
        made = _write(claimed, found=found, observed=observed, actor=actor, at=at, policy=policy)
        crashpoint("recheck.after_corrections")
        outcome = _outcome(made, comparison=found.comparison)
        finish(claimed=claimed, outcome=outcome, observed=observed, at=at)
        crashpoint("recheck.before_commit")
    crashpoint("recheck.after_commit")
    logger.info(
        "metering.window.rechecked",
        window_id=claimed.window_id,
        reason=claimed.reason.value,
        posted=outcome.posted_unit_seconds,
        proposed=outcome.proposed_unit_seconds,
    )
    return outcome


def _write(
    claimed: ClaimedRecheck,
    *,
    found: Compared,
    observed: HourObservation,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
) -> list[UsageCorrection]:
    evidence = [
        item.to_json() for item in (observed.observation.evidence if observed.observation else ())
    ]
    drafts = drafts_of(
        claimed,
        window=found.window,
        differences=found.differences,
        known=found.known,
        ledger=found.ledger,
        findings=found.findings,
        vouched_for=found.vouched_for,
        posts_late_usage=policy.posts_late_usage,
        evidence=evidence,
    )
    if drafts.posted or drafts.proposed:
        write_allocations(claimed, new=found.new_allocations, seen_again=())
    made = [
        *_written(drafts.posted, state=CorrectionState.POSTED, actor=actor, at=at),
        *_written(drafts.proposed, state=CorrectionState.PROPOSED, actor=actor, at=at),
    ]
    held = still_held(
        found.findings,
        billed={key: row.unit_seconds for key, row in found.known.items()},
        ledger={key: fact.unit_seconds for key, fact in found.ledger.items()},
        posted=[line for draft in drafts.posted for line in draft.lines],
    )
    findings = [*held, *drafts.passed_over]
    resolve_released(claimed.window_id, corrections=made, findings=findings, at=at)
    add_findings(found.window, findings=findings, at=at)
    if made:
        _record(claimed, made=made, actor=actor, at=at)
    return made


def _written(
    drafts: Sequence[Draft], *, state: CorrectionState, actor: Actor, at: datetime
) -> list[UsageCorrection]:
    return write_drafts(drafts, state=state, actor=actor, at=at) if drafts else []


def _record(
    claimed: ClaimedRecheck, *, made: Sequence[UsageCorrection], actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action="metering:window:recheck",
        object_kind="metering_window",
        object_id=claimed.window_id,
        facts={
            "recheck": claimed.id,
            "reason": claimed.reason.value,
            "corrections": [{**facts_of(row), "state": row.state} for row in made],
            "capacity_digest": capacity_digest(claimed.window_id),
        },
    )


def _outcome(made: Sequence[UsageCorrection], *, comparison: RecheckComparison) -> Outcome:
    posted = [row for row in made if row.state == CorrectionState.POSTED]
    return Outcome(
        corrections=len(made),
        posted_unit_seconds=sum(row.unit_seconds for row in posted),
        proposed_unit_seconds=sum(row.unit_seconds for row in made)
        - sum(row.unit_seconds for row in posted),
        unproven_unit_seconds=comparison.unproven_unit_seconds,
        unseen=comparison.unseen,
    )


@dataclass(frozen=True)
class RecheckSweep(Counts):
    """What a sweep did.

    Attributes:
        made: Rechecks created.
        done: Rechecks that ended, lapsed ones too.
        corrections: Corrections they made.
        postponed: Rechecks that saw too little, due again later.
        failed: Rechecks that raised an unexpected error; their lease runs out.
    """

    made: int = 0
    done: int = 0
    corrections: int = 0
    postponed: int = 0
    failed: int = 0


def recheck_due(*, worker: Worker, at: datetime) -> RecheckSweep:
    """Create and do every recheck that is due; return what was done."""
    made = RecheckSweep(made=make_due_rechecks(at=at, policy=worker.policy))
    return sweep_all(made, lambda: recheck_next(worker=worker, at=at))


def recheck_next(*, worker: Worker, at: datetime) -> RecheckSweep | None:
    """Lease the recheck that is due for longest, and do it; return None when none is due."""
    claimed = claim_rechecks(
        worker=worker.name, limit=1, clusters=worker.clusters, at=at, policy=worker.policy
    )
    if not claimed:
        return None
    worker.on_leased()
    return recheck_claimed(claimed=claimed[0], worker=worker, at=at)


def recheck_claimed(*, claimed: ClaimedRecheck, worker: Worker, at: datetime) -> RecheckSweep:
    """Do one claimed recheck; one bad window stops no other.

    After a fault the lease runs out, and the recheck fails for good if it ends so again and again.
    """
    return run_isolated(
        lambda: _recheck(claimed=claimed, worker=worker, at=at),
        otherwise=RecheckSweep(failed=1),
        event="metering.recheck.failed",
        key=claimed.id,
        at=at,
    )


def _recheck(*, claimed: ClaimedRecheck, worker: Worker, at: datetime) -> RecheckSweep:
    try:
        outcome = recheck_window(
            claimed=claimed,
            source=worker.source,
            actor=worker.actor,
            at=at,
            policy=worker.policy,
        )
    except ClaimLostError:
        logger.warning("metering.recheck.lease_lost", recheck_id=claimed.id)
        return RecheckSweep()
    if outcome.state is RecheckState.DUE:
        return RecheckSweep(postponed=1)
    return RecheckSweep(done=1, corrections=outcome.corrections)
