"""Collection: observe a claimed window, then write the usage or why the observation was not enough.

The source is queried outside any transaction. The result is posted in one, while the claim is
valid; a worker whose claim was taken over writes nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from django.db import connection, transaction

from metering.domain.catalogue.sizing import Catalogue
from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.hour_decisions import Shown, shown_values
from metering.domain.collection.windows import (
    DEFAULT_POLICY,
    GapPolicy,
    MeteringPolicy,
    WindowState,
    is_gap,
    query_time,
)
from metering.domain.corrections.exceptions import BLOCKING_KINDS
from metering.domain.errors import ClaimLostError
from metering.protocols import ObservedSpan, UsageSource
from metering.selectors.locks import holds_claim, lock_cluster_ledger
from metering.services.allocations.sizing import settle_open_sizes
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.composed import (
    CapacityRow,
    ClaimedWindow,
    WindowFigures,
)
from metering.services.collection.division.composing import compose_nodes_of, figures_known
from metering.services.collection.division.reading import observe_pods
from metering.services.collection.division.writing import Posted, post_part
from metering.services.collection.failures import (
    AWAY_REASONS,
    record_failure,
    record_incomplete,
    return_to_person,
)
from metering.services.collection.findings import write_findings
from metering.services.collection.observing import (
    Basis,
    HourObservation,
    basis_of,
    continuous,
    repeatable_read,
)
from metering.services.collection.posting import (
    delete_usage,
    replace_capacity,
)
from metering.services.collection.reconciliation import (
    evidence_digests,
    hidden_unit_seconds,
    hole_values,
    reconciliation_of,
    shown_of,
    single_source,
)
from tenants.domain.actors import Actor

logger = structlog.get_logger(__name__)

_ESTIMATING = frozenset({GapPolicy.LAST_KNOWN, GapPolicy.HOLD})

_FINISH = """
UPDATE metering_meteringwindow w
   SET state = CASE WHEN b.is_blocked THEN 'collected' ELSE 'reconciled' END,
       shown = CASE WHEN b.is_blocked THEN %(shown)s ELSE '{}'::jsonb END,
       lease_owner = '', lease_until = NULL, attempt = 0, failures = 0, last_error = '',
       as_of = %(as_of)s, sources = %(sources)s, expected_ticks = %(expected)s,
       observed_ticks = %(observed)s, coverage = %(coverage)s,
       unobserved_seconds = %(unobserved_seconds)s,
       longest_hole_seconds = %(longest_hole_seconds)s,
       hidden_unit_seconds_max = %(hidden)s, scrape_targets = %(scrape_targets)s,
       is_watched = %(is_watched)s, watch_coverage = %(watch_coverage)s,
       reconciliation = %(reconciliation)s,
       evidence = %(evidence)s, catalogue_version = %(catalogue_version)s,
       record_count = %(records)s, collected_at = %(at)s
  FROM (SELECT EXISTS (
          SELECT FROM metering_meteringexception e
           WHERE e.window_id = %(window_id)s AND e.state = 'open'
             AND e.kind = ANY(%(blocking)s)) AS is_blocked) b
 WHERE w.id = %(window_id)s AND w.fence = %(fence)s AND w.state = 'collecting'
