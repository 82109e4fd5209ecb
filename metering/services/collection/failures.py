"""Failed attempts: no response, or too little observation, makes a window due again.

An incomplete response is not used and no usage is written. What stays incomplete becomes a gap that
a person decides on; it never becomes zero by itself.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import structlog
from django.db import connection, transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.hour_decisions import END_UNOBSERVED, Shown, shown_values
from metering.domain.collection.scrape_coverage import Hole, united, united_seconds
from metering.domain.collection.windows import (
    GapPolicy,
    MeteringPolicy,
    WindowState,
    backoff_seconds,
    is_gap,
    is_query_final,
)
from metering.domain.corrections.exceptions import REMEDIES, WAITING_KINDS, ExceptionKind, Finding
from metering.domain.errors import ClaimLostError
from metering.domain.figures import percent_text
from metering.models import MeteringWindow
from metering.selectors.collection.windows import is_sealing
from metering.selectors.locks import holds_claim
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.division.composing import figures_known
from metering.services.collection.findings import write_findings
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.observing import HourObservation, basis_of
from metering.services.collection.reconciliation import (
    TARGETS_NAMED_MAX,
    coverage_details,
    evidence_digests,
    hole_values,
    shown_of,
    target_names,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import record

logger = structlog.get_logger(__name__)

ERROR_LENGTH_MAX = 1_000
HOLES_NAMED_MAX = 3
AWAY_REASONS: Final = frozenset({"credentials_missing", "timeout", "tls_failed", "unreachable"})
"""Failures that affect every hour of a source; a timeout may affect one hour only."""
BY_SETTING = "Decided by the settings for every gap."

_RELEASE = """
UPDATE metering_meteringwindow
   SET state = %(state)s, lease_owner = '', lease_until = NULL, attempt = 0,
       failures = failures + 1, not_before = %(not_before)s, last_error = %(error)s,
       as_of = %(as_of)s, expected_ticks = %(expected)s, observed_ticks = %(observed)s,
       coverage = %(coverage)s, watch_coverage = %(watch_coverage)s,
       unobserved_seconds = %(unobserved_seconds)s,
       longest_hole_seconds = %(longest_hole_seconds)s, hidden_unit_seconds_max = NULL,
       scrape_targets = %(scrape_targets)s, shown = %(shown)s,
       gap_policy = CASE WHEN %(state)s = 'gap' THEN '' ELSE gap_policy END,
       decided_on = CASE WHEN %(state)s = 'gap' THEN '{}' ELSE decided_on END,
       accepts_low_coverage = accepts_low_coverage AND %(state)s <> 'gap'
 WHERE id = %(window_id)s
"""
# Hours that failed come a second after those that did not, lest one of them keeps the others from
# ever being tried. Failures count on from hour to hour, so that the pause grows.
_COUNT_ON = """
UPDATE metering_meteringwindow
   SET failures = GREATEST(failures, 1 + COALESCE((
         SELECT max(o.failures) FROM metering_meteringwindow o
          WHERE o.cluster_id = %(cluster_id)s AND o.state = 'open' AND o.id <> %(window_id)s), 0))
 WHERE id = %(window_id)s
RETURNING failures
"""
_PUT_OFF = """
WITH put_off AS (
UPDATE metering_meteringwindow w
   SET not_before = %(until)s + CASE WHEN w.failures > 0 THEN interval '1 s' ELSE interval '0' END,
       last_error = COALESCE(NULLIF(w.last_error, ''), %(summary)s)
  FROM (SELECT id FROM metering_meteringwindow
         WHERE cluster_id = %(cluster_id)s AND not_before <= %(until)s AND (state = 'open'
            OR (state = 'collecting' AND lease_until <= clock_timestamp()))
           FOR NO KEY UPDATE SKIP LOCKED) due
 WHERE w.id = due.id
RETURNING w.id, w.start_at)
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT %(cluster_id)s, p.id, p.start_at, %(kind)s, '', '', %(summary)s, %(remedy)s, 0,
       jsonb_build_object('reason', %(reason)s::text), 'open', %(at)s, ''
  FROM put_off p
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET summary = EXCLUDED.summary, details = EXCLUDED.details, state = 'open', resolved_at = NULL,
       resolved_by_id = NULL, resolution = ''
 WHERE e.state <> 'open'
"""
_NO_HOLES: dict[str, int | str | None] = {
    "unobserved_seconds": None,
    "longest_hole_seconds": None,
    "scrape_targets": "[]",
}


@dataclass(frozen=True)
class _Release:
    """How a claim ends without usage."""

    state: WindowState
    finding: Finding
    error: str
    observed: HourObservation | None
    shown: Mapping[str, Any] = field(default_factory=dict)


def record_failure(
    *, claimed: ClaimedWindow, error: SourceUnavailableError, at: datetime, policy: MeteringPolicy
) -> WindowState:
    """Release a claim whose source did not respond; it is due again after a pause, each time.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    del policy  # The wait after an outage has no limit that a policy sets.
    text = str(error)[:ERROR_LENGTH_MAX]
    finding = Finding(
        kind=ExceptionKind.SOURCE_UNAVAILABLE,
        subject="",
        summary=f"The hour could not be metered: {text}",
        details={"reason": error.reason},
    )
    release = _Release(WindowState.OPEN, finding, error=text, observed=None)
    if error.reason not in AWAY_REASONS or claimed.hour.is_watched:
        return _release(claimed, release=release, at=at)
    with transaction.atomic():
        state = _release(claimed, release=release, at=at)
        if not is_sealing(claimed.cluster_id, at=at):  # Else it is away from this worker only.
            _put_off_due(claimed, finding=finding, at=at)
    return state


