"""Collection: ask a source about a claimed window, then write what it saw or why it could not.

The source is asked outside any transaction. What it says is posted in one, while the claim still
holds; a worker that was overtaken writes nothing.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import ROUND_DOWN, Decimal

import structlog
from django.db import connection, transaction

from metering.domain.attribution import directory_of
from metering.domain.crashpoints import crashpoint
from metering.domain.errors import ClaimLostError
from metering.domain.exceptions import BLOCKING_KINDS
from metering.domain.policy import DEFAULT_POLICY, MeteringPolicy, query_time
from metering.domain.timeline import is_blind_at, observed_ticks
from metering.domain.window_state import WindowState
from metering.protocols import Evidence, Observation, UsageSource
from metering.selectors.allocations import known_allocations
from metering.selectors.locks import holds_claim, lock_cluster_ledger
from metering.services.catalogue import ensure_catalogue
from metering.services.checking import check_observation
from metering.services.composition import Composed, WindowInput, compose_window
from metering.services.device_posting import replace_devices
from metering.services.exceptions import write_findings
from metering.services.failures import Coverage, record_failure, record_incomplete
from metering.services.posting import replace_capacity, replace_usage, write_allocations
from metering.services.windows import ClaimedWindow
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.selectors.directory import namespace_directory

logger = structlog.get_logger(__name__)

_COVERAGE_STEP = Decimal("0.00001")

_FINISH = """
UPDATE metering_meteringwindow w
   SET state = CASE WHEN EXISTS (
         SELECT FROM metering_meteringexception e
          WHERE e.window_id = w.id AND e.state = 'open' AND e.kind = ANY(%(blocking)s))
       THEN 'collected' ELSE 'reconciled' END,
       lease_owner = '', lease_until = NULL, attempt = 0, failures = 0, last_error = '',
       as_of = %(as_of)s, sources = %(sources)s, expected_ticks = %(expected)s,
       observed_ticks = %(observed)s, coverage = %(coverage)s, evidence = %(evidence)s,
       catalogue_version = %(catalogue_version)s, record_count = %(records)s, collected_at = %(at)s
 WHERE id = %(window_id)s AND fence = %(fence)s AND state = 'collecting'
