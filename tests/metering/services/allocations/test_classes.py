"""Device classes: the names they give, and pods that request their devices as a resource."""

from dataclasses import replace

import pytest

from metering.models import DeviceClass, PodAllocation, QueuedPod
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import ClassState, PodState
from metering.selectors.allocations.watch import class_names
from tenants.models import Cluster
from tests.support.metering.allocations.states import (
    DRIVER,
    Watching,
    deleted,
    event,
    reported_claim,
    reported_pod,
    reported_slice,
)
from tests.support.metering.seen import moment

CLASS = f"deviceclass.resource.kubernetes.io/{DRIVER}"
MADE = "name-of-claim-1"
MIG = "nvidia.com/mig-1g.10gb"


def reported_class(name: str, resource: str = "", *, created: int = 0) -> ClassState:
    return ClassState(f"uid-of-{name}", name, "1", moment(created), resource)


def rows() -> list[tuple[str, str, int, str]]:
    found = PodAllocation.objects.order_by("resource")
    return list(found.values_list("pod_uid", "resource", "units", "size"))


def test_a_list_and_what_follows_it_say_which_classes_there_are(
    watching: Watching, cluster: Cluster
) -> None:
    watching.list(1, reported_class("a", "example.com/a"), reported_class("b"))
    watching.list(2, reported_class("a", "example.com/a"), reported_class("c", "example.com/c"))
    assert class_names(cluster.pk) == {"a": "example.com/a", "c": "example.com/c"}

    watching.tell(
        event(reported_class("a", "example.com/x"), 3),
        deleted(reported_class("c", "example.com/c"), 4),
    )

    assert class_names(cluster.pk) == {"a": "example.com/x"}
    assert list(DeviceClass.objects.values_list("name", flat=True)) == ["a"]


def test_of_two_classes_with_one_name_the_newest_serves_it(
    watching: Watching, cluster: Cluster
) -> None:
    watching.list(
        1,
        reported_class("late", "example.com/a", created=9),
        reported_class("early", "example.com/a", created=1),
    )

    served = {resource: name for name, resource in class_names(cluster.pk).items()}
    assert served == {"example.com/a": "late"}


def test_a_pod_that_requests_a_class_is_held_by_the_claim_that_was_made_for_it(
    watching: Watching,
) -> None:
    watching.list(1, reported_slice())
    watching.tell(event(reported_pod("a", resource=CLASS, bound=None), 3))
    watching.tell(event(reported_claim(consumers=("a",), is_for_extended_resource=True), 4))
    watching.tell(event(reported_pod("a", resource=CLASS, bound=5, extended_claim=MADE), 6))

    assert rows() == [("claim-1", f"claim/{DRIVER}", 1, "large")]
    waiting = QueuedPod.objects.get()
    assert (waiting.requests, waiting.bound_at) == ({CLASS: 1}, moment(5))


def test_a_class_without_a_claim_is_a_row_that_nobody_can_size(watching: Watching) -> None:
    watching.tell(event(reported_pod("a", resource=CLASS), 5))

    assert rows() == [("a", CLASS, 1, "")]


def test_a_pod_of_a_name_that_nobody_knows_is_the_consumer_of_its_claim(
    watching: Watching,
) -> None:
    watching.list(1, reported_slice())
    unknown = reported_pod("a", requests=(), extended_claim=MADE)
    watching.tell(event(unknown, 5))
    watching.tell(event(reported_claim(consumers=("a",), is_for_extended_resource=True), 6))

    assert rows() == [("claim-1", f"claim/{DRIVER}", 1, "large")]
    assert QueuedPod.objects.get().requests == {f"claim/{MADE}": 1}


def test_a_gpu_that_a_claim_serves_stays_the_pods_own(watching: Watching) -> None:
    watching.tell(event(reported_pod("a", extended_claim=MADE), 5))
    watching.tell(event(reported_claim(consumers=("a",), is_for_extended_resource=True), 6))

    assert [row[:3] for row in rows()] == [("a", "nvidia.com/gpu", 1)]


def both(uid: str, *names: str, **fields: object) -> PodState:
    """Return a pod that requests two devices of each name, in one container."""
    asked = (ContainerRequest("main", ContainerKind.REGULAR, name, 2) for name in names)
    return reported_pod(uid, requests=tuple(asked), **fields)  # type: ignore[arg-type] # A pod's own.


@pytest.mark.parametrize("names", [(MIG, CLASS), (MIG,)])
def test_devices_of_a_class_are_held_beside_those_of_a_device_plugin(
    watching: Watching, names: tuple[str, ...]
) -> None:
    watching.list(1, reported_slice())
    watching.list(2, reported_class(DRIVER, "example.com/gpu"))
    watching.tell(event(both("a", *names, bound=None), 3))
    watching.tell(event(reported_claim(consumers=("a",), is_for_extended_resource=True), 4))
    watching.tell(event(both("a", *names, bound=5, extended_claim=MADE), 6))

    assert [row[:3] for row in rows()] == [("claim-1", f"claim/{DRIVER}", 1), ("a", MIG, 2)]


def test_a_class_of_a_requested_gpu_is_counted_with_its_pod_and_another_by_itself(
    watching: Watching,
) -> None:
    watching.list(2, reported_class(DRIVER, "nvidia.com/gpu"), reported_class("other"))
    watching.tell(event(reported_pod("a", bound=None), 3))
    claim = reported_claim(devices=("gpu-0", "gpu-1"), consumers=("a",))
    devices = (claim.devices[0], replace(claim.devices[1], device_class="other"))

    watching.tell(event(replace(claim, devices=devices, is_for_extended_resource=True), 4))

    assert [row[:3] for row in rows()] == [("claim-1", "claim/other", 1)]