RETURNING w.state
"""


@dataclass(frozen=True)
class Collection:
    """What became of a claimed window.

    Attributes:
        state: `reconciled` when it may be sealed, `collected` while a blocking exception is open,
            `open` when it is tried again, `gap` when it needs review.
        records: Usage records written.
        unit_seconds: Their sum over all sizes.
        findings: Exceptions that hold now.
        is_away: Whether the worker could not reach the source.
        is_step: Whether a part of the window, or its division, was done, and more is due.
    """

    window_id: int
    state: WindowState
    records: int = 0
    unit_seconds: int = 0
    findings: int = 0
    is_away: bool = False
    is_step: bool = False


@repeatable_read()
def collect_window(
    *,
    claimed: ClaimedWindow,
    source: UsageSource,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
    pods: int = 0,
) -> Collection:
    """Meter one claimed window; sources that saw too little make it due again later.

    One source is enough. While the cluster's watch is healthy, an unavailable Prometheus is retried
    until the attempts are used up; then the hour is metered from the watch alone and marked so. A
    silent watch is retried likewise where there are device claims, which only it reports.

    A decision applies to the evidence shown: an hour with less observation than shown needs review
    again, and so does one with too little observation for which nothing was shown.

    Where `pods`, how many it seems to have, are many, they are read and written in parts.

    Raises:
        ClaimLostError: Another worker took the window over; nothing was written.
        ValueError: The window is not due by `at`, or by the time of the claim.
    """
    # Query time and patience go by the database's clock, which the claim has read.
    at = min(at, claimed.claimed_at)
    as_of = span_of(claimed, at=at, policy=policy).as_of
    observed = observe_pods(
        hour=claimed.hour, pods=pods, source=source, as_of=as_of, actor=actor, at=at, policy=policy
    )
    crashpoint("collect.after_observe")
    basis = basis_of(observed, policy=policy, accepts_low_coverage=claimed.accepts_low_coverage)
    if basis.scrapes_suffice and not claimed.accepts_low_coverage and claimed.gap_policy is None:
        observed = continuous(observed)
        basis = basis if observed.failure is None else basis_of(observed, policy=policy)
    if suffices(observed, basis=basis, claimed=claimed, at=at, policy=policy):
        return _post(claimed, observed=observed, basis=basis, actor=actor, at=at)
    is_estimate_due = claimed.gap_policy in _ESTIMATING and observed.is_estimable
    if observed.failure is not None and not is_estimate_due:
        state = record_failure(claimed=claimed, error=observed.failure, at=at, policy=policy)
    else:
        state = record_incomplete(
            claimed=claimed, observed=observed, actor=actor, at=at, policy=policy
        )
    is_away = observed.failure is not None and observed.failure.reason in AWAY_REASONS
    return Collection(window_id=claimed.id, state=state, is_away=is_away)


def span_of(claimed: ClaimedWindow, *, at: datetime, policy: MeteringPolicy) -> ObservedSpan:
    """Return what the source is asked about for a claimed window.

    Raises:
        ValueError: The window is not due by `at`, or by the time of the claim.
    """
    as_of = query_time(
        policy,
        start_at=claimed.start_at,
        at=min(at, claimed.claimed_at),
        scrape_interval_seconds=claimed.target.scrape_interval_seconds,
        failures=claimed.failures,
    )
    return ObservedSpan(claimed.start_at, claimed.end_at, as_of)


def suffices(
    observed: HourObservation,
    *,
    basis: Basis,
    claimed: ClaimedWindow,
    at: datetime,
    policy: MeteringPolicy,
) -> bool:
    """Return whether an hour is metered now rather than observed again later.

    An estimate that was decided on before anything was known of the hour is not made: what is known
    now is shown first.
    """
    is_shown = claimed.decided_on != Shown()
    if claimed.gap_policy in _ESTIMATING and is_shown and observed.is_estimable:
        return True
    failures = claimed.failures + 1
    gives_up = is_gap(policy, start_at=claimed.start_at, at=at, failures=failures)
    if basis.scrapes_suffice:
        # A watch that is silent since the hour may return and report its claims.
        may_learn = basis.may_miss_claims and observed.watch.is_blind_at_end
        return gives_up or claimed.accepts_low_coverage or not may_learn
    if not basis.watch_suffices:
        return basis.both_suffice
    if observed.coverage is not None and not observed.coverage.is_blind_at_end:
        return True
    return gives_up or not claimed.hour.asks_a_source


def _post(
    claimed: ClaimedWindow, *, observed: HourObservation, basis: Basis, actor: Actor, at: datetime
) -> Collection:
    catalogue = ensure_catalogue(actor=actor, at=at)
    with claimed.hour.settled.kept_after(), transaction.atomic():
        if not holds_claim(claimed.id, fence=claimed.fence):
            raise ClaimLostError("Another worker took the window over.")
        lock_cluster_ledger(claimed.cluster_id)
        if claimed.hour.is_watched:
            settle_open_sizes(claimed.cluster_id, catalogue=catalogue)
        returned = _returned(
            claimed, observed=observed, basis=basis, catalogue=catalogue, actor=actor, at=at
        )
        if returned is not None:
            return Collection(window_id=claimed.id, state=returned)
        delete_usage(claimed)
        posted = Posted(findings=single_source(observed, basis=basis))
        for part in observed.all_parts:
            post_part(
                claimed,
                observed=observed.of_part(part),
                part=part,
                basis=basis,
                catalogue=catalogue,
                at=at,
                into=posted,
            )
        figures = posted.figures
        if observed.parts:
            posted.capacity, of_nodes = compose_nodes_of(
                observed, uses=figures.places, catalogue=catalogue, gap_policy=claimed.gap_policy
            )
            posted.findings += of_nodes
        replace_capacity(claimed, rows=posted.capacity)
        write_findings(claimed, findings=posted.findings, at=at, besides=figures.findings)
        figures.findings += [(one.kind, one.subject) for one in posted.findings]
        collected = finish_window(
            claimed,
            observed=observed,
            version=catalogue.version,
            figures=figures,
            capacity=posted.capacity,
            at=at,
        )
        crashpoint("collect.before_commit")
    crashpoint("collect.after_commit")
    return collected


def _returned(
    claimed: ClaimedWindow,
    *,
    observed: HourObservation,
    basis: Basis,
    catalogue: Catalogue,
    actor: Actor,
    at: datetime,
) -> WindowState | None:
    """Return an hour to a person if it has less than the decision in force was made on.

    What is compared is what was observed, without the estimates that a decision requires.

    Returns:
        The window's state, or None when the decision holds.
    """
    if claimed.decided_on == Shown():
        return None
    shown = shown_of(figures_known(observed, basis=basis, catalogue=catalogue), observed=observed)
    losses = claimed.decided_on.losses(shown)
    if not losses:
        return None
    return return_to_person(
        claimed=claimed, observed=observed, shown=shown, losses=losses, actor=actor, at=at
    )


def finish_window(
    claimed: ClaimedWindow,
    *,
    observed: HourObservation,
    version: int,
    figures: WindowFigures,
    capacity: Sequence[CapacityRow],
    at: datetime,
) -> Collection:
    """Write what a claimed window has in the end, once its rows and findings are written.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    coverage, seen = observed.coverage, observed.observation
    evidence = seen.evidence if seen else ()
    with connection.cursor() as cursor:
        cursor.execute(
            _FINISH,
            {
                "window_id": claimed.id,
                "fence": claimed.fence,
                "blocking": sorted(kind.value for kind in BLOCKING_KINDS),
                "as_of": observed.as_of,
                "sources": json.dumps(_sources(observed)),
                "expected": coverage.expected if coverage else None,
                "observed": coverage.observed if coverage else None,
                "coverage": coverage.ratio if coverage else None,
                **hole_values(observed),
                "hidden": _json(
                    hidden_unit_seconds(figures, capacity=capacity, holes=observed.holes)
                ),
                "is_watched": claimed.hour.is_watched,
                "watch_coverage": observed.watch.ratio if claimed.hour.is_watched else None,
                "reconciliation": json.dumps(
                    reconciliation_of(figures, observed=observed, gap_policy=claimed.gap_policy)
                ),
                "evidence": json.dumps([item.to_json() for item in evidence]),
                "catalogue_version": version,
                "shown": json.dumps(_shown(figures, observed=observed)),
                "records": figures.records,
                "at": at,
            },
        )
        row = cursor.fetchone()
    if row is None:
        raise ClaimLostError("Another worker took the window over.")
    state = WindowState(row[0])
    logger.info(
        "metering.window.collected",
        window_id=claimed.id,
        state=state.value,
        records=figures.records,
        findings=len(figures.findings),
    )
    return Collection(
        window_id=claimed.id,
        state=state,
        records=figures.records,
        unit_seconds=figures.unit_seconds,
        findings=len(figures.findings),
    )


def _shown(figures: WindowFigures, *, observed: HourObservation) -> dict[str, Any]:
    """Return what a person is shown of the hour, if one of its findings blocks it."""
    if not any(kind in BLOCKING_KINDS for kind, _ in figures.findings):
        return {}
    return shown_values(shown_of(figures, observed=observed), evidence=evidence_digests(observed))


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def _sources(observed: HourObservation) -> list[str]:
    """Return the names of the sources that contributed."""
    sources = [observed.observation.source] if observed.observation else []
    return sorted([*sources, *(["kubernetes"] if observed.watch.spans else [])])
