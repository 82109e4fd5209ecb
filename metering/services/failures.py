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
from metering.selectors.locks import holds_claim
from metering.services.exceptions import write_findings
from metering.services.windows import ClaimedWindow
from tenants.domain.errors import SourceUnavailableError

logger = structlog.get_logger(__name__)

ERROR_LENGTH_MAX = 1_000

_RELEASE = """
UPDATE metering_meteringwindow
   SET state = %(state)s, lease_owner = '', lease_until = NULL, attempt = 0,
       failures = failures + 1, not_before = %(not_before)s, last_error = %(error)s,
       as_of = %(as_of)s, expected_ticks = %(expected)s, observed_ticks = %(observed)s,
       coverage = %(coverage)s
 WHERE id = %(window_id)s
"""


@dataclass(frozen=True)
class Coverage:
    """How much of a window was seen.

    Attributes:
        ratio: Observed of expected scrapes, 0 to 1, rounded down to five digits.
        is_blind_at_end: Whether nothing was seen at or after the window's end.
    """

    expected: int
    observed: int
    ratio: Decimal
    is_blind_at_end: bool


@dataclass(frozen=True)
class _Release:
    """How a claim ends without usage."""

    state: WindowState
    finding: Finding
    error: str
    coverage: Coverage | None
    as_of: datetime | None


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
    release = _Release(WindowState.OPEN, finding, error=text, coverage=None, as_of=None)
    return _release(claimed, release=release, at=at)


def record_incomplete(
    *,
    claimed: ClaimedWindow,
    coverage: Coverage,
    as_of: datetime,
    at: datetime,
    policy: MeteringPolicy,
) -> WindowState:
    """Release a claim of which too little was seen; return `open`, or `gap` for a person.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    failures = claimed.failures + 1
    gap = is_gap(policy, start_at=claimed.start_at, at=at, failures=failures)
    summary = f"{coverage.observed} of {coverage.expected} scrapes took place in this hour" + (
        ", and none after it." if coverage.is_blind_at_end else "."
    )
    finding = Finding(
        kind=ExceptionKind.LOW_COVERAGE,
        subject="",
        summary=summary,
        details={
            "expected": coverage.expected,
            "observed": coverage.observed,
            "coverage": str(coverage.ratio),
        },
    )
    release = _Release(
        state=WindowState.GAP if gap else WindowState.OPEN,
        finding=finding,
        error=summary,
        coverage=coverage,
        as_of=as_of,
    )
    return _release(claimed, release=release, at=at)


def _release(claimed: ClaimedWindow, *, release: _Release, at: datetime) -> WindowState:
    seed = f"{claimed.cluster_id}/{claimed.start_at.isoformat()}"
    wait = backoff_seconds(failures=claimed.failures + 1, seed=seed)
    coverage = release.coverage
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
                    "as_of": release.as_of,
                    "expected": coverage.expected if coverage else None,
                    "observed": coverage.observed if coverage else None,
                    "coverage": coverage.ratio if coverage else None,
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
