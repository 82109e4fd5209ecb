"""Pods that use device claims go with their Job and with anyone who shares their claim."""

from metering.models import ClaimConsumer, QueuedPod
from quotas.models import PreemptionAction, Reservation
from quotas.services.preemption.planning import plan_preemption
from tenants.models import Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import admit
from tests.support.quotas.preemption_steps import TICK
from tests.support.shared_rows import shared_rows


@shared_rows
def hopper(cast: Cast) -> Cluster:
    make_limit(cast.acme, units=0)
    return make_cluster("hopper")


def claim(cast: Cast, hopper: Cluster, name: str, *users: str) -> None:
    """Let a device claim be held, for pods of the Job "train" that admission handed over."""
    held = admit(hopper, cast.llm, name, uid=f"uid-{name}")
    Reservation.objects.filter(pk=held.pk).update(resource="claim/gpu.nvidia.com")
    for user in users:
        ClaimConsumer.objects.create(
            cluster=hopper,
            claim_uid=f"uid-{name}",
            pod_uid=f"uid-{user}",
            pod_name=user,
            begin_at=AT,
        )


def let_in(cast: Cast, hopper: Cluster, name: str, controller: str) -> None:
    """Let a pod have been admitted, and its units handed over to its claim."""
    pod = admit(hopper, cast.llm, name, controller=controller, is_bound=False)
    Reservation.objects.filter(pk=pod.pk).update(
        state="released", released_at=AT, release_reason="handed_over"
    )


def victims(cast: Cast) -> list[tuple[int, str, str, str]]:
    plan_preemption(organization=cast.acme, actor=TICK, at=AT)
    rows = PreemptionAction.objects.order_by("victim", "pod_name")
    return list(rows.values_list("victim", "pod_name", "controller", "step"))


def test_pods_of_one_job_with_a_claim_each_go_together(cast: Cast, hopper: Cluster) -> None:
    for number in range(2):
        let_in(cast, hopper, f"w-{number}", "Job/train")
        claim(cast, hopper, f"claim-{number}", f"w-{number}")

    assert victims(cast) == [
        (0, "w-0", "Job/train", "suspend"),
        (0, "w-1", "Job/train", "suspend"),
    ]


def test_a_shared_claim_joins_two_jobs(cast: Cast, hopper: Cluster) -> None:
    let_in(cast, hopper, "a", "Job/one")
    let_in(cast, hopper, "b", "Job/two")
    claim(cast, hopper, "shared", "a", "b")
    admit(hopper, cast.llm, "c", controller="Job/two")

    assert victims(cast) == [
        (0, "a", "Job/one", "suspend"),
        (0, "b", "Job/two", "suspend"),
        (0, "c", "Job/two", "suspend"),
    ]


def test_a_pod_that_uses_a_claim_is_reported_by_its_own_facts(cast: Cast, hopper: Cluster) -> None:
    let_in(cast, hopper, "a", "Job/one")
    claim(cast, hopper, "mine", "a")
    QueuedPod.objects.create(
        cluster=hopper,
        pod_uid="uid-a",
        namespace="llm",
        pod_name="a",
        created_at=AT,
        priority_class="system-node-critical",
    )

    assert victims(cast) == []


def test_a_pod_that_is_ending_frees_its_claim_anyway(cast: Cast, hopper: Cluster) -> None:
    let_in(cast, hopper, "a", "Job/one")
    claim(cast, hopper, "mine", "a")
    QueuedPod.objects.create(
        cluster=hopper,
        pod_uid="uid-a",
        namespace="llm",
        pod_name="a",
        created_at=AT,
        deletion_at=AT,
    )

    assert victims(cast) == []
