"""The simulated source returns what scrapes show: observations, outages and whole seconds."""

from datetime import UTC, datetime, timedelta

import pytest

from metering.adapters import usage_source
from metering.protocols import (
    ClusterTarget,
    ContainerKind,
    DeviceFigures,
    Observation,
    PodObservation,
    UsageSource,
)
from simulator.adapters.usage_source import SimulatedUsageSource
from simulator.cluster.incidents import (
    ENDS_INSIDE_NAME,
    FINISHES_INSIDE_NAME,
    LIVES_INSIDE_NAME,
    PENDING_NAME,
    REFUSED_NAME,
)
from tenants.domain.errors import SourceUnavailableError

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
BACKEND = "simulator.adapters.usage_source.SimulatedUsageSource"
SCRAPE = timedelta(seconds=120)


@pytest.fixture(scope="module")
def source() -> UsageSource:
    return SimulatedUsageSource(seed=5, month_start=MONTH)


def observe(
    source: UsageSource, hours: float, slug: str = "hopper", *, later: timedelta | None = None
) -> Observation:
    return source.observe(target_of(slug), **asked(hours, later))


def observe_devices(
    source: UsageSource, hours: float, slug: str = "hopper", *, later: timedelta | None = None
) -> DeviceFigures:
    return source.observe_devices(target_of(slug), **asked(hours, later))


def target_of(slug: str) -> ClusterTarget:
    return ClusterTarget(
        slug=slug, scrape_interval_seconds=120, user_label="billing_example_com_user"
    )


def asked(hours: float, later: timedelta | None) -> dict[str, datetime]:
    """Return an hour of the month, and when it is asked about."""
    start_at = MONTH + timedelta(hours=hours)
    end_at = start_at + timedelta(hours=1)
    as_of = end_at + (later or timedelta(minutes=15))
    return {"start_at": start_at, "end_at": end_at, "as_of": as_of}


def named(observation: Observation, name: str) -> PodObservation | None:
    return next((pod for pod in observation.pods if pod.name == name), None)


def test_a_setting_makes_it_from_plain_values() -> None:
    options = {"seed": 5, "month_start": "2026-10-01T00:00:00+00:00"}

    made = usage_source({"BACKEND": BACKEND, "OPTIONS": options})

    assert observe(made, 30) == observe(SimulatedUsageSource(seed=5, month_start=MONTH), 30)


def test_a_whole_hour_has_its_scrapes_and_some_on_both_sides(source: UsageSource) -> None:
    seen = observe(source, 30)

    inside = [at for at in seen.ticks if seen.start_at <= at < seen.end_at]
    assert len(inside) == seen.expected_ticks == 30
    assert seen.ticks[0] < seen.start_at
    assert seen.ticks[-1] > seen.end_at
    assert seen.source == "simulated"


def test_asking_again_much_later_shows_the_same(source: UsageSource) -> None:
    soon, late = observe(source, 30), observe(source, 30, later=timedelta(days=20))

    assert (soon.pods, soon.nodes) == (late.pods, late.nodes)
    soon_devices = observe_devices(source, 30)
    assert soon_devices == observe_devices(source, 30, later=timedelta(days=20))


def test_pods_are_distinguished_by_uid_in_order(source: UsageSource) -> None:
    uids = [pod.uid for pod in observe(source, 30).pods]

    assert uids == sorted(set(uids))
    assert len(uids) > 25


def test_observations_are_ticks(source: UsageSource) -> None:
    seen = observe(source, 30)

    for pod in seen.pods:
        assert {pod.first_seen_at, pod.last_seen_at} <= set(seen.ticks)
        assert pod.first_seen_at <= pod.last_seen_at


def test_an_end_is_known_only_when_it_was_seen(source: UsageSource) -> None:
    for hours in range(24, 60, 4):
        for pod in observe(source, hours).pods:
            if pod.finished_at is not None:
                assert pod.terminal_seen_at is not None
                assert pod.finished_at <= pod.terminal_seen_at <= pod.last_seen_at


def test_a_node_is_reported_with_the_bind_and_its_labels_with_the_node(source: UsageSource) -> None:
    for pod in observe(source, 30).pods:
        assert bool(pod.node) == (pod.scheduled_at is not None) == bool(pod.node_labels)
        if pod.node:
            assert pod.node_labels["kubernetes_io_hostname"] == pod.node


def test_the_pending_pod_is_seen_unbound(source: UsageSource) -> None:
    pod = named(observe(source, 24 * 5), PENDING_NAME)

    assert pod is not None
    assert (pod.node, pod.scheduled_at, pod.finished_at) == ("", None, None)
    assert [request.units for request in pod.requests] == [8]


def test_the_refused_pod_is_terminal_without_an_end(source: UsageSource) -> None:
    pod = named(observe(source, 24 * 4 + 10, "ampere"), REFUSED_NAME)

    assert pod is not None
    assert pod.scheduled_at is not None
    assert pod.finished_at is None
    assert pod.terminal_seen_at is not None


