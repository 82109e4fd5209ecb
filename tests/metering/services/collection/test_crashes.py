"""A worker killed at any commit point loses nothing and doubles nothing."""

from datetime import UTC, datetime

import pytest
from django.db import transaction

from metering.domain.collection.crashpoints import CRASHPOINTS
from metering.models import MeteringWindow, UsageRecord
from tenants.models import AuditEntry
from tests.support.metering.crashing import DEAD, exit_code_of, meter, set_the_stage
from tests.support.metering.ledger import Rows, everything
from tests.support.sampling import sampled

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
OURS = [
    name for name in CRASHPOINTS if not name.startswith(("watch.", "recheck.", "preempt.", "part."))
]
POINTS = [(name, 1) for name in OURS] + [
    (name, 2) for name in OURS if name.startswith(("collect.", "fail.", "seal."))
]


def outcome() -> tuple[Rows, list[tuple[object, ...]]]:
    """Return all that metering left behind, with the audit entries of the seals."""
    entries = AuditEntry.objects.order_by("action", "facts__start_at")
    return everything(), list(entries.values_list("action", "facts"))


def expected_rows() -> tuple[Rows, list[tuple[object, ...]]]:
    """Return what a run that nobody disturbs leaves behind, and take it back."""
    with transaction.atomic():
        set_the_stage()
        meter()
        assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}
        assert UsageRecord.objects.count() == 3
        found = outcome()
        transaction.set_rollback(True)
    return found


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize(("point", "hit"), sampled(POINTS, every=4))
def test_a_worker_killed_at_a_commit_point_changes_nothing_in_the_end(point: str, hit: int) -> None:
    expected = expected_rows()
    set_the_stage()

    assert exit_code_of(meter, point=point, hit=hit) == DEAD
    # The lease of the dead runs out, and another worker does the same work.
    MeteringWindow.objects.filter(state="collecting").update(lease_until=LONG_AGO)
    meter()

    assert outcome() == expected
