"""The ends of a recheck: done, postponed because too little was observed, or lapsed for good."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import structlog
from django.db import connection, transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.windows import backoff_seconds
from metering.domain.corrections.correction import RecheckState
from metering.domain.errors import ClaimLostError
from metering.services.collection.observing import HourObservation
from metering.services.corrections.rechecks import ClaimedRecheck

logger = structlog.get_logger(__name__)

ERROR_LENGTH_MAX = 1_000
LAPSED_SENTENCE = "The sources no longer tell of the hour."

_END = """
UPDATE metering_windowrecheck
   SET state = %(state)s, lease_owner = '', lease_until = NULL, attempt = 0,
       failures = failures + %(failed)s, not_before = coalesce(%(not_before)s, not_before),
       queried_at = coalesce(%(queried_at)s, queried_at), last_error = %(error)s,
       evidence = coalesce(%(evidence)s, evidence), outcome = coalesce(%(outcome)s, outcome),
       finished_at = %(finished_at)s
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'checking'
"""


@dataclass(frozen=True)
class Outcome:
    """The result of a recheck.

    Attributes:
        corrections: How many were made, posted or proposed.
        unproven_unit_seconds: How much less is known now without a proof.
        unseen: Records that no source reports any more.
    """

    state: RecheckState = RecheckState.DONE
    corrections: int = 0
    posted_unit_seconds: int = 0
    proposed_unit_seconds: int = 0
    unproven_unit_seconds: int = 0
    unseen: int = 0


def finish(
    *, claimed: ClaimedRecheck, outcome: Outcome, observed: HourObservation, at: datetime
) -> None:
    """Write that a recheck is done; called in the transaction of its corrections.

    Raises:
        ClaimLostError: Another worker took the recheck over.
    """
    found = asdict(outcome)
    del found["state"]
    evidence = observed.observation.evidence if observed.observation else ()
    _end(
        claimed,
        state=RecheckState.DONE,
        finished_at=at,
        queried_at=at,
        found=json.dumps(found),
        evidence=json.dumps([{**asdict(e), "at": e.at.isoformat()} for e in evidence]),
    )


def postpone(*, claimed: ClaimedRecheck, observed: HourObservation, at: datetime) -> Outcome:
    """Make a recheck due again after a pause, because too little was observed.

    Raises:
        ClaimLostError: Another worker took the recheck over.
    """
    wait = backoff_seconds(failures=claimed.failures + 1, seed=f"recheck/{claimed.id}")
    error = str(observed.failure) if observed.failure else "Too little of the hour was seen."
    with transaction.atomic():
        _end(
            claimed,
            state=RecheckState.DUE,
            failed=1,
            not_before=at + timedelta(seconds=wait),
            error=error[:ERROR_LENGTH_MAX],
        )
        crashpoint("recheck.fail.before_commit")
    crashpoint("recheck.fail.after_commit")
    logger.warning("metering.recheck.postponed", window_id=claimed.window_id, reason=error)
    return Outcome(state=RecheckState.DUE)


def lapse(*, claimed: ClaimedRecheck, at: datetime) -> Outcome:
    """End a recheck without a result: the sources no longer keep data of the hour.

    Raises:
        ClaimLostError: Another worker took the recheck over.
    """
    with transaction.atomic():
        _end(claimed, state=RecheckState.LAPSED, finished_at=at, error=LAPSED_SENTENCE)
    logger.error("metering.recheck.lapsed", window_id=claimed.window_id)
    return Outcome(state=RecheckState.LAPSED)


def _end(  # noqa: PLR0913 - A row's columns; all are keyword only.
    claimed: ClaimedRecheck,
    *,
    state: RecheckState,
    failed: int = 0,
    not_before: datetime | None = None,
    queried_at: datetime | None = None,
    error: str = "",
    evidence: str | None = None,
    found: str | None = None,
    finished_at: datetime | None = None,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _END,
            {
                "id": claimed.id,
                "fence": claimed.fence,
                "state": state.value,
                "failed": failed,
                "not_before": not_before,
                "queried_at": queried_at,
                "error": error,
                "evidence": evidence,
                "outcome": found,
                "finished_at": finished_at,
            },
        )
        if cursor.rowcount != 1:
            raise ClaimLostError("Another worker took the recheck over.")
