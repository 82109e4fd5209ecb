"""A worker whose database goes away takes its own hours again as soon as it is back."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from metering.domain.collection.windows import WINDOW
from metering.models import MeteringWindow
from metering.services.collection import sweeping
from metering.services.collection.collecting import Collection
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.division.collecting import collect_claimed
from metering.services.collection.sweeping import CollectionSweep, meter_next
from metering.services.collection.windows import claim_windows
from tenants.selectors.clock import crashes_by_event
from tenants.services import turns
from tests.metering.services.collection.test_prefetched_hours import (
    AT,
    HOURS,
    SEALED,
    UNTOUCHED,
    TogetherSource,
    backlog,
    metering,
    states,
)
from tests.support.metering.seen import HOUR

CUT = HOUR + 2 * WINDOW
LEASED = ("collecting", 1, 1, "worker-1")
CUT_CONNECTIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def cut(superuser_url: str, monkeypatch: pytest.MonkeyPatch) -> list[ClaimedWindow]:
    """Cut every connection when the third hour is first collected; return what was met by it."""
    met: list[ClaimedWindow] = []

    def collect(*, claimed: ClaimedWindow, **given: Any) -> Collection:  # noqa: ANN401
        if claimed.start_at == CUT and not met:
            met.append(claimed)
            with psycopg.connect(superuser_url, autocommit=True) as superuser:
                superuser.execute(CUT_CONNECTIONS)
        return collect_claimed(claimed=claimed, **given)

    monkeypatch.setattr(sweeping, "collect_claimed", collect)
    return met


def test_an_hour_whose_connection_was_cut_is_taken_again_at_once(cut: list[ClaimedWindow]) -> None:
    backlog()
    worker = metering(TogetherSource())

    swept = meter_next(worker=worker, at=AT)

    assert swept == CollectionSweep(sealed=5, failed=1)
    assert states() == [SEALED, SEALED, LEASED, SEALED, SEALED, SEALED, UNTOUCHED, UNTOUCHED]
    assert [one.start_at for one in cut] == [CUT]
    assert crashes_by_event() == {"metering.window.failed": 1}

    assert meter_next(worker=worker, at=AT) == CollectionSweep(sealed=1)
    assert states()[2] == ("sealed", 2, 0, "")
    assert worker.lost == []


def test_hours_left_behind_by_a_database_that_is_away_are_given_up_when_it_is_back(
    cut: list[ClaimedWindow], monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog()
    worker = metering(TogetherSource())

    def count(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as away:
        away.setattr(turns, "count_crash", count)
        with pytest.raises(OperationalError):
            meter_next(worker=worker, at=AT)
    connection.close()  # As Celery does after each task.
    assert states() == [SEALED] * 2 + [LEASED] * 4 + [UNTOUCHED] * 2

    swept = [meter_next(worker=worker, at=AT) for _ in range(5)]

    # Hours that were tried are observed alone, the others together.
    assert swept == [CollectionSweep(sealed=1)] * 4 + [CollectionSweep(sealed=2)]
    assert [state for state, *_ in states()] == ["sealed"] * HOURS
    assert len(cut) == 1


def test_an_hour_that_another_worker_has_by_then_is_left_to_it(
    cut: list[ClaimedWindow], lease_over: Callable[[], None]
) -> None:
    backlog()
    worker = metering(TogetherSource())
    meter_next(worker=worker, at=AT)
    lease_over()
    claim_windows(worker="worker-2", limit=1, at=AT)

    meter_next(worker=worker, at=AT)

    assert len(cut) == 1
    assert states()[2] == ("collecting", 2, 2, "worker-2")


@pytest.fixture
def lease_over() -> Callable[[], None]:
    """Return what lets every lease end now."""

    def end() -> None:
        MeteringWindow.objects.filter(state="collecting").update(lease_until=AT)

    return end
