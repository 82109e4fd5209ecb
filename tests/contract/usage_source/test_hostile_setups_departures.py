"""Exporters that leave service discovery: what they carried is not sealed as if it had ended."""

import pytest

from metering.models import MeteringException, MeteringWindow
from tests.support.usage_source.departure_setups import (
    COPIES_REPLACED,
    HOURS_AFTER,
    IDLE_NODE_LEAVES,
    IDLE_SHARD_LEAVES,
    NAMESPACE_LEAVES,
    NAMESPACE_REPLACED,
    NAMESPACES_ROLLED,
    SHARD_OF_TWO_LEAVES,
    SHARDS_ROLLED,
    WIDER_LEAVES,
)
from tests.support.usage_source.hostile import HOUR, Setup, moment
from tests.support.usage_source.hostile_cases import billed, missed, stage


@pytest.fixture
def prometheus_url(hostile_history_url: str) -> str:
    return hostile_history_url


@pytest.mark.parametrize("hour", [HOURS_AFTER, HOURS_AFTER + 1])
@pytest.mark.parametrize(
    ("setup", "names"),
    [
        (NAMESPACE_LEAVES, ["10.0.0.1:8080"]),
        (NAMESPACE_REPLACED, []),
        (NAMESPACES_ROLLED, ["10.0.0.1:8080"]),
        (WIDER_LEAVES, ["10.0.0.1:8080"]),
        (SHARD_OF_TWO_LEAVES, ["10.0.0.2:8080", "10.0.0.3:8080"]),
        (COPIES_REPLACED, []),
        (SHARDS_ROLLED, ["10.0.0.0:8080"]),
        (IDLE_SHARD_LEAVES, ["10.0.0.2:8080"]),
        (IDLE_NODE_LEAVES, []),
    ],
    ids=lambda value: value.slug if isinstance(value, Setup) else "",
)
def test_a_target_that_left_is_missed_if_no_other_shows_what_it_alone_carried(
    prometheus_url: str, setup: Setup, hour: int, names: list[str]
) -> None:
    assert missed(setup, prometheus_url, hour=hour) == names


@pytest.mark.django_db
@pytest.mark.parametrize("setup", [NAMESPACE_LEAVES, SHARDS_ROLLED], ids=lambda one: one.slug)
def test_hours_after_an_exporter_left_are_not_sealed_low(prometheus_url: str, setup: Setup) -> None:
    meter = stage(setup, prometheus_url, first_hour=HOURS_AFTER)

    for hour in (HOURS_AFTER, HOURS_AFTER + 1):
        meter((hour + 1) * HOUR + 1800)

    windows = MeteringWindow.objects.filter(start_at__gte=moment(HOURS_AFTER * HOUR))
    assert set(windows.values_list("state", flat=True)) == {"gap"}
    causes = MeteringException.objects.filter(state="open", kind="low_coverage")
    assert [cause.details["unobserved_targets"] for cause in causes] == (
        [missed(setup, prometheus_url, hour=HOURS_AFTER)[0]] * 2
    )
    assert billed(HOURS_AFTER) == {}


@pytest.mark.django_db
def test_hours_after_an_exporter_was_replaced_are_sealed_whole(prometheus_url: str) -> None:
    meter = stage(NAMESPACE_REPLACED, prometheus_url, first_hour=HOURS_AFTER)

    meter((HOURS_AFTER + 1) * HOUR + 1800)

    assert MeteringWindow.objects.get().state == "sealed"
    assert billed(HOURS_AFTER) == {f"uid-{number}": HOUR for number in range(12)}
