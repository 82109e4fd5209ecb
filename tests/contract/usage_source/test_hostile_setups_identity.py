"""Pods that contradict the clock of an answer, or its one cluster: a defect of theirs alone."""

from collections.abc import Iterator

import pytest

from metering.models import MeteringException, MeteringWindow
from metering.protocols import Observation
from tests.contract.usage_source.hostile import HOUR, moment
from tests.contract.usage_source.hostile_cases import billed, observe, running, stage
from tests.contract.usage_source.identity_setups import (
    CREATED_LATE,
    FEW_NEW,
    MANY_LATE,
    SETUPS,
)


@pytest.fixture(scope="module")
def prometheus_url() -> Iterator[str]:
    """Start a real Prometheus that holds the history of every set-up."""
    yield from running(SETUPS)


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
