"""Parts of a divided window: made, leased one at a time, and taken back with the division.

A divided window stays open and due, so that workers find it in the order of all windows. Who claims
it takes a part that is free, and gives the window back for the others. With no part left it does
the window's next step itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Final

from django.db import connection, transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.parts import Part, PartState
from metering.domain.collection.windows import MeteringPolicy
from metering.domain.errors import ClaimLostError
from metering.models import MeteringWindow, WindowDivision, WindowPart
from metering.selectors.locks import holds_claim
from metering.services.collection.composed import ClaimedWindow


@dataclass(frozen=True)
class ClaimedPart:
    """A part that a worker may observe or post while its fence and lease hold.

    Attributes:
        window: The window; others may claim it meanwhile.
    """

    id: int
    window: ClaimedWindow
    pods: Part
    fence: int


class NoPart(Enum):
    """Why no part was leased."""

    AWAY = "away"
    """Others work on the rest; the window is open again."""
    DONE = "done"
    """All parts are done; the window stays claimed for its next step."""


# The free part is chosen once: a subquery in FROM may be executed again for each row that it is
# joined with, and skips what the statement has leased already.
_LEASE: Final = """
WITH free AS MATERIALIZED (
  SELECT id FROM metering_windowpart
   WHERE division_id = %(window_id)s
     AND (state = 'due' OR (state = 'leased' AND lease_until <= clock_timestamp()))
   ORDER BY attempt, pods
   LIMIT 1
     FOR UPDATE SKIP LOCKED)
UPDATE metering_windowpart p
   SET state = 'leased', fence = p.fence + 1, attempt = p.attempt + 1, lease_owner = %(worker)s,
       lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
  FROM free WHERE p.id = free.id
RETURNING p.id, p.pods, p.fence
"""
# While no part is free the window is due again when the first lease ends. Leases of parts that were
# lost count as those of the window, so that it is quarantined after as many.
_GIVE_BACK: Final = """
UPDATE metering_meteringwindow w
   SET state = 'open', lease_owner = '', lease_until = NULL, attempt = parts.lost,
       not_before = CASE WHEN parts.free THEN d.not_before
                         ELSE GREATEST(d.not_before, parts.until) END
  FROM metering_windowdivision d, (
        SELECT COALESCE(max(attempt - 1) FILTER (WHERE attempt > 0), 0) AS lost,
               bool_or(state = 'due' OR (state = 'leased' AND lease_until <= clock_timestamp()))
                 OR bool_and(state = 'done') AS free,
               min(lease_until) AS until
          FROM metering_windowpart WHERE division_id = %(window_id)s) parts
 WHERE w.id = %(window_id)s AND d.window_id = w.id
"""
_REPORT: Final = """
UPDATE metering_meteringwindow w
   SET not_before = d.not_before
  FROM metering_windowdivision d
 WHERE w.id = %(window_id)s AND d.window_id = w.id AND w.state = 'open'
"""


def divide(
    claimed: ClaimedWindow,
    *,
    parts: Sequence[Part],
    as_of: datetime,
    frame: bytes | None,
    at: datetime,
) -> None:
    """Divide a claimed window and give it back.

    Args:
        claimed: The window.
        parts: The parts; every uid is in one of them.
        as_of: The time of all questions to the source.
        frame: What was observed but the pods; None when only the ledger covers the hour, so that
            there is nothing to observe.
        at: When.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    state = PartState.DONE if frame is None else PartState.DUE
    with transaction.atomic():
        require_claim(claimed)
        division = WindowDivision.objects.create(
            window_id=claimed.id,
            as_of=as_of,
            not_before=MeteringWindow.objects.values_list("not_before", flat=True).get(
                id=claimed.id
            ),
            failures=claimed.failures,
            frame=frame,
            created_at=at,
        )
        WindowPart.objects.bulk_create(
            WindowPart(division=division, pods=part.text, state=state.value) for part in parts
        )
        give_back(claimed)
        crashpoint("part.divide.before_commit")
    crashpoint("part.divide.after_commit")


