"""Hostile set-ups in which an answer is quietly incomplete: no hour is sealed low on one."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.models import MeteringException, MeteringWindow, UsageRecord
from metering.services.corrections.rechecking import recheck_due
from tests.support.usage_source.completeness_setups import (
    BY_NAMESPACE,
    IDLE_GONE,
    MOVED,
    OF_NODES,
    PODS,
    RELABELLED,
    REPLICAS,
    RESHARDED,
    RESHARDED_SHORT,
    RESTARTED,
    SHARD_DOWN,
    SHARD_LEAVES,
    SHARD_LOSES,
    SHARD_NEVER_THERE,
    SKEWS,
    SOUND,
    TWO_OF_EQUAL_NODES,
    TWO_OF_ONE_NAME,
)
from tests.support.usage_source.hostile import (
    HOUR,
    Proxy,
    Row,
    Setup,
    every_other,
    moment,
    proxy_to,
)
from tests.support.usage_source.hostile_cases import (
    accept_gap,
    billed,
    missed,
    observe,
    refusal,
    stage,
    worker_of,
)


@pytest.fixture
def prometheus_url(hostile_history_url: str) -> str:
    return hostile_history_url


@pytest.fixture
def proxy(prometheus_url: str) -> Iterator[Proxy]:
    """Serve a proxy in front of it that damages nothing yet."""
    with proxy_to(prometheus_url) as served:
        yield served


def is_observations(query: str) -> bool:
    return query.startswith("{__name__") and "kube_pod_container_resource_requests" in query


def is_facts(query: str) -> bool:
    return query.startswith("label_replace(group")


def is_counts(query: str) -> bool:
    return query.startswith("label_replace(count(")


def only(kind: Callable[[str], bool]) -> Callable[[str, list[Row]], list[Row]]:
    """Return a damage that takes half the series out of one kind of answer."""
    return lambda query, rows: every_other(rows) if kind(query) else rows


def without_first(query: str, rows: list[Row]) -> list[Row]:
    return rows[1:] if is_observations(query) else rows


def without_bind_times(_: str, rows: list[Row]) -> list[Row]:
    """Of half the pods, the one series that shows when they were bound."""
    return [
        row
        for row in rows
        if row["metric"].get("__name__") != "kube_pod_status_scheduled_time"
        or int(row["metric"]["uid"].removeprefix("uid-")) % 2
    ]


@pytest.mark.parametrize(
    "damage",
    [
        only(is_observations),
        only(is_facts),
        only(is_counts),
        lambda _, rows: every_other(rows),
        lambda query, rows: [] if is_counts(query) else rows,
        lambda *_: [],
        without_first,
        without_bind_times,
    ],
    ids=[
        "half of the samples",
        "half of the facts",
        "half of the counts",
        "half of everything",
        "no counts",
        "nothing at all",
        "one series less",
        "half of the times of bind",
    ],
)
def test_an_answer_that_a_proxy_cut_is_refused(
    proxy: Proxy, damage: Callable[[str, list[Row]], list[Row]]
) -> None:
    whole = observe(SOUND, proxy.url)
    assert len(whole.pods) == len(PODS)

    proxy.damage = damage

    assert refusal(SOUND, proxy.url).reason == "count_differs"


def test_the_refusal_says_what_does_not_add_up(proxy: Proxy) -> None:
    proxy.damage = only(is_observations)

    assert str(refusal(SOUND, proxy.url)) == (
        "Prometheus holds 14 series of requests of pods, offers of nodes and scrapes, but its"
        " answer has 8."
    )


@pytest.mark.parametrize(
    ("setup", "hour", "names"),
    [
        (SHARD_LEAVES, 1, []),
        (SHARD_LEAVES, 3, ["10.0.0.2:8080"]),
        (SHARD_LEAVES, 5, []),
        (SHARD_DOWN, 3, ["10.0.0.2:8080"]),
        (SHARD_NEVER_THERE, 2, ["shard 1 of 2"]),
        (RESTARTED, 1, []),
        (RESTARTED, 2, []),
        (RESTARTED, 4, []),
        (RELABELLED, 2, []),
        (RELABELLED, 3, []),
        (RESHARDED, 2, []),
        (RESHARDED, 3, []),
        (RESHARDED_SHORT, 2, ["all shards of 2 or 3"]),
        (RESHARDED_SHORT, 3, ["shard 2 of 3"]),
        (MOVED, 2, []),
        (IDLE_GONE, 2, []),
        (OF_NODES, 2, []),
        (REPLICAS, 2, []),
        (REPLICAS, 3, []),
    ],
    ids=lambda value: value.slug if isinstance(value, Setup) else str(value),
)
def test_a_target_is_missed_if_nothing_shows_what_it_carried(
    prometheus_url: str, setup: Setup, hour: int, names: list[str]
) -> None:
    assert missed(setup, prometheus_url, hour=hour) == names


def test_the_skew_of_two_clocks_is_measured_and_taken_out(prometheus_url: str) -> None:
    sound = observe(SKEWS[0], prometheus_url)

    ahead, behind, near = (observe(one, prometheus_url) for one in SKEWS[1:4])

    assert (sound.clock_skew_seconds, near.clock_skew_seconds) == (0, 0)
    assert abs(ahead.clock_skew_seconds - 90) <= 10
    assert abs(behind.clock_skew_seconds + 40) <= 10
    lasts = {pod.uid: pod.last_seen_at for pod in sound.pods if pod.uid.startswith("brief")}
    for skewed in (ahead, behind):
        brief = [pod for pod in skewed.pods if pod.uid in lasts]
        assert len(brief) == 12
        for pod in brief:
            assert pod.scheduled_at is not None
            assert pod.scheduled_at <= pod.first_seen_at + timedelta(seconds=10)
            assert abs(pod.last_seen_at - lasts[pod.uid]) <= timedelta(seconds=10)


def test_clocks_that_are_too_far_apart_are_refused(prometheus_url: str) -> None:
    refused = refusal(SKEWS[4], prometheus_url)

    assert refused.reason == "clock_skew"
    assert "ahead of that of the Kubernetes API" in str(refused)
    assert abs(observe(SKEWS[5], prometheus_url).clock_skew_seconds + 200) <= 10


def test_two_clusters_behind_one_selector_are_refused_by_name(prometheus_url: str) -> None:
    pods, nodes = (
        refusal(setup, prometheus_url) for setup in (TWO_OF_ONE_NAME, TWO_OF_EQUAL_NODES)
    )

    assert (pods.reason, nodes.reason) == ("two_clusters", "two_clusters")
    assert "pod team-nlp/pod-uid-" in str(pods)
    assert "node node-1 is shown by 10.0.0.9:8080 and 10.1.0.9:8080" in str(nodes)
    assert len(observe(BY_NAMESPACE, prometheus_url).pods) == 24


def test_prometheus_says_for_how_long_it_remembers(prometheus_url: str) -> None:
    assert PrometheusUsageSource().memory(SOUND.target(prometheus_url)) == timedelta(days=400)


@pytest.mark.django_db
def test_an_hour_is_not_sealed_low_while_a_proxy_cuts_and_is_sealed_whole_afterwards(
    proxy: Proxy,
) -> None:
    meter = stage(SOUND, proxy.url)
    proxy.damage = only(is_observations)

    meter(HOUR + 1800)

    window = MeteringWindow.objects.get()
    assert (window.state, window.failures) == ("open", 1)
    assert not UsageRecord.objects.exists()
    exception = MeteringException.objects.get()
    assert exception.details["reason"] == "count_differs"

    proxy.damage = lambda _, rows: rows
    meter(HOUR + 1900)

    assert billed() == dict.fromkeys((pod.uid for pod in PODS), HOUR)
    assert MeteringWindow.objects.get().state == "sealed"


@pytest.mark.django_db
def test_hours_without_a_shard_wait_and_are_repaired_when_it_is_back(prometheus_url: str) -> None:
    meter = stage(SHARD_LOSES, prometheus_url, first_hour=1)
    truth = {hour: SHARD_LOSES.true_seconds(hour) for hour in range(1, 5)}
    away = {uid for uid in truth[2] if int(uid[4:]) % 2}

    for hour in (2, 3, 4):
        now = (hour + 1) * HOUR + 1800
        meter(now)
        assert accept_gap(at=now) == (hour, "10.0.0.2:8080")
        meter(now + 60)

    assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}
    assert billed(1) == truth[1]
    assert billed(2) == {uid: 1160 if uid in away else HOUR for uid in truth[2]}
    assert billed(3) == {uid: HOUR for uid in truth[3] if uid not in away}
    assert billed(4) == truth[4]

    recheck_due(worker=worker_of(), at=moment(6 * HOUR))

    assert billed(2) == truth[2] | {"uid-101": 1160}
    assert billed(3) == truth[3]
    assert billed(4) == truth[4]


@pytest.mark.django_db
def test_a_pod_that_the_hour_before_shows_is_not_left_out(proxy: Proxy) -> None:
    meter = stage(SOUND, proxy.url)
    meter(HOUR + 1800)

    proxy.damage = without_a_pod
    meter(2 * HOUR + 1800)

    window = MeteringWindow.objects.order_by("start_at").last()
    assert window is not None
    assert (window.state, window.failures) == ("open", 1)
    cause = MeteringException.objects.get(window=window)
    assert cause.details["reason"] == "pods_missing"
    assert "1 pods" in cause.summary
    assert "team-nlp/pod-uid-3" in cause.summary


def without_a_pod(query: str, rows: list[Row]) -> list[Row]:
    """Leave one pod out of everything, and count it nowhere: a store that is away."""
    kept = [row for row in rows if row["metric"].get("uid") != "uid-3"]
    if is_counts(query):
        fewer = {"observations": 1, "facts": 3}
        for row in kept:
            left = int(row["value"][1]) - fewer[row["metric"]["answer"]]
            row["value"] = [row["value"][0], str(left)]
    return kept
