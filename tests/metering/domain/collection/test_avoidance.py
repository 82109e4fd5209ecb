"""Clusters that a worker process leaves to others."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from metering.domain.collection.avoidance import AvoidedClusters
from metering.domain.collection.windows import BACKOFF_SECONDS_MAX

HERE, THERE = UUID(int=1), UUID(int=2)
AT = datetime(2026, 10, 5, 9, tzinfo=UTC)


def test_a_cluster_is_avoided_for_longer_after_each_failure_in_a_row() -> None:
    avoided = AvoidedClusters()

    lasted = []
    for _ in range(2):
        avoided.add(HERE, at=AT)
        seconds = 0
        while avoided.during(AT + timedelta(seconds=seconds)):
            seconds += 1
        lasted.append(seconds)

    assert 30 <= lasted[0] <= 38
    assert 60 <= lasted[1] <= 75


def test_a_cluster_is_never_avoided_for_longer_than_its_longest_pause() -> None:
    avoided = AvoidedClusters()
    for _ in range(20):
        avoided.add(HERE, at=AT)

    assert avoided.during(AT + timedelta(seconds=BACKOFF_SECONDS_MAX - 1)) == [HERE]
    assert avoided.during(AT + timedelta(seconds=2 * BACKOFF_SECONDS_MAX)) == []


def test_a_source_that_answers_again_is_not_avoided_and_its_failures_are_forgotten() -> None:
    avoided = AvoidedClusters()
    for _ in range(3):
        avoided.add(HERE, at=AT)
    avoided.add(THERE, at=AT)

    avoided.remove(HERE)
    avoided.remove(UUID(int=3))

    assert avoided.during(AT) == [THERE]
    avoided.add(HERE, at=AT)
    assert avoided.during(AT + timedelta(seconds=40)) == []