def lease_part(
    claimed: ClaimedWindow, *, worker: str, policy: MeteringPolicy
) -> ClaimedPart | NoPart:
    """Lease a part that is free and give the window back.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    values: dict[str, int | str] = {
        "window_id": claimed.id,
        "worker": worker[:64],
        "lease": policy.lease_seconds,
    }
    with transaction.atomic():
        require_claim(claimed)
        with connection.cursor() as cursor:
            cursor.execute(_LEASE, values)
            row = cursor.fetchone()
        is_away = row is None and _are_parts_away(claimed.id)
        if row is not None or is_away:
            give_back(claimed)
        crashpoint("part.lease.before_commit")
    crashpoint("part.lease.after_commit")
    if row is None:
        return NoPart.AWAY if is_away else NoPart.DONE
    part_id, pods, fence = row
    return ClaimedPart(part_id, claimed, Part(pods), fence)


def _are_parts_away(window_id: int) -> bool:
    parts = WindowPart.objects.filter(division_id=window_id)
    return parts.exclude(state=PartState.DONE.value).exists()


def give_back(claimed: ClaimedWindow) -> None:
    """Let others claim a divided window; its claim must be held."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_BACK, {"window_id": claimed.id})


def require_claim(claimed: ClaimedWindow) -> None:
    """Lock a claimed window.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    if not holds_claim(claimed.id, fence=claimed.fence):
        raise ClaimLostError("Another worker took the window over.")


def finish_part(
    part: ClaimedPart, *, found: bytes, observed: bytes | None, crash_name: str
) -> None:
    """Write what became of a part, in the transaction that locked it."""
    WindowPart.objects.filter(id=part.id).update(
        state=PartState.DONE.value,
        attempt=0,
        lease_owner="",
        lease_until=None,
        found=found,
        observed=observed,
    )
    crashpoint(f"part.{crash_name}.before_commit")


def report_part(part: ClaimedPart, *, crash_name: str) -> None:
    """Make the window due again, after the commit of a part: it may have been the last one.

    If the worker dies before it, the window is due when the first lease ends.
    """
    crashpoint(f"part.{crash_name}.after_commit")
    with connection.cursor() as cursor:
        cursor.execute(_REPORT, {"window_id": part.window.id})


_CLAIM_BACK: Final = """
UPDATE metering_meteringwindow
   SET state = 'collecting', fence = fence + 1,
       lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
 WHERE id = %(window_id)s AND state = 'open'
RETURNING fence, failures
"""
_FREE: Final = """
UPDATE metering_windowpart
   SET state = 'due', attempt = 0, lease_owner = '', lease_until = NULL
 WHERE id = %(part_id)s AND fence = %(fence)s AND state = 'leased'
"""


_PUT_OFF: Final = """
UPDATE metering_windowdivision d SET not_before = w.not_before
  FROM metering_meteringwindow w WHERE w.id = %s AND d.window_id = w.id
"""


def claim_back(part: ClaimedPart, *, policy: MeteringPolicy) -> ClaimedWindow | None:
    """Give a part back and claim its window instead; call it in a transaction.

    Returns:
        The claim; None while another worker holds the window, which counts as a claim of its own.

    Raises:
        ClaimLostError: Another worker took the part over.
    """
    values = {"window_id": part.window.id, "lease": policy.lease_seconds}
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_BACK, values)
        row = cursor.fetchone()
        cursor.execute(_FREE, {"part_id": part.id, "fence": part.fence})
        if cursor.rowcount == 0:
            raise ClaimLostError("Another worker took the part over.")
    if row is None:
        return None
    fence, failures = row
    return replace(part.window, fence=fence, failures=failures)


def put_off(window_id: int) -> None:
    """Let the pause of a window after a failure hold for all its parts."""
    with connection.cursor() as cursor:
        cursor.execute(_PUT_OFF, [window_id])


def take_back(claimed: ClaimedWindow) -> None:
    """Take the division of a claimed window back.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    with transaction.atomic():
        require_claim(claimed)
        dissolve([claimed.id])


_DISSOLVE: Final = """
WITH gone AS (DELETE FROM metering_windowpart WHERE division_id = ANY(%(ids)s))
DELETE FROM metering_windowdivision WHERE window_id = ANY(%(ids)s)
"""


def dissolve(window_ids: Sequence[int]) -> None:
    """Take divisions back; what parts posted is replaced when their window is metered.

    Waits for parts that are just being posted.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DISSOLVE, {"ids": list(window_ids)})