RETURNING state
"""


@dataclass(frozen=True)
class Collection:
    """What became of a claimed window.

    Attributes:
        state: `reconciled` when it may be sealed, `collected` while a cause stands against it,
            `open` when it is tried again, `gap` when it waits for a person.
        records: Usage records written.
        unit_seconds: Their sum over all sizes.
        findings: Exceptions that hold now.
    """

    window_id: int
    state: WindowState
    records: int = 0
    unit_seconds: int = 0
    findings: int = 0


def collect_window(
    *,
    claimed: ClaimedWindow,
    source: UsageSource,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> Collection:
    """Meter one claimed window; a source that cannot answer makes it due again later.

    With one source a window that adds up is reconciled as soon as it is collected.

    Raises:
        ClaimLostError: Another worker took the window over; nothing was written.
        ValueError: The window is not due by `at`.
    """
    as_of = query_time(
        policy,
        start_at=claimed.start_at,
        at=at,
        scrape_interval_seconds=claimed.target.scrape_interval_seconds,
        failures=claimed.failures,
    )
    try:
        # No transaction is open here: a slow source must hold no lock.
        observation = source.observe(
            claimed.target, start_at=claimed.start_at, end_at=claimed.end_at, as_of=as_of
        )
        check_observation(observation, claimed=claimed)
    except SourceUnavailableError as error:
        state = record_failure(claimed=claimed, error=error, at=at, policy=policy)
        return Collection(window_id=claimed.id, state=state)
    crashpoint("collect.after_observe")
    coverage = _coverage_of(observation, claimed=claimed)
    if not _is_acceptable(coverage, claimed=claimed, policy=policy):
        state = record_incomplete(
            claimed=claimed, coverage=coverage, as_of=observation.as_of, at=at, policy=policy
        )
        return Collection(window_id=claimed.id, state=state)
    return _post(claimed, observation=observation, coverage=coverage, actor=actor, at=at)


def _coverage_of(observation: Observation, *, claimed: ClaimedWindow) -> Coverage:
    observed = observed_ticks(
        observation.ticks,
        start_at=claimed.start_at,
        end_at=claimed.end_at,
        scrape_interval_seconds=claimed.target.scrape_interval_seconds,
        expected=observation.expected_ticks,
    )
    ratio = Decimal(observed) / Decimal(observation.expected_ticks)
    return Coverage(
        expected=observation.expected_ticks,
        observed=observed,
        ratio=ratio.quantize(_COVERAGE_STEP, rounding=ROUND_DOWN),
        is_blind_at_end=is_blind_at(claimed.end_at, ticks=observation.ticks),
    )


def _is_acceptable(coverage: Coverage, *, claimed: ClaimedWindow, policy: MeteringPolicy) -> bool:
    """Whether enough was seen. Nobody can accept a window whose end nobody saw."""
    if coverage.is_blind_at_end:
        return False
    return claimed.accepts_low_coverage or coverage.ratio >= policy.minimum_coverage


def _post(
    claimed: ClaimedWindow,
    *,
    observation: Observation,
    coverage: Coverage,
    actor: Actor,
    at: datetime,
) -> Collection:
    catalogue = ensure_catalogue(actor=actor, at=at)
    directory = directory_of(
        namespace_directory(claimed.cluster_id, begin_at=claimed.start_at, end_at=claimed.end_at)
    )
    pod_uids = [pod.uid for pod in observation.pods]
    with transaction.atomic():
        if not holds_claim(claimed.id, fence=claimed.fence):
            raise ClaimLostError("Another worker took the window over.")
        lock_cluster_ledger(claimed.cluster_id)
        given = WindowInput(
            observation=observation,
            scrape_interval_seconds=claimed.target.scrape_interval_seconds,
            directory=directory,
            catalogue=catalogue,
            known=known_allocations(claimed.cluster_id, pod_uids=pod_uids),
        )
        composed = compose_window(given)
        write_allocations(
            claimed,
            new=composed.new_allocations,
            seen_again=composed.seen_again,
            pod_uids=pod_uids,
        )
        replace_usage(claimed, rows=composed.usage)
        crashpoint("collect.after_records")
        replace_capacity(claimed, rows=composed.capacity)
        replace_devices(claimed, rows=composed.devices)
        write_findings(claimed, findings=composed.findings, at=at)
        state = _finish(claimed, given=given, coverage=coverage, composed=composed, at=at)
        crashpoint("collect.before_commit")
    crashpoint("collect.after_commit")
    logger.info(
        "metering.window.collected",
        window_id=claimed.id,
        state=state.value,
        records=len(composed.usage),
        findings=len(composed.findings),
    )
    return Collection(
        window_id=claimed.id,
        state=state,
        records=len(composed.usage),
        unit_seconds=sum(row.unit_seconds for row in composed.usage),
        findings=len(composed.findings),
    )


def _finish(
    claimed: ClaimedWindow,
    *,
    given: WindowInput,
    coverage: Coverage,
    composed: Composed,
    at: datetime,
) -> WindowState:
    observation = given.observation
    with connection.cursor() as cursor:
        cursor.execute(
            _FINISH,
            {
                "window_id": claimed.id,
                "fence": claimed.fence,
                "blocking": sorted(kind.value for kind in BLOCKING_KINDS),
                "as_of": observation.as_of,
                "sources": json.dumps([observation.source]),
                "expected": coverage.expected,
                "observed": coverage.observed,
                "coverage": coverage.ratio,
                "evidence": json.dumps([_evidence_values(item) for item in observation.evidence]),
                "catalogue_version": given.catalogue.version,
                "records": len(composed.usage),
                "at": at,
            },
        )
        row = cursor.fetchone()
    if row is None:
        raise ClaimLostError("Another worker took the window over.")
    return WindowState(row[0])


def _evidence_values(evidence: Evidence) -> dict[str, object]:
    return {**asdict(evidence), "at": evidence.at.isoformat()}
