"""Pods that contradict the clock of an answer, or its one cluster: a defect of theirs alone."""

import pytest

from metering.models import MeteringException, MeteringWindow
from metering.protocols import Observation
from tests.support.usage_source.hostile import HOUR, Setup, moment
from tests.support.usage_source.hostile_cases import billed, observe, refusal, stage
from tests.support.usage_source.identity_setups import (
    CREATED_LATE,
    FEW_NEW,
    MANY_LATE,
    STALE_COPY,
    STALE_SET,
    STALE_SHARD,
    STUCK_COPY,
    TWO_OF_ONE_TARGET,
    TWO_WITH_OTHER_NODES,
)


@pytest.fixture
def prometheus_url(hostile_history_url: str) -> str:
    return hostile_history_url


def defects(observed: Observation) -> dict[str, tuple[str, ...]]:
    """Return the sentences on pods that have some."""
    return {pod.uid: pod.defects for pod in observed.pods if pod.defects}


def test_a_wrong_time_of_creation_is_a_defect_of_its_pod_alone(prometheus_url: str) -> None:
    observed = observe(CREATED_LATE, prometheus_url)

    assert observed.clock_skew_seconds == 0
    assert defects(observed) == {
        "wrong-120": ("Its first sample is 80 s before the time of its creation.",),
        "wrong-700": ("Its first sample is 660 s before the time of its creation.",),
    }


def test_one_new_pod_of_two_says_nothing_about_the_clock(prometheus_url: str) -> None:
    observed = observe(FEW_NEW, prometheus_url)

    assert observed.clock_skew_seconds == 0
    assert list(defects(observed)) == ["wrong-700"]


def test_a_minority_of_new_pods_says_nothing_about_the_clock(prometheus_url: str) -> None:
    observed = observe(MANY_LATE, prometheus_url)

    assert observed.clock_skew_seconds == 0
    assert sorted(defects(observed)) == [f"wrong-{number}" for number in range(5)]


@pytest.mark.django_db
def test_an_hour_with_a_wrong_time_of_creation_is_sealed(prometheus_url: str) -> None:
    meter = stage(FEW_NEW, prometheus_url, first_hour=2)

    meter(3 * HOUR + 1800)

    assert MeteringWindow.objects.get(start_at=moment(2 * HOUR)).state == "sealed"
    assert billed(2) == {f"uid-{number}": HOUR for number in range(12)} | {"new": 2700}
    cause = MeteringException.objects.get(state="open")
    assert (cause.kind, cause.subject, cause.held_unit_seconds) == (
        "inconsistent_metrics",
        "wrong-700 nvidia_com_gpu",
        1990,
    )


@pytest.mark.parametrize(
    ("setup", "numbers"),
    [(STALE_COPY, (0,)), (STALE_SET, (0, 1, 2)), (STALE_SHARD, (1, 3)), (STUCK_COPY, (0,))],
    ids=lambda value: value.slug if isinstance(value, Setup) else "",
)
def test_a_pod_that_a_late_exporter_shows_too_long_is_a_defect_of_its_name(
    prometheus_url: str, setup: Setup, numbers: tuple[int, ...]
) -> None:
    found = defects(observe(setup, prometheus_url))

    assert found == {
        f"{one}-{number}": (f"Pod {other}-{number} of the same name is shown at the same time.",)
        for number in numbers
        for one, other in (("old", "new"), ("new", "old"))
    }


@pytest.mark.parametrize(
    "setup", [TWO_WITH_OTHER_NODES, TWO_OF_ONE_TARGET], ids=lambda one: one.slug
)
def test_targets_that_have_nothing_in_common_are_of_two_clusters(
    prometheus_url: str, setup: Setup
) -> None:
    refused = refusal(setup, prometheus_url)

    assert refused.reason == "two_clusters"
    assert "pod team-nlp/pod-uid-" in str(refused)


@pytest.mark.django_db
def test_an_hour_with_a_late_exporter_is_sealed_and_holds_the_new_pod(prometheus_url: str) -> None:
    meter = stage(STALE_COPY, prometheus_url, first_hour=1)

    for hour in (1, 2, 3):
        meter((hour + 1) * HOUR + 1800)

    assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}
    whole = {f"uid-{number}": HOUR for number in range(12)}
    assert {uid: billed(2)[uid] for uid in whole} == whole
    assert billed(3) == whole | {"new-0": HOUR}
    cause = MeteringException.objects.get(state="open", held_unit_seconds__gt=0)
    assert (cause.kind, cause.subject, cause.held_unit_seconds) == (
        "inconsistent_metrics",
        "new-0 nvidia_com_gpu",
        1790,
    )