def test_an_outage_takes_ticks_and_what_lived_inside(source: UsageSource) -> None:
    hour = 24 * 10 + 14
    seen = observe(source, hour)

    inside = [at for at in seen.ticks if seen.start_at <= at < seen.end_at]
    ended, kept = named(seen, ENDS_INSIDE_NAME), named(seen, FINISHES_INSIDE_NAME)
    assert len(inside) < seen.expected_ticks - 10
    assert named(seen, LIVES_INSIDE_NAME) is None
    assert ended is not None
    assert ended.finished_at is None
    assert ended.last_seen_at < MONTH + timedelta(hours=hour, minutes=10)
    assert kept is not None
    assert kept.finished_at is not None
    assert kept.finished_at < kept.first_seen_at


def test_covered_seconds_leave_the_outage_out(source: UsageSource) -> None:
    whole = observe(source, 30)
    torn = observe(source, 24 * 10 + 14)

    assert {node.covered_seconds for node in whole.nodes} == {3600}
    (covered,) = {node.covered_seconds for node in torn.nodes}
    assert 3600 - 27 * 60 <= covered <= 3600 - 22 * 60


def test_nodes_offer_sanitised_gpu_resources_alone(source: UsageSource) -> None:
    offered = {node.node: dict(node.allocatable) for node in observe(source, 30).nodes}

    assert offered["hopper-mig-1"] == {
        "nvidia_com_gpu": 2,
        "nvidia_com_mig_1g_10gb": 8,
        "nvidia_com_mig_2g_20gb": 1,
        "nvidia_com_mig_3g_40gb": 1,
    }
    assert list(offered) == sorted(offered)


def test_requests_say_their_kind_and_not_their_order(source: UsageSource) -> None:
    staged = [pod for pod in observe(source, 30).pods if len(pod.requests) == 3]

    (pod,) = staged
    assert [(one.container, one.kind, one.units, one.order) for one in pod.requests] == [
        ("trainer", ContainerKind.REGULAR, 1, None),
        ("metrics-sidecar", ContainerKind.SIDECAR, 1, None),
        ("warmup", ContainerKind.INIT, 2, None),
    ]


def test_the_owner_is_the_clusters_label_or_nothing(source: UsageSource) -> None:
    labelled = observe(source, 30)
    bare = source.observe(
        ClusterTarget(slug="hopper", scrape_interval_seconds=120),
        start_at=labelled.start_at,
        end_at=labelled.end_at,
        as_of=labelled.end_at + SCRAPE * 4,
    )

    assert {pod.owner for pod in bare.pods} == {""}
    assert "mei" in {pod.owner for pod in labelled.pods}
    assert "" in {pod.owner for pod in labelled.pods}


def test_devices_run_without_overlap_and_fill_the_hour(source: UsageSource) -> None:
    seen = observe_devices(source, 30)

    spent: dict[tuple[str, str], timedelta] = {}
    for device in seen.devices:
        key = (device.uuid, device.instance_id)
        spent[key] = spent.get(key, timedelta()) + (device.end_at - device.begin_at)
    assert set(spent.values()) == {timedelta(hours=1)}
    assert len(spent) == 16 + 4 + 9 + 1 + 9


def test_instances_have_no_energy_and_whole_gpus_do(source: UsageSource) -> None:
    for device in observe_devices(source, 30).devices:
        assert (device.energy_millijoules is None) == bool(device.instance_id)


def test_a_shared_device_names_nobody_when_its_resource_is_renamed(source: UsageSource) -> None:
    devices = observe_devices(source, 30, "ampere").devices

    assert {one.pod for one in devices if one.node == "ampere-slice-2"} == {""}
    assert all(one.pod for one in devices if one.node == "ampere-slice-1")


def test_an_unknown_cluster_is_unavailable(source: UsageSource) -> None:
    with pytest.raises(SourceUnavailableError) as caught:
        observe(source, 30, "turing")

    assert caught.value.reason == "bad_target"


@pytest.mark.parametrize("late", [timedelta(0), SCRAPE, SCRAPE * 2 - timedelta(seconds=1)])
def test_a_window_that_has_not_settled_is_not_asked_for(
    source: UsageSource, late: timedelta
) -> None:
    target = ClusterTarget(slug="hopper", scrape_interval_seconds=120)
    end_at = MONTH + timedelta(hours=2)

    with pytest.raises(ValueError, match="two scrapes ago"):
        source.observe(
            target, start_at=end_at - timedelta(hours=1), end_at=end_at, as_of=end_at + late
        )


def test_the_evidence_is_a_digest_that_repeats(source: UsageSource) -> None:
    first, second = observe(source, 30).evidence, observe(source, 30).evidence

    assert first == second
    assert len(first[0].sha256) == 64
    assert observe(source, 31).evidence[0].sha256 != first[0].sha256
