"""Sweeping rechecks: ask for what is due, claim it and do it, until nothing is left."""

from dataclasses import dataclass
from datetime import datetime

import structlog

from metering.domain.correction import RecheckState
from metering.domain.errors import ClaimLostError
from metering.services.rechecking import recheck_window
from metering.services.rechecks import ClaimedRecheck, claim_rechecks, make_due_rechecks
from metering.services.sweeping import Worker
from tenants.services.turns import run_isolated

logger = structlog.get_logger(__name__)

RECHECKS_MAX = 200_000
"""A sweep that does more rechecks than this does not end for another reason than work."""


@dataclass(frozen=True)
class RecheckSweep:
    """What a sweep did.

    Attributes:
        made: Rechecks asked for.
        done: Rechecks that came to a conclusion, lapsed ones too.
        corrections: Corrections they made.
        postponed: Rechecks that saw too little, due again later.
        failed: Rechecks that raised an unexpected error; their lease runs out.
    """

    made: int = 0
    done: int = 0
    corrections: int = 0
    postponed: int = 0
    failed: int = 0

    def __add__(self, other: "RecheckSweep") -> "RecheckSweep":
        """Return both together."""
        return RecheckSweep(
            made=self.made + other.made,
            done=self.done + other.done,
            corrections=self.corrections + other.corrections,
            postponed=self.postponed + other.postponed,
            failed=self.failed + other.failed,
        )


def recheck_due(*, worker: Worker, at: datetime) -> RecheckSweep:
    """Ask for and do every recheck that is due; return what was done."""
    total = RecheckSweep(made=make_due_rechecks(at=at, policy=worker.policy))
    for _ in range(RECHECKS_MAX):
        sweep = recheck_next(worker=worker, at=at)
        if sweep is None:
            break
        total += sweep
    return total


def recheck_next(*, worker: Worker, at: datetime) -> RecheckSweep | None:
    """Lease the recheck that is due for longest, and do it; return None when none is due."""
    claimed = claim_rechecks(worker=worker.name, limit=1, at=at, policy=worker.policy)
    return recheck_claimed(claimed=claimed[0], worker=worker, at=at) if claimed else None


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
