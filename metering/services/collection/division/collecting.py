"""Metering a window of many pods: each call does one step of it, whichever is next.

The window is divided, each part is observed, what only all pods together show is settled, each part
is posted, and the window is finished from what the parts add up to. Every worker that claims the
window finds the next step in the tables. The source is queried outside any transaction, and every
step writes in one, while its fence holds.
"""

from dataclasses import replace
from datetime import datetime

import structlog
from django.db import transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.parts import parts_of
from metering.domain.collection.windows import MeteringPolicy, query_time
from metering.domain.errors import ClaimLostError
from metering.models import WindowDivision, WindowPart
from metering.protocols import UsageSource
from metering.protocols.parts import DividingSource, Frame
from metering.selectors.catalogue import catalogue_of
from metering.selectors.locks import holds_part, lock_ledger_part
from metering.services.collection.balancing import Sizer
from metering.services.collection.collecting import (
    Collection,
    collect_window,
    suffices,
)
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.composition import compose_pods
from metering.services.collection.division.leasing import (
    ClaimedPart,
    NoPart,
    claim_back,
    divide,
    finish_part,
    lease_part,
    put_off,
    report_part,
    take_back,
)
from metering.services.collection.division.packing import (
    pack,
    pack_frame,
    unpack_frame,
    unpack_pods,
    unpack_settlement,
)
from metering.services.collection.division.reading import (
    observed_in_parts,
    read_frame,
    read_part,
    settled_pods,
    unobserved_hour,
)
from metering.services.collection.division.settling import (
    Collector,
    failed,
    finish_divided,
    settle,
    stepped,
)
from metering.services.collection.division.writing import write_pods
from metering.services.collection.failures import AWAY_REASONS
from metering.services.collection.findings import keep_findings
from metering.services.collection.observing import basis_of, given_of, repeatable_read
from metering.services.collection.reconciliation import figures_of
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use

logger = structlog.get_logger(__name__)


@repeatable_read()
def collect_claimed(
    *,
    claimed: ClaimedWindow,
    worker: str,
    source: UsageSource,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
) -> Collection:
    """Meter a claimed window, or do the next step of one that has many pods.

    An hour that was decided on is metered by one worker, however many pods it has: it is compared
    with what was shown of it. So is one that was observed too little for long.

    Raises:
        ClaimLostError: Another worker took the window, or the part, over; nothing was written.
    """
    at = min(at, claimed.claimed_at)
    if claimed.is_divided and (claimed.is_decided or not isinstance(source, DividingSource)):
        take_back(claimed)
    done: Collection | None = None
    pods = claimed.former_records or 0
    if isinstance(source, DividingSource):
        by = Collector(source, actor, policy, worker)
        if claimed.is_decided:
            pods = _counted_pods(claimed, by=by, at=at)
        elif claimed.is_divided:
            done = _next_step(claimed, by=by, at=at)
        else:
            done = _divide_large(claimed, by=by, at=at)
    if done is not None:
        return done
    return collect_window(
        claimed=claimed, source=source, actor=actor, at=at, policy=policy, pods=pods
    )


def _counted_pods(claimed: ClaimedWindow, *, by: Collector, at: datetime) -> int:
    """Return how many pods a window seems to have; 0 where no source says so."""
    try:
        with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
            return expected_pods(claimed, source=by.source, at=at, policy=by.policy)
    except SourceUnavailableError:
        return 0


def expected_pods(
    claimed: ClaimedWindow, *, source: DividingSource, at: datetime, policy: MeteringPolicy
) -> int:
    """Return how many pods a window seems to have: records of a former hour, else a count.

    Raises:
        SourceUnavailableError: No former hour is known, and the source does not respond.
    """
    if claimed.former_records is not None or not claimed.hour.asks_a_source:
        return claimed.former_records or 0
    return source.count_pods(claimed.target, as_of=_query_time(claimed, at=at, policy=policy))


