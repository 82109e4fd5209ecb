"""What a pod held is snapshotted at its bind, and only what was open is settled later."""

import pytest
from django.db import DatabaseError, connection, transaction
from pytest_django import Settings

from metering.domain.catalogue.sizing import Rule, rule_to_json, rules_digest
from metering.domain.catalogue.units import GPUSize
from metering.models import CatalogueVersion, NodeLabelSet, PodAllocation
from metering.services.allocations.sizing import settle_everywhere, settle_sizes
from tenants.models import AuditEntry, Cluster, Project
from tests.support.builders import bind, make_organization, make_project
from tests.support.metering.allocations.states import (
    H100,
    Watching,
    deleted,
    event,
    reported_node,
    reported_pod,
)
from tests.support.metering.allocations.watched import label_set
from tests.support.metering.seen import ACTOR, HOUR, moment

SNAPSHOT = ("node", "owner", "controller", "priority_class", "priority", "source", "project_id")
SIZE = ("size", "price_group", "sharing_mode", "product", "share_numerator", "share_denominator")
UNKNOWN = ("", "", "", "", 1, 1)
WHOLE = ("large", "H100/whole", "whole", "NVIDIA-H100-80GB-HBM3", 1, 1)


def size() -> tuple[object, ...]:
    found: tuple[object, ...] = PodAllocation.objects.values_list(*SIZE).get()
    return found


def test_a_bind_is_snapshotted_whole(watching: Watching, project: Project) -> None:
    watching.tell(event(reported_pod(), 5))

    row = PodAllocation.objects.get()
    assert PodAllocation.objects.values_list(*SNAPSHOT).get() == (
        "node-1",
        "ada",
        "Job/train",
        "batch",
        10,
        "kubernetes",
        project.id,
    )
    assert size() == WHOLE
    assert (row.catalogue_version, row.node_labels) == (1, H100)
    assert row.started_at == moment(20)


