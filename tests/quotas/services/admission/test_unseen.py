"""Unseen reservations are released beyond what their controller lacks, and by proof."""

from datetime import timedelta

import pytest

from quotas.models import QuotaLimit, ReleaseReason, Reservation
from quotas.selectors.admission.unseen import UnseenPod, uncounted_pods, unseen_pods
from quotas.services.admission.unseen import release_unseen, surplus_of
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import AT
from tests.support.quotas.admitting import (
    ask,
    counted,
    demand,
    drifted,
    see,
    start,
    state,
    sweep,
)

SECOND = timedelta(seconds=1)
TRAIN = {"controller": "Job/train"}


def ask_thrice(cluster: Cluster) -> tuple[UnseenPod, ...]:
    for number in range(3):
        ask(cluster, uid=f"pod-{number}", at=AT + number * SECOND, **TRAIN)
    return unseen_pods(cluster.pk)


def release(*pods: UnseenPod, present_uid: str = "") -> int:
    return release_unseen(
        pods=pods,
        reason=ReleaseReason.ABSENT,
        present_uid=present_uid,
        actor=system_actor("tests"),
        at=AT + 30 * SECOND,
    )


@pytest.mark.parametrize(
    ("lacking", "present", "surplus"),
    [
        (0, (), ["pod-0", "pod-1", "pod-2"]),
        (1, (), ["pod-0", "pod-1"]),
        (3, (), []),
        (4, (), []),
        (1, ("pod-0",), ["pod-1"]),
        (0, ("pod-0", "pod-1", "pod-2"), []),
    ],
)
def test_the_newest_pods_that_a_controller_lacks_stay(
    cluster: Cluster,
    limit: QuotaLimit,
    lacking: int,
    present: tuple[str, ...],
    surplus: list[str],
) -> None:
    assert limit.limit_units == 8
    pods = ask_thrice(cluster)

    found = surplus_of(pods, lacking=lacking, present=present)

    assert [pod.uid for pod in found] == surplus


def test_a_released_pod_frees_its_units_once(cluster: Cluster, limit: QuotaLimit) -> None:
    first, second, _ = ask_thrice(cluster)

    assert (release(first, second), release(first)) == (2, 0)

    assert state("pod-0") == ("released", "absent")
    assert Reservation.objects.get(pod_uid="pod-0").released_at == AT + 30 * SECOND
    assert counted(limit) == (0, 1, 0, 0)
    assert drifted() == []


def test_a_pod_of_several_resources_is_one_pod(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster, "llm", "pod-1", demand(2), demand(3, resource="nvidia.com/gpu.shared"))

    (pod,) = unseen_pods(cluster.pk)

    assert len(pod.reservation_ids) == 2
    assert release(pod) == 2
    assert counted(limit) == (0, 0, 0, 0)


def test_a_pod_that_was_observed_meanwhile_stays(cluster: Cluster, limit: QuotaLimit) -> None:
    first, second, third = ask_thrice(cluster)
    see(cluster, "pod-0")
    start(cluster, "pod-1")

    assert release(first, second, third) == 1
    assert unseen_pods(cluster.pk) == ()

    sweep(AT + 40 * SECOND)
    assert counted(limit) == (1, 1, 0, 0)
    assert drifted() == []


def test_a_pod_whose_name_another_has_is_released_if_that_one_counts(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    first, second, third = ask_thrice(cluster)
    assert release(third) == 1

    assert release(first, present_uid="pod-2") == 0
    assert release(first, present_uid="pod-0") == 0
    assert release(first, present_uid="pod-1") == 1

    assert uncounted_pods(cluster.pk, ["pod-0", "pod-1", "pod-2"]) == 2
    assert state(second.uid) == ("reserved", "")
    assert counted(limit) == (0, 1, 0, 0)


def test_a_released_pod_that_appears_counts_again(cluster: Cluster, limit: QuotaLimit) -> None:
    first, *_ = ask_thrice(cluster)
    release(first)
    see(cluster, "pod-0")

    swept = sweep(AT + 40 * SECOND)

    assert swept.bypasses == ()
    assert state("pod-0") == ("reserved", "")
    assert counted(limit) == (0, 3, 0, 0)
    assert drifted() == []


def test_claims_wait_for_their_time(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster, "llm", "claim-1", demand(1, resource="claim/gpu.example.com"))

    assert unseen_pods(cluster.pk) == ()
    assert counted(limit) == (0, 1, 0, 0)
