"""Failed attempts: a source that did not answer, or saw too little, makes a window due again later.

Nothing is concluded from such an answer and no usage is written. What stays incomplete becomes a
gap that a person decides on; it never becomes zero by itself.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import structlog
from django.db import connection, transaction

from metering.domain.crashpoints import crashpoint
from metering.domain.errors import ClaimLostError
from metering.domain.exceptions import ExceptionKind, Finding
from metering.domain.policy import MeteringPolicy, backoff_seconds, is_gap
from metering.domain.window_state import WindowState
from metering.domain.words import percent_words
from metering.selectors.locks import holds_claim
from metering.services.decisions import release_gap
from metering.services.exceptions import write_findings
from metering.services.observing import Sight
from metering.services.reconciliation import coverage_details
from metering.services.windows import ClaimedWindow
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError

logger = structlog.get_logger(__name__)

ERROR_LENGTH_MAX = 1_000
BY_SETTING = "Decided by the settings for every gap."

_RELEASE = """
UPDATE metering_meteringwindow
   SET state = %(state)s, lease_owner = '', lease_until = NULL, attempt = 0,
       failures = failures + 1, not_before = %(not_before)s, last_error = %(error)s,
       as_of = %(as_of)s, expected_ticks = %(expected)s, observed_ticks = %(observed)s,
       coverage = %(coverage)s, watch_coverage = %(watch_coverage)s
 WHERE id = %(window_id)s
"""


@dataclass(frozen=True)
class _Release:
    """How a claim ends without usage."""

    state: WindowState
    finding: Finding
    error: str
    sight: Sight | None


def record_failure(
    *, claimed: ClaimedWindow, error: SourceUnavailableError, at: datetime, policy: MeteringPolicy
) -> WindowState:
    """Release a claim whose source did not answer; it is due again after a pause.

    However long the source is away, the window waits for it: an outage is not a reason to give up.

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
    release = _Release(WindowState.OPEN, finding, error=text, sight=None)
    return _release(claimed, release=release, at=at)


def record_incomplete(
    *, claimed: ClaimedWindow, sight: Sight, actor: Actor, at: datetime, policy: MeteringPolicy
) -> WindowState:
    """Release a claim of which too little was seen; return `open`, or `gap` for a person.

    Where the settings decide on gaps, they do so at once, and it is due again or reconciled empty.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    gap = _is_hopeless(claimed, sight=sight, at=at, policy=policy)
    summary = _incomplete_sentence(sight)
    finding = Finding(
        kind=ExceptionKind.LOW_COVERAGE,
        subject="",
        summary=summary,
        details=coverage_details(sight),
    )
    state = WindowState.GAP if gap else WindowState.OPEN
    release = _Release(state=state, finding=finding, error=summary, sight=sight)
    with transaction.atomic():
        state = _release(claimed, release=release, at=at)
        # What was decided once and still sees too little waits for a person.
        if gap and policy.gap_policy is not None and claimed.gap_policy is None:
            decided = release_gap(
                window_id=claimed.id,
                decision=policy.gap_policy,
                note=BY_SETTING,
                actor=actor,
                at=at,
            )
            state = WindowState(decided.state)
    return state


def _is_hopeless(
    claimed: ClaimedWindow, *, sight: Sight, at: datetime, policy: MeteringPolicy
) -> bool:
    """Whether waiting longer teaches nothing more.

    A watch that is silent since the hour may come back and have lost nothing, so an hour that only
    it can tell of is given up for its age alone.
    """
    waits_for_watch = sight.coverage is None and sight.watch.is_blind_at_end
    failures = 0 if waits_for_watch else claimed.failures + 1
    return is_gap(policy, start_at=claimed.start_at, at=at, failures=failures)


def _incomplete_sentence(sight: Sight) -> str:
    coverage = sight.coverage
    told = []
    if coverage is not None:
        after = ", and none after it" if coverage.is_blind_at_end else ""
        told.append(
            f"{coverage.observed} of {coverage.expected} scrapes took place in this hour{after}."
        )
    if sight.hour.is_watched:
        after = ", and nothing after it" if sight.watch.is_blind_at_end else ""
        told.append(f"The watch saw {percent_words(sight.watch.ratio)} of the hour{after}.")
    return " ".join(told)


def _release(claimed: ClaimedWindow, *, release: _Release, at: datetime) -> WindowState:
    seed = f"{claimed.cluster_id}/{claimed.start_at.isoformat()}"
    wait = backoff_seconds(failures=claimed.failures + 1, seed=seed)
    coverage = release.sight.coverage if release.sight else None
    with transaction.atomic():
        if not holds_claim(claimed.id, fence=claimed.fence):
            raise ClaimLostError("Another worker took the window over.")
        write_findings(
            claimed,
            findings=[release.finding],
            at=at,
            resolve_kinds=[ExceptionKind.SOURCE_UNAVAILABLE, ExceptionKind.LOW_COVERAGE],
        )
        with connection.cursor() as cursor:
            cursor.execute(
                _RELEASE,
                {
                    "window_id": claimed.id,
                    "state": release.state.value,
                    "not_before": at + timedelta(seconds=wait),
                    "error": release.error,
                    "as_of": release.sight.as_of if release.sight else None,
                    "expected": coverage.expected if coverage else None,
                    "observed": coverage.observed if coverage else None,
                    "coverage": coverage.ratio if coverage else None,
                    "watch_coverage": _watch_ratio(release.sight),
                },
            )
        crashpoint("fail.before_commit")
    crashpoint("fail.after_commit")
    logger.warning(
        "metering.window.retried",
        window_id=claimed.id,
        state=release.state.value,
        kind=release.finding.kind.value,
        wait_seconds=wait,
    )
    return release.state


def _watch_ratio(sight: Sight | None) -> Decimal | None:
    return sight.watch.ratio if sight is not None and sight.hour.is_watched else None
