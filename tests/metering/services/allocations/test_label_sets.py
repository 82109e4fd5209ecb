"""Labels of nodes: each set is stored once, also when several transactions add it."""

import json
import threading
from collections.abc import Mapping, Sequence

import pytest
from django.db import connection, connections, transaction

from metering.models import NodeLabelSet, PodAllocation
from metering.services.allocations.sizing import sizing_labels
from tenants.models import Cluster, Project
from tests.metering.services.collection.test_concurrency import at_once
from tests.support.metering.allocations.states import (
    H100,
    Watching,
    event,
    reported_node,
    reported_pod,
)
from tests.support.metering.allocations.watched import label_set, ledgered

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "8"}
L40S = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "4"}


def stored_id(labels: Mapping[str, str] | None) -> int | None:
    """Return the id of a set as the database gives it, adding the set if it is new."""
    with connection.cursor() as cursor:
        given = None if labels is None else json.dumps(labels)
        cursor.execute("SELECT metering_label_set(%s)", [given])
        [(found,)] = cursor.fetchall()
    return None if found is None else int(found)


@pytest.mark.django_db
def test_a_set_is_stored_once_whatever_the_order_of_its_labels() -> None:
    turned = dict(reversed(A100.items()))

    assert list(turned) != list(A100)
    assert stored_id(A100) == stored_id(turned)
    assert [one.labels for one in NodeLabelSet.objects.all()] == [A100]


@pytest.mark.django_db
@pytest.mark.parametrize("nothing", [{}, None])
def test_no_labels_are_no_set(nothing: Mapping[str, str] | None) -> None:
    assert stored_id(nothing) is None
    assert not NodeLabelSet.objects.exists()


@pytest.mark.django_db
def test_a_value_that_differs_is_another_set() -> None:
    other = {**A100, "nvidia.com/gpu.count": "4"}

    assert stored_id(A100) != stored_id(other)
    assert {str(one) for one in NodeLabelSet.objects.all()} == {"NVIDIA-A100-SXM4-80GB"}


@pytest.mark.django_db
def test_a_set_that_names_no_gpu_is_called_by_its_number() -> None:
    made = label_set({"gpu-ledger.io/dedicated-to": "acme"})

    assert made is not None
    assert str(made) == f"labels {made.pk}"


@pytest.mark.django_db
def test_an_allocation_without_known_labels_has_none(cluster: Cluster) -> None:
    without = ledgered(cluster, "a", node_labels={})
    known = ledgered(cluster, "b", node_labels=A100)

    assert (without.label_set, without.node_labels) == (None, {})
    assert PodAllocation.objects.get(pk=known.pk).node_labels == A100


def test_labels_that_change_later_are_those_of_later_pods(
    watching: Watching, project: Project
) -> None:
    watching.tell(event(reported_pod("uid-1"), 5))
    watching.tell(event(reported_node(labels={**H100, **L40S}), 6))
    watching.tell(event(reported_pod("uid-2", bound=10), 11))

    labels = {row.pod_uid: row.node_labels for row in PodAllocation.objects.all()}
    assert labels == {"uid-1": H100, "uid-2": sizing_labels({**H100, **L40S})}
    assert {row.project_id for row in PodAllocation.objects.all()} == {project.pk}


@pytest.mark.usefixtures("committed_db")
def test_transactions_that_add_one_set_at_once_get_one_id() -> None:
    found: list[int | None] = []

    def add() -> None:
        found.append(stored_id(A100))

    at_once(*[add] * 5)

    assert found == [NodeLabelSet.objects.get().pk] * 5


@pytest.mark.usefixtures("committed_db")
def test_transactions_that_add_sets_in_another_order_wait_and_do_not_fail() -> None:
    is_first_added, found = threading.Event(), {}

    def add(name: str, labels: Sequence[Mapping[str, str]]) -> None:
        try:
            with transaction.atomic():
                if name == "second":
                    is_first_added.wait(timeout=30)
                ids = [stored_id(labels[0])]
                is_first_added.set()
                ids.append(stored_id(labels[1]))
            found[name] = ids
        finally:
            connections.close_all()

    at_once(lambda: add("first", (A100, L40S)), lambda: add("second", (L40S, A100)))

    assert found["first"] == list(reversed(found["second"]))
    assert NodeLabelSet.objects.count() == 2