def _divide_large(claimed: ClaimedWindow, *, by: Collector, at: datetime) -> Collection | None:
    """Divide a window that seems to have many pods.

    A source that does not respond is queried again, unless that would only keep others waiting.

    Returns:
        None where it is to be metered in one go.
    """
    pods = 0
    try:
        with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
            pods = expected_pods(claimed, source=by.source, at=at, policy=by.policy)
    except SourceUnavailableError as error:
        if error.reason in AWAY_REASONS and not claimed.hour.is_watched:
            return failed(claimed, error=error, at=at, policy=by.policy)
    if pods <= by.policy.pods_undivided_max:
        return None
    return _divide(claimed, parts=-(-pods // by.policy.part_pods), by=by, at=at)


def _query_time(claimed: ClaimedWindow, *, at: datetime, policy: MeteringPolicy) -> datetime:
    return query_time(
        policy,
        start_at=claimed.start_at,
        at=at,
        scrape_interval_seconds=claimed.target.scrape_interval_seconds,
        failures=claimed.failures,
    )


def _divide(
    claimed: ClaimedWindow, *, parts: int, by: Collector, at: datetime
) -> Collection | None:
    """Observe all of a window but its pods, and make its parts.

    Returns:
        None where a source does not respond and the hour is not retried: it is metered in one go.
    """
    as_of = _query_time(claimed, at=at, policy=by.policy)
    frame: Frame | None = None
    if claimed.hour.asks_a_source:
        try:
            with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
                frame = read_frame(claimed.hour, by=by, as_of=as_of)
        except SourceUnavailableError as error:
            unobserved = unobserved_hour(claimed.hour, as_of=as_of, failure=error)
            basis = basis_of(unobserved, policy=by.policy)
            if suffices(unobserved, basis=basis, claimed=claimed, at=at, policy=by.policy):
                return None
            return failed(claimed, error=error, at=at, policy=by.policy)
    packed = None if frame is None else pack_frame(frame)
    divide(claimed, parts=parts_of(parts), as_of=as_of, frame=packed, at=at)
    logger.info("metering.window.divided", window_id=claimed.id, parts=parts)
    return stepped(claimed)


def _next_step(claimed: ClaimedWindow, *, by: Collector, at: datetime) -> Collection | None:
    """Do what is next of a divided window.

    Returns:
        None where it is to be metered in one go.

    Raises:
        ClaimLostError: Another worker, or a decision, took the window or its parts over.
    """
    try:
        return _do_step(claimed, by=by, at=at)
    except (WindowDivision.DoesNotExist, WindowPart.DoesNotExist) as error:
        raise ClaimLostError("A decision took the parts of the window back.") from error


def _do_step(claimed: ClaimedWindow, *, by: Collector, at: datetime) -> Collection | None:
    division = WindowDivision.objects.defer("frame", "settled").get(window_id=claimed.id)
    if claimed.failures - division.failures >= by.policy.coverage_attempts_max:
        # A later time of the queries may mend what no repetition does.
        parts = WindowPart.objects.filter(division=division).count()
        take_back(claimed)
        return _divide(claimed, parts=parts - 1, by=by, at=at)
    part = lease_part(claimed, worker=by.worker, policy=by.policy)
    if part is NoPart.AWAY:
        return stepped(claimed)
    if part is NoPart.DONE and division.is_settled:
        return finish_divided(claimed, division=division, at=at)
    if part is NoPart.DONE:
        return settle(claimed, division=division, by=by, at=at)
    if division.is_settled:
        return _post_part(part, division=division, at=at)
    return _observe_part(part, division=division, by=by, at=at)


def _observe_part(
    part: ClaimedPart, *, division: WindowDivision, by: Collector, at: datetime
) -> Collection:
    claimed = part.window
    assert division.frame is not None  # noqa: S101 - Without one there is nothing to observe.
    frame = unpack_frame(division.frame)
    try:
        with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
            found, pods = read_part(
                claimed.hour, frame=frame, part=part.pods, by=by, as_of=division.as_of
            )
    except SourceUnavailableError as error:
        return _fail(part, error=error, at=at, policy=by.policy)
    crashpoint("part.after_observe")
    with transaction.atomic():
        _require_lease(part)
        finish_part(part, found=found, observed=pods, crash_name="observed")
    report_part(part, crash_name="observed")
    return stepped(claimed)


def _post_part(part: ClaimedPart, *, division: WindowDivision, at: datetime) -> Collection:
    """Write the usage, the allocations and the findings of one part."""
    claimed = part.window
    assert division.settled is not None  # noqa: S101 - It is settled; narrows the type.
    assert division.catalogue_version is not None  # noqa: S101 - As above.
    catalogue = catalogue_of(division.catalogue_version)
    settlement = unpack_settlement(division.settled)
    stored = WindowPart.objects.values_list("observed", flat=True).get(id=part.id)
    observed = observed_in_parts(claimed.hour, settlement=settlement, as_of=division.as_of)
    if stored is not None and observed.observation is not None:
        pods = settled_pods(unpack_pods(stored), settled=settlement.settled)
        observed = replace(observed, observation=replace(observed.observation, pods=pods))
    with transaction.atomic():
        _require_lease(part)
        lock_ledger_part(claimed.cluster_id, part=part.pods)
        given = given_of(observed, basis=settlement.basis, catalogue=catalogue, part=part.pods)
        composed = compose_pods(given, sizer=Sizer(catalogue, observation=settlement.observation))
        write_pods(claimed, observed=observed, composed=composed, part=part.pods)
        figures = figures_of(composed, holes=observed.holes)
        keep_findings(claimed, findings=composed.findings, at=at)
        finish_part(part, found=pack(figures), observed=None, crash_name="posted")
    report_part(part, crash_name="posted")
    return stepped(claimed)


def _require_lease(part: ClaimedPart) -> None:
    if not holds_part(part.id, fence=part.fence):
        raise ClaimLostError("Another worker took the part over.")


def _fail(
    part: ClaimedPart, *, error: SourceUnavailableError, at: datetime, policy: MeteringPolicy
) -> Collection:
    """Give a part back that the source did not answer about; the window is tried later.

    Raises:
        ClaimLostError: Another worker took the part over.
    """
    with transaction.atomic():
        claimed = claim_back(part, policy=policy)
        if claimed is None:
            return stepped(part.window)
        collected = failed(claimed, error=error, at=at, policy=policy)
        put_off(claimed.id)
    return collected
