"""The standard scenario: repeatable, growing without change, and no device is held twice."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.demo_tenancy import UNBOUND_NAMESPACE
from simulator.cluster.incidents import (
    ENDS_INSIDE_NAME,
    FINISHES_INSIDE_NAME,
    LIVES_INSIDE_NAME,
    PENDING_NAME,
    REFUSED_NAME,
)
from simulator.cluster.scenario import (
    USER_LABEL,
    ContainerRole,
    Outage,
    Pod,
    PodPhase,
    Scenario,
    SimulatedCluster,
)
from tests.simulator.conftest import MONTH, SEED, UNTIL

MONTH_SECONDS_MAX = 3.0


def pods(scenario: Scenario) -> Iterator[Pod]:
    for cluster in scenario.clusters:
        yield from cluster.pods


def named(scenario: Scenario, name: str) -> Pod:
    (found,) = (pod for pod in pods(scenario) if pod.name == name)
    return found


def test_the_same_seed_makes_the_same_world(scenario: Scenario) -> None:
    assert demo_scenario(SEED, MONTH, UNTIL) == scenario


def test_another_seed_makes_another_world(scenario: Scenario) -> None:
    other = demo_scenario(SEED + 1, MONTH, UNTIL)

    assert {pod.uid for pod in pods(other)}.isdisjoint({pod.uid for pod in pods(scenario)})


@pytest.mark.parametrize("days", [1, 4, 20, 45])
def test_a_later_horizon_adds_pods_and_changes_none(days: int) -> None:
    near = demo_scenario(SEED, MONTH, MONTH + timedelta(days=days))
    far = demo_scenario(SEED, MONTH, MONTH + timedelta(days=days + 9))

    for before, after in zip(near.clusters, far.clusters, strict=True):
        known = [pod for pod in after.pods if pod.created_at < near.until]
        assert tuple(known) == before.pods
        assert len(after.pods) > len(before.pods)


def test_a_month_of_both_clusters_is_made_within_three_seconds() -> None:
    begin = time.perf_counter()

    demo_scenario(SEED, MONTH, MONTH + timedelta(days=31))

    assert time.perf_counter() - begin < MONTH_SECONDS_MAX


def test_about_sixty_pods_hold_devices_at_any_time(scenario: Scenario) -> None:
    alive = [
        sum(len(cluster.pods_alive(MONTH + timedelta(hours=hour))) for cluster in scenario.clusters)
        for hour in range(0, 14 * 24, 7)
    ]

    assert min(alive) >= 50
    assert max(alive) <= 68
    assert 55 <= sum(alive) // len(alive) <= 63


def test_every_time_is_a_whole_second_in_utc(scenario: Scenario) -> None:
    for pod in pods(scenario):
        for at in (
            pod.created_at,
            pod.scheduled_at,
            pod.started_at,
            pod.finished_at,
            pod.rejected_at,
            pod.deletion_requested_at,
            pod.deleted_at,
            pod.helper_finished_at,
        ):
            assert at is None or (at.microsecond == 0 and at.utcoffset() == timedelta(0))


def test_a_life_goes_forward(scenario: Scenario) -> None:
    for pod in pods(scenario):
        known = [
            at
            for at in (
                pod.created_at,
                pod.scheduled_at,
                pod.started_at,
                pod.helper_finished_at,
                pod.finished_at or pod.rejected_at,
                pod.deletion_requested_at,
                pod.deleted_at,
            )
            if at is not None
        ]
        assert known == sorted(known)


def test_uids_are_unique(scenario: Scenario) -> None:
    uids = [pod.uid for pod in pods(scenario)]

    assert len(set(uids)) == len(uids)


def test_no_two_objects_of_one_name_exist_at_once(scenario: Scenario) -> None:
    for cluster in scenario.clusters:
        by_name: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in cluster.pods:
            by_name[pod.namespace, pod.name].append(pod)
        for namesakes in by_name.values():
            for earlier, later in pairwise(sorted(namesakes, key=lambda pod: pod.created_at)):
                assert earlier.deleted_at is not None
                assert earlier.deleted_at <= later.created_at


def stays(cluster: SimulatedCluster) -> Iterator[tuple[Pod, datetime, datetime]]:
    for pod in cluster.pods:
        if pod.truth is not None:
            begin, end = pod.truth
            yield pod, begin, end or UNTIL + timedelta(days=365)


def test_no_device_is_held_twice(scenario: Scenario) -> None:
    for cluster in scenario.clusters:
        held: defaultdict[tuple[str, object], list[tuple[datetime, datetime]]] = defaultdict(list)
        for pod, begin, end in stays(cluster):
            for slot in pod.slots:
                held[pod.node, slot].append((begin, end))
        for intervals in held.values():
            for (_, end), (begin, _) in pairwise(sorted(intervals)):
                assert end <= begin


def test_no_node_ever_gives_more_than_it_has(scenario: Scenario) -> None:
    for cluster in scenario.clusters:
        changes: list[tuple[datetime, int, str, str, int]] = []
        for pod, begin, end in stays(cluster):
            units = max(pod.true_units, _asked(pod))
            changes += [(begin, 1, pod.node, pod.resource, units)]
            changes += [(end, 0, pod.node, pod.resource, -units)]
        used: Counter[tuple[str, str]] = Counter()
        for _, _, node, resource, units in sorted(changes):
            used[node, resource] += units
            assert used[node, resource] <= cluster.node_by_name[node].allocatable[resource]


def _asked(pod: Pod) -> int:
    return sum(
        container.requests.get(pod.resource, 0)
        for container in pod.containers
        if container.kind is not ContainerRole.INIT
    )


def test_devices_belong_to_the_node_and_are_as_many_as_units(scenario: Scenario) -> None:
    for cluster in scenario.clusters:
        for pod in cluster.pods:
            if pod.truth is None:
                continue
            uuids = {gpu.uuid for gpu in cluster.node_by_name[pod.node].gpus}
            assert {slot.gpu_uuid for slot in pod.slots} <= uuids
            if pod.true_size:
                assert len(pod.slots) == pod.true_units


def test_a_mig_pod_holds_an_instance_of_its_profile(hopper: SimulatedCluster) -> None:
    profiles = {
        (gpu.uuid, instance.instance_id): instance.profile
        for node in hopper.nodes
        for gpu in node.gpus
        for instance in gpu.instances
    }
    seen = set()
    for pod in hopper.pods:
        if pod.true_sharing_mode == "mig":
            for slot in pod.slots:
                profile = profiles[slot.gpu_uuid, slot.instance_id]
                assert pod.resource == f"nvidia.com/mig-{profile}"
                assert pod.true_price_group == f"H100/{profile}"
                seen.add(profile)
    assert seen == {"1g.10gb", "2g.20gb", "3g.40gb"}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (
            "hopper",
            {
                ("large", "H100/whole", "whole"),
                ("small", "H100/1g.10gb", "mig"),
                ("medium", "H100/2g.20gb", "mig"),
                ("medium", "H100/3g.40gb", "mig"),
            },
        ),
        (
            "ampere",
            {
                ("small", "A100/1of4", "time-slicing"),
                ("small", "A100/1of4", "mps"),
                ("", "", ""),
            },
        ),
    ],
)
def test_every_kind_of_share_is_there(
    scenario: Scenario, cluster: str, expected: set[tuple[str, str, str]]
) -> None:
    found = {
        (pod.true_size, pod.true_price_group, pod.true_sharing_mode)
        for pod in scenario.cluster(cluster).pods
    }

    assert found == expected


def test_the_owner_is_the_label_and_some_have_none(scenario: Scenario) -> None:
    for pod in pods(scenario):
        assert pod.labels.get(USER_LABEL, "") == pod.owner
    without = [pod for pod in pods(scenario) if not pod.owner]

    assert len(without) > 100


def test_names_are_reused_with_another_uid(scenario: Scenario) -> None:
    counts = Counter(
        (cluster.slug, pod.namespace, pod.name)
        for cluster in scenario.clusters
        for pod in cluster.pods
        if pod.owner_kind == "StatefulSet"
    )

    assert max(counts.values()) >= 5


def test_some_finished_objects_are_kept_for_hours(scenario: Scenario) -> None:
    kept = [
        pod.deleted_at - pod.finished_at
        for pod in pods(scenario)
        if pod.finished_at is not None and pod.deleted_at is not None
    ]

    assert sum(1 for stay in kept if stay > timedelta(hours=2)) > 50
    assert sum(1 for stay in kept if stay < timedelta(minutes=16)) > 1000


def test_there_are_jobs_of_minutes_and_services_of_days(scenario: Scenario) -> None:
    lives = [
        pod.finished_at - pod.started_at
        for pod in pods(scenario)
        if pod.finished_at is not None and pod.started_at is not None
    ]
    services = [
        pod.deleted_at - pod.started_at
        for pod in pods(scenario)
        if pod.owner_kind == "ReplicaSet" and pod.deleted_at and pod.started_at
    ]

    assert sum(1 for life in lives if life < timedelta(minutes=10)) > 50
    assert max(services) > timedelta(days=8)


def test_the_pending_pod_is_never_bound(scenario: Scenario) -> None:
    pod = named(scenario, PENDING_NAME)

    assert (pod.scheduled_at, pod.deleted_at, pod.truth) == (None, None, None)
    assert pod.true_seconds(MONTH, UNTIL) == 0
    assert pod.phase(UNTIL) is PodPhase.PENDING
    assert pod.exists(UNTIL)


def test_the_refused_pod_was_bound_and_costs_nothing(scenario: Scenario) -> None:
    pod = named(scenario, REFUSED_NAME)

    assert pod.scheduled_at is not None
    assert pod.started_at is None
    assert pod.rejected_at is not None
    assert pod.phase(pod.rejected_at) is PodPhase.FAILED
    assert pod.truth is None
    assert pod.true_seconds(MONTH, UNTIL) == 0


def test_the_outage_hides_three_pods_in_three_ways(hopper: SimulatedCluster) -> None:
    (outage,) = hopper.outages
    by_name = {pod.name: pod for pod in hopper.pods}
    ends, lives, finishes = (
        by_name[name] for name in (ENDS_INSIDE_NAME, LIVES_INSIDE_NAME, FINISHES_INSIDE_NAME)
    )

    assert ends.created_at < outage.begin_at
    assert ends.finished_at is None
    assert ends.deleted_at is not None
    assert outage.covers(ends.deleted_at)
    assert outage.covers(lives.created_at)
    assert lives.deleted_at is not None
    assert outage.covers(lives.deleted_at)
    assert outage.covers(finishes.created_at)
    assert finishes.finished_at is not None
    assert outage.covers(finishes.finished_at)
    assert finishes.exists(outage.end_at + timedelta(hours=1))


def test_the_outage_may_be_another_or_none() -> None:
    other = Outage(MONTH + timedelta(hours=5), MONTH + timedelta(hours=6))

    moved = demo_scenario(SEED, MONTH, MONTH + timedelta(days=1), outages=(other,))
    without = demo_scenario(SEED, MONTH, UNTIL, outages=())

    assert moved.cluster("hopper").outages == (other,)
    assert named(moved, LIVES_INSIDE_NAME).created_at >= other.begin_at
    assert without.cluster("hopper").outages == ()
    assert LIVES_INSIDE_NAME not in {pod.name for pod in pods(without)}


def test_an_init_container_beside_a_sidecar_makes_three_units(hopper: SimulatedCluster) -> None:
    staged = [pod for pod in hopper.pods if pod.containers[0].kind is ContainerRole.SIDECAR]

    assert staged
    for pod in staged:
        kinds = [container.kind for container in pod.containers]
        assert kinds[:3] == [ContainerRole.SIDECAR, ContainerRole.INIT, ContainerRole.REGULAR]
        assert pod.true_units == len(pod.slots) == 3


def test_some_helpers_end_before_their_pod(scenario: Scenario) -> None:
    early = [pod for pod in pods(scenario) if pod.helper_finished_at is not None]

    assert len(early) > 20
    for pod in early:
        assert pod.finished_at is not None
        assert pod.helper_finished_at is not None
        assert pod.helper_finished_at < pod.finished_at
        assert len(pod.containers) > 1


def test_three_organizations_have_eight_projects(scenario: Scenario) -> None:
    assert [one.slug for one in scenario.organizations] == ["northwind", "contoso", "fabrikam"]
    assert sum(len(one.projects) for one in scenario.organizations) == 8
    assert {(one.billing_currency, one.time_zone) for one in scenario.organizations} == {
        ("EUR", "Europe/Berlin"),
        ("EUR", "UTC"),
        ("USD", "UTC"),
    }


def test_every_namespace_but_one_belongs_to_a_project(scenario: Scenario) -> None:
    used = {(cluster.slug, pod.namespace) for cluster in scenario.clusters for pod in cluster.pods}

    assert used - scenario.bindings.keys() == {("hopper", UNBOUND_NAMESPACE)}
    assert scenario.bindings.keys() <= used
    for cluster in scenario.clusters:
        assert {name for slug, name in used if slug == cluster.slug} == {
            namespace.name for namespace in cluster.namespaces
        }


def test_the_default_owner_is_somebody_of_the_organization(scenario: Scenario) -> None:
    for organization in scenario.organizations:
        people = {person.username for person in organization.people}
        for project in organization.projects:
            for place in project.namespaces:
                assert place.default_owner in people | {""}
