"""A watch killed at any commit point loses nothing and doubles nothing."""

import pytest
from django.db import transaction
from django.db.models import Model

from metering.domain.collection.crashpoints import CRASHPOINTS
from metering.models import (
    ClaimConsumer,
    ClusterWatch,
    NodeRecord,
    OfferedDevice,
    PodAllocation,
    QueuedPod,
    WatchCursor,
    WatchSpan,
)
from tests.support.metering.allocations.states import ends
from tests.support.metering.allocations.watch_crashing import set_the_stage, watch
from tests.support.metering.crashing import DEAD, exit_code_of
from tests.support.metering.seen import HOUR
from tests.support.sampling import sampled

POINTS = [(name, 1) for name in CRASHPOINTS if name.startswith("watch.")]
# The third list is that of the pods, the first that is staged; the last one ends what is gone.
POINTS += [
    ("watch.list.after_page", 4),
    ("watch.list.before_commit", 3),
    ("watch.list.before_commit", 5),
    # The last list began anew; anyone who beats next has to tell of the hole before it.
    ("watch.list.after_commit", 5),
    ("watch.events.before_commit", 3),
    ("watch.events.after_commit", 3),
]
TABLES: tuple[type[Model], ...] = (
    PodAllocation,
    QueuedPod,
    NodeRecord,
    OfferedDevice,
    ClaimConsumer,
    WatchCursor,
    WatchSpan,
)


LABELS = {"label_set": "label_set__digest"}
"""What stands for a surrogate key."""


def outcome() -> dict[str, list[tuple[object, ...]]]:
    """Return every row the watch left, without surrogate keys."""
    return {
        table.__name__: sorted(
            table._default_manager.values_list(  # noqa: SLF001 - Django's documented model meta.
                *(LABELS.get(f.name, f.attname) for f in table._meta.fields if f.name != "id")  # noqa: SLF001 - As above.
            ),
            key=repr,
        )
        for table in TABLES
    }


def expected_rows() -> dict[str, list[tuple[object, ...]]]:
    """Return what a watch that nobody disturbs leaves, and take it back."""
    with transaction.atomic():
        set_the_stage()
        watch("first")
        assert ends() == [
            ("a", 0, 40, "vanished", 0),
            ("b", 0, 20, "exact", 0),
            ("c", 30, None, "open", 0),
            ("claim-1", -60, 45, "vanished", 0),
            ("d", 0, 30, "vanished_in_gap", 3570),
            ("strange", 0, 30, "vanished_in_gap", 3570),
        ]
        assert [span.is_resumed for span in WatchSpan.objects.all()] == [False, False]
        found = outcome()
        transaction.set_rollback(True)
    return found


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize(("point", "hit"), sampled(POINTS, every=4))
def test_a_watch_killed_at_a_commit_point_changes_nothing_in_the_end(point: str, hit: int) -> None:
    expected = expected_rows()
    set_the_stage()

    assert exit_code_of(lambda: watch("first"), point=point, hit=hit) == DEAD
    # The lease of the dead runs out, and another process goes on from the kept versions.
    ClusterWatch.objects.update(lease_until=HOUR.replace(year=2020))
    watch("second")

    assert outcome() == expected
