"""What the API reported of pods beside their allocations."""

import pytest

from metering.models import PodAllocation
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import PodState
from metering.selectors.allocations.held import held_units
from metering.selectors.allocations.ledger import refused_pods
from metering.selectors.allocations.watch import BeginDifference, begin_differences
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.states import (
    GPU,
    Watching,
    event,
    lead,
    reported_claim,
    reported_node,
    reported_pod,
    reported_slice,
)
from tests.support.metering.seen import HOUR, moment
from tests.support.shared_rows import shared_rows

HOUR_END = moment(3600)


@shared_rows
def cluster() -> Cluster:
    cluster = make_cluster(metered_from=HOUR, is_watched=True)
    bind(cluster, "team-nlp", make_project(make_organization()))
    return cluster


@pytest.fixture
def watching(cluster: Cluster) -> Watching:
    found = lead(cluster.id)
    found.list(-60, reported_node())
    found.beat(0)
    return found


def impossible(
    uid: str, *, bound: int | None, finished: int | None = None, phase: str = "Running"
) -> PodState:
    """Return a pod that asks for something, and for less than nothing."""
    requests = (
        ContainerRequest("main", ContainerKind.REGULAR, GPU, -1),
        ContainerRequest("main", ContainerKind.REGULAR, "nvidia.com/mig-1g.10gb", 1),
    )
    return reported_pod(uid, requests=requests, bound=bound, finished=finished, phase=phase)


def test_a_request_no_pod_can_have_makes_no_row_and_is_reported(
    cluster: Cluster, watching: Watching
) -> None:
    watching.list(600, impossible("a", bound=5), reported_pod("fine"))

    [found] = refused_pods(cluster.id, HOUR, HOUR_END)
    assert (found.pod_uid, found.namespace, found.pod_name) == ("a", "team-nlp", "pod-a")
    assert (found.requests, found.defects) == ({GPU: "-1"}, ())
    assert (found.begin_at, found.gone_at) == (moment(5), None)
    rows = PodAllocation.objects.order_by("pod_uid").values_list("pod_uid", "resource")
    assert list(rows) == [("a", "nvidia.com/mig-1g.10gb"), ("fine", GPU)]


def test_only_pods_that_held_within_the_hour_are_reported(
    cluster: Cluster, watching: Watching
) -> None:
    watching.list(
        5000,
        impossible("before", bound=-900, finished=-100),
        impossible("until", bound=-900, finished=1),
        impossible("after", bound=3600),
        impossible("waiting", bound=None, phase="Pending"),
    )

    assert [pod.pod_uid for pod in refused_pods(cluster.id, HOUR, HOUR_END)] == ["until"]


def test_a_pod_whose_bind_cannot_be_believed_is_reported_from_its_creation_on(
    cluster: Cluster, watching: Watching
) -> None:
    defects = ("The time of PodScheduled cannot be '9999-01-01T00:00:00Z'.",)
    watching.tell(event(reported_pod(bound=None, node="node-1", defects=defects), 20))
    watching.tell(event(reported_pod(bound=None, node="node-1"), 25))

    [found] = refused_pods(cluster.id, HOUR, HOUR_END)
    assert (found.defects, found.requests, found.begin_at) == (defects, {}, moment(-30))


def test_binds_that_two_sources_tell_otherwise_are_found(
    cluster: Cluster, watching: Watching
) -> None:
    for uid, second in (("differs", 0), ("agrees", 7), ("over", 0)):
        PodAllocation.objects.create(
            cluster=cluster,
            pod_uid=uid,
            resource=GPU,
            namespace="team-nlp",
            pod_name=uid,
            node="node-1",
            units=1,
            begin_at=moment(second),
            end_at=HOUR if uid == "over" else None,
            end_kind="exact" if uid == "over" else "open",
            last_seen_at=moment(30),
        )
    pods = [reported_pod(uid, bound=7) for uid in ("differs", "agrees", "over", "ours")]
    watching.list(600, *pods)

    assert begin_differences(cluster.id, HOUR, HOUR_END) == (
        BeginDifference("differs", GPU, HOUR, moment(7)),
    )


def test_live_use_counts_claims_and_leaves_out_what_has_no_size(watching: Watching) -> None:
    watching.list(1, reported_slice())
    watching.list(2, reported_pod(units=2), reported_pod("b", node="unknown", units=4))
    watching.list(2, reported_claim(devices=["gpu-1-mig-1"]))

    held = [(item.namespace, item.owner, item.size.value, item.units) for item in held_units()]
    assert held == [("team-nlp", "", "small", 1), ("team-nlp", "ada", "large", 2)]