def record_incomplete(
    *,
    claimed: ClaimedWindow,
    observed: HourObservation,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
) -> WindowState:
    """Release a claim with too little observation; return `open`, or `gap` for a person.

    Where the settings decide on gaps, they do so at once, and it is due again or reconciled empty.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    gap = is_hopeless(claimed, observed=observed, at=at, policy=policy)
    state = WindowState.GAP if gap else WindowState.OPEN
    with transaction.atomic():
        shown = _shown_values(observed, actor=actor, at=at, policy=policy) if gap else {}
        summary = _incomplete_sentence(observed)
        if gap and claimed.gap_policy is not None:
            now = Shown.from_json(shown)
            summary = f"{_record_returned(claimed, now=now, actor=actor, at=at)} {summary}"
        finding = Finding(
            kind=ExceptionKind.LOW_COVERAGE,
            subject="",
            summary=summary,
            details=coverage_details(observed),
        )
        release = _Release(
            state=state, finding=finding, error=summary, observed=observed, shown=shown
        )
        state = _release(claimed, release=release, at=at)
        # What was decided once and still sees too little waits for a person.
        is_refused = policy.gap_policy is GapPolicy.ACCEPT and shown.get(END_UNOBSERVED)
        if gap and policy.gap_policy and claimed.gap_policy is None and not is_refused:
            decided = decide_window(
                window_id=claimed.id,
                decision=policy.gap_policy,
                note=BY_SETTING,
                actor=actor,
                at=at,
                policy=policy,
            )
            state = WindowState(decided.state)
    return state


def return_to_person(
    *,
    claimed: ClaimedWindow,
    observed: HourObservation,
    shown: Shown,
    losses: Sequence[str],
    actor: Actor,
    at: datetime,
) -> WindowState:
    """Release a claim of which less was observed than a decision was made on; return `gap`.

    The decision no longer holds. The exception records what has changed, and is open whatever was
    resolved before.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    returned = _record_returned(claimed, now=shown, actor=actor, at=at)
    summary = f"{returned} Less is known than when the hour was decided on. {' '.join(losses)}"
    finding = Finding(
        kind=ExceptionKind.LOW_COVERAGE,
        subject="",
        summary=summary,
        details={
            **coverage_details(observed),
            "decided_on": json.dumps(claimed.decided_on.to_json(), sort_keys=True),
        },
    )
    release = _Release(
        state=WindowState.GAP,
        finding=finding,
        error=summary,
        observed=observed,
        shown=shown_values(shown, evidence=evidence_digests(observed)),
    )
    return _release(claimed, release=release, at=at)


def _record_returned(claimed: ClaimedWindow, *, now: Shown, actor: Actor, at: datetime) -> str:
    """Audit that a decision could not be met; return a sentence with the figures of both times."""
    decided_on = MeteringWindow.objects.values_list("decided_on", flat=True).get(id=claimed.id)
    decided_at = str(decided_on.get("decided_at", ""))
    decision = claimed.gap_policy.value if claimed.gap_policy else GapPolicy.ACCEPT.value
    record(
        actor=actor,
        at=at,
        action="metering:window:return",
        object_kind="metering_window",
        object_id=claimed.id,
        facts={
            "cluster": str(claimed.cluster_id),
            "start_at": claimed.start_at.isoformat(),
            "decision": decision,
            "decided_at": decided_at,
            "decided_on": claimed.decided_on.to_json(),
            "shown": now.to_json(),
        },
    )
    of_time = f" of {datetime.fromisoformat(decided_at):%Y-%m-%d %H:%M} UTC" if decided_at else ""
    return (
        f"The decision{of_time} ({decision.replace('_', ' ')}) could not be met: "
        f"{claimed.decided_on.format_known()} when it was made, {now.format_known()} now."
    )


def _shown_values(
    observed: HourObservation, *, actor: Actor, at: datetime, policy: MeteringPolicy
) -> dict[str, Any]:
    """Return what a person is shown of a gap: what accepting it would bill by this observation."""
    basis = basis_of(observed, policy=policy, accepts_low_coverage=True)
    catalogue = ensure_catalogue(actor=actor, at=at)
    figures = figures_known(observed, basis=basis, catalogue=catalogue)
    shown = shown_of(figures, observed=observed)
    is_final = is_query_final(
        policy,
        start_at=observed.hour.start_at,
        as_of=observed.as_of,
        scrape_interval_seconds=observed.hour.target.scrape_interval_seconds,
    )
    return shown_values(
        shown,
        evidence=evidence_digests(observed),
        is_end_unobserved=is_final and not basis.suffices,
    )