def test_a_later_observation_changes_no_snapshot(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    before = PodAllocation.objects.values(*SNAPSHOT, *SIZE, "begin_at").get()

    watching.tell(event(reported_node(labels={**H100, "nvidia.com/gpu.replicas": "4"}), 9))
    watching.tell(
        event(reported_pod(bound=8, owner="bob", priority_class="", priority=1, controller=""), 10)
    )

    assert PodAllocation.objects.values(*SNAPSHOT, *SIZE, "begin_at").get() == before


def test_what_a_preemptible_pod_holds_has_a_price_group_of_its_own(watching: Watching) -> None:
    watching.tell(
        event(reported_pod("a", priority_class="gpu-ledger-burst"), 5),
        event(reported_pod("b", priority_class="batch"), 5),
    )

    groups = PodAllocation.objects.order_by("pod_uid").values_list("size", "price_group")
    assert list(groups) == [("large", "H100/whole/burst"), ("large", "H100/whole")]


def test_a_class_that_becomes_preemptible_later_changes_no_snapshot(
    watching: Watching, settings: Settings
) -> None:
    watching.tell(event(reported_pod("a"), 5))
    settings.BURST_PRIORITY_CLASSES = ["batch"]
    watching.tell(event(reported_pod("a"), 6), event(reported_pod("b"), 6))

    groups = PodAllocation.objects.order_by("pod_uid").values_list("price_group", flat=True)
    assert list(groups) == ["H100/whole", "H100/whole/burst"]


def test_without_preemptible_classes_nothing_is_burst(
    watching: Watching, settings: Settings
) -> None:
    settings.BURST_PRIORITY_CLASSES = []
    watching.tell(event(reported_pod("a", priority_class="gpu-ledger-burst"), 5))

    assert size() == WHOLE


def test_a_preemptible_pod_that_is_sized_late_keeps_its_ending(watching: Watching) -> None:
    watching.tell(event(reported_pod(node="node-9", priority_class="gpu-ledger-burst"), 5))
    assert size() == UNKNOWN

    watching.tell(event(reported_node("node-9"), 10))
    settle_everywhere(actor=ACTOR, at=HOUR)

    assert size() == ("large", "H100/whole/burst", *WHOLE[2:])


def test_the_project_is_that_of_the_bind(cluster: Cluster, watching: Watching) -> None:
    later = make_project(make_organization("other"), "later")
    bind(cluster, "team-cv", later, begin_at=moment(3600))
    watching.tell(
        event(reported_pod("a", namespace="team-cv", bound=3599), 5),
        event(reported_pod("b", namespace="team-cv", bound=3600), 5),
        event(reported_pod("c", namespace="nobodys"), 5),
    )

    projects = PodAllocation.objects.order_by("pod_uid").values_list("project_id", flat=True)
    assert list(projects) == [None, later.id, None]


def test_the_labels_are_those_the_node_had_at_the_bind(watching: Watching) -> None:
    watching.tell(event(reported_node(labels={**H100, "nvidia.com/gpu.replicas": "4"}), 100))
    watching.list(200, reported_pod("a", bound=50), reported_pod("b", bound=150))

    sized = PodAllocation.objects.order_by("pod_uid").values_list("pod_uid", "price_group")
    assert list(sized) == [("a", "H100/whole"), ("b", "H100/1of4")]


def test_a_pod_on_a_node_nobody_knows_is_sized_when_the_node_comes(watching: Watching) -> None:
    watching.tell(event(reported_pod(node="node-9"), 5))
    assert size() == UNKNOWN

    watching.tell(event(reported_node("node-9", labels={}), 8))
    assert size() == UNKNOWN
    watching.tell(event(reported_node("node-9"), 12))

    assert size() == WHOLE
    assert PodAllocation.objects.get().node_labels == H100


def test_labels_that_come_long_after_a_pod_has_ended_do_not_speak_for_it(
    watching: Watching,
) -> None:
    watching.tell(event(reported_pod(node="node-9", finished=60), 65))
    watching.tell(event(reported_node("node-9"), 60 + 3601))

    assert size() == UNKNOWN


def test_an_unknown_device_is_never_dropped_and_is_settled_by_a_newer_catalogue(
    cluster: Cluster, watching: Watching
) -> None:
    labels = {**H100, "nvidia.com/gpu.product": "NVIDIA-B300"}
    none = Rule(None, ("nvidia.com/gpu",), products=("NVIDIA-B300*",))
    store(2, (none,))
    watching.tell(event(reported_node(labels=labels), 3))
    watching.tell(event(reported_pod(bound=4), 5))
    assert size() == UNKNOWN
    assert settle_sizes(cluster_id=cluster.id, actor=ACTOR, at=HOUR) == 0

    store(3, (Rule(GPUSize.LARGE, ("nvidia.com/gpu",)),))
    assert settle_sizes(cluster_id=cluster.id, actor=ACTOR, at=HOUR) == 1
    assert settle_sizes(cluster_id=cluster.id, actor=ACTOR, at=HOUR) == 0

    assert size() == ("large", "B300/whole", "whole", "NVIDIA-B300", 1, 1)
    assert PodAllocation.objects.get().catalogue_version == 3
    [entry] = AuditEntry.objects.filter(action="metering:allocation:settle")
    assert entry.facts == {"rows": 1, "catalogue_version": 3}


def store(version: int, rules: tuple[Rule, ...]) -> None:
    """Put a catalogue version in force."""
    CatalogueVersion.objects.create(
        version=version,
        rules=[rule_to_json(rule) for rule in rules],
        digest=rules_digest(rules),
        created_at=HOUR,
    )


@pytest.mark.usefixtures("cluster")
def test_the_tick_settles_every_cluster_that_has_something_open(watching: Watching) -> None:
    assert settle_everywhere(actor=ACTOR, at=HOUR) == 0
    store(2, (Rule(None, ("nvidia.com/gpu",)),))
    watching.tell(event(reported_pod(bound=4), 5))
    assert size() == UNKNOWN

    store(3, (Rule(GPUSize.LARGE, ("nvidia.com/gpu",)),))

    assert settle_everywhere(actor=ACTOR, at=HOUR) == 1
    assert settle_everywhere(actor=ACTOR, at=HOUR) == 0
    assert size() == WHOLE


def test_what_has_a_size_is_not_settled_again(cluster: Cluster, watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    store(2, (Rule(GPUSize.SMALL, ("nvidia.com/gpu",)),))

    assert settle_sizes(cluster_id=cluster.id, actor=ACTOR, at=HOUR) == 0
    assert size() == WHOLE


def test_rollout_chatter_is_no_label_of_a_device(watching: Watching) -> None:
    chatter = {"nvidia.com/gpu.deploy.driver": "true", "kubernetes.io/hostname": "x"}
    watching.tell(event(reported_node("node-9", labels={**H100, **chatter}), 3))
    watching.tell(event(reported_pod(node="node-9"), 5))

    assert PodAllocation.objects.get().node_labels == H100


@pytest.mark.parametrize(
    "change",
    [
        {"label_set": 0},
        {"label_set": None},
        {"begin_at": moment(1)},
        {"units": 2},
        {"size": "small"},
        {"source": "prometheus"},
        {"owner": "bob"},
    ],
    ids=str,
)
def test_the_database_itself_keeps_a_snapshot(
    watching: Watching, change: dict[str, object]
) -> None:
    watching.tell(event(reported_pod(), 5))

    with pytest.raises(DatabaseError, match="settled at bind"), transaction.atomic():
        PodAllocation.objects.update(**change)


def test_the_database_lets_labels_be_filled_once_while_there_is_no_size(
    watching: Watching,
) -> None:
    watching.tell(event(reported_pod(node="node-9"), 5))

    PodAllocation.objects.update(label_set=label_set(H100))
    with pytest.raises(DatabaseError, match="settled at bind"), transaction.atomic():
        PodAllocation.objects.update(label_set=label_set({"nvidia.com/gpu.product": "another"}))

    assert PodAllocation.objects.get().node_labels == H100


def test_the_first_start_of_a_container_is_kept(watching: Watching) -> None:
    watching.tell(event(reported_pod(started=None, phase="Pending"), 5))
    assert PodAllocation.objects.get().started_at is None
    watching.tell(event(reported_pod(started=30), 35))
    watching.tell(deleted(reported_pod(started=50), 60))

    assert PodAllocation.objects.get().started_at == moment(30)


def test_pods_on_nodes_of_one_kind_share_their_labels(watching: Watching) -> None:
    watching.tell(event(reported_pod("uid-1"), 5), event(reported_pod("uid-2"), 6))

    first, second = PodAllocation.objects.all()
    assert first.label_set_id == second.label_set_id
    assert NodeLabelSet.objects.get().labels == H100


def test_labels_that_allocations_name_are_never_changed(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))

    for change in (
        "UPDATE metering_nodelabelset SET labels = '{}'",
        "DELETE FROM metering_nodelabelset",
    ):
        with (
            pytest.raises(DatabaseError, match="allocations name these labels"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(change)