def is_hopeless(
    claimed: ClaimedWindow, *, observed: HourObservation, at: datetime, policy: MeteringPolicy
) -> bool:
    """Whether waiting longer cannot help.

    A source that is silent since the hour may return with all data: a watch, or a Prometheus before
    a backup is restored. An hour that only this source covers is abandoned only for its age.
    """
    coverage = observed.coverage
    if coverage is None:
        is_silent = observed.watch.is_blind_at_end
    else:
        is_silent = coverage.observed == 0 and coverage.is_blind_at_end
    failures = 0 if is_silent else claimed.failures + 1
    return is_gap(policy, start_at=claimed.start_at, at=at, failures=failures)


def _incomplete_sentence(observed: HourObservation) -> str:
    """Return how much of an hour was not observed, and by what."""
    holes, coverage, failure = observed.holes, observed.coverage, observed.failure
    names = target_names(holes)
    by_names = f" by {names}" if names else ""
    sentences = ["All of this hour was observed."]
    if holes:
        seconds = united_seconds(holes)
        sentences = [f"{seconds} s of this hour were not observed{by_names}: {_times(holes)}."]
    if failure is not None:
        sentences.append(f"The source gave no usable answer: {str(failure)[:ERROR_LENGTH_MAX]}")
    if coverage is not None and coverage.is_blind_at_end:
        sentences.append("No scrape took place after the hour.")
    elif any(not hole.is_bounded for hole in holes):
        sentences.append("How long that lasted is not known.")
    if coverage is not None and coverage.idle_targets:
        idle = ", ".join(one.name for one in coverage.idle_targets[:TARGETS_NAMED_MAX])
        sentences.append(f"Targets that carried no GPU pod or node do not count: {idle}.")
    if observed.hour.is_watched:
        after = ", and nothing after it" if observed.watch.is_blind_at_end else ""
        sentences.append(
            f"The watch observed {percent_text(observed.watch.ratio)} of the hour{after}."
        )
    return " ".join(sentences)


def _times(holes: Sequence[Hole]) -> str:
    stretches = united(holes)
    parts = [f"{begin:%H:%M:%S} to {end:%H:%M:%S}" for begin, end in stretches[:HOLES_NAMED_MAX]]
    more = len(stretches) - HOLES_NAMED_MAX
    return ", ".join(parts) + (f" and {more} more times" if more > 0 else "") + " UTC"


def _release(claimed: ClaimedWindow, *, release: _Release, at: datetime) -> WindowState:
    seed = f"{claimed.cluster_id}/{claimed.start_at.isoformat()}"
    wait = backoff_seconds(failures=claimed.failures + 1, seed=seed)
    coverage = release.observed.coverage if release.observed else None
    with transaction.atomic():
        if not holds_claim(claimed.id, fence=claimed.fence):
            raise ClaimLostError("Another worker took the window over.")
        write_findings(
            claimed,
            findings=[release.finding],
            at=at,
            resolve_kinds=WAITING_KINDS,
        )
        with connection.cursor() as cursor:
            cursor.execute(
                _RELEASE,
                {
                    "window_id": claimed.id,
                    "state": release.state.value,
                    "not_before": at + timedelta(seconds=wait),
                    "error": release.error,
                    "as_of": release.observed.as_of if release.observed else None,
                    "expected": coverage.expected if coverage else None,
                    "observed": coverage.observed if coverage else None,
                    "coverage": coverage.ratio if coverage else None,
                    "watch_coverage": _watch_ratio(release.observed),
                    **(hole_values(release.observed) if release.observed else _NO_HOLES),
                    "shown": json.dumps(release.shown),
                },
            )
        # What calls this may commit only later, with more.
        transaction.on_commit(lambda: crashpoint("fail.after_commit"))
        crashpoint("fail.before_commit")
    logger.warning(
        "metering.window.retried",
        window_id=claimed.id,
        state=release.state.value,
        kind=release.finding.kind.value,
        wait_seconds=wait,
    )
    return release.state


def _put_off_due(claimed: ClaimedWindow, *, finding: Finding, at: datetime) -> None:
    """Delay all due hours of a cluster, with an exception, while its source is unavailable.

    Each would cost a whole attempt, and a backlog of them would keep other clusters waiting.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_ON, {"cluster_id": claimed.cluster_id, "window_id": claimed.id})
        (failures,) = cursor.fetchone()
        wait = backoff_seconds(failures=failures, seed=str(claimed.cluster_id))
        cursor.execute(
            _PUT_OFF,
            {
                "cluster_id": claimed.cluster_id,
                "until": at + timedelta(seconds=wait),
                "kind": finding.kind.value,
                "summary": finding.summary,
                "remedy": REMEDIES[finding.kind],
                "reason": str(finding.details["reason"]),
                "at": at,
            },
        )


def _watch_ratio(observed: HourObservation | None) -> Decimal | None:
    return observed.watch.ratio if observed is not None and observed.hour.is_watched else None
