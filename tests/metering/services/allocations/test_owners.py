"""An owner annotation is believed of pods that admission admitted, and of no others."""

from metering.models import PodAllocation, QueuedPod
from quotas.models import AdmittedPod, Reservation
from tenants.models import Cluster, Project
from tests.support.metering.allocations.states import Watching, event, reported_pod
from tests.support.metering.seen import HOUR
from tests.support.quotas.builders import make_reservation


def admitted(cluster: Cluster, project: Project, uid: str, owner: str, **fields: str) -> None:
    row = make_reservation(cluster, project, owner, namespace="team-nlp")
    Reservation.objects.filter(pk=row.pk).update(pod_uid=uid, owner=owner, **fields)


def owners() -> list[tuple[str, str, str]]:
    kept = dict(QueuedPod.objects.values_list("pod_uid", "unproven_owner"))
    rows = PodAllocation.objects.order_by("pod_uid").values_list("pod_uid", "owner")
    return [(uid, owner, kept[uid]) for uid, owner in rows]


def test_an_admitted_pod_belongs_to_whom_it_was_admitted_for(
    watching: Watching, cluster: Cluster, project: Project
) -> None:
    admitted(cluster, project, "as-written", "alice")
    admitted(cluster, project, "rewritten", "alice")

    watching.tell(
        event(reported_pod("as-written", stamped_owner="alice"), 5),
        event(reported_pod("rewritten", stamped_owner="bob"), 5),
        event(reported_pod("labelled"), 5),
    )

    assert owners() == [
        ("as-written", "alice", ""),
        ("labelled", "ada", ""),
        ("rewritten", "alice", "bob"),
    ]


def test_a_pod_that_admission_never_saw_has_no_owner_of_its_own(watching: Watching) -> None:
    watching.tell(event(reported_pod("uid-1", stamped_owner="victim"), 5))

    assert owners() == [("uid-1", "", "victim")]


def test_what_a_watch_found_itself_proves_nothing(
    watching: Watching, cluster: Cluster, project: Project
) -> None:
    admitted(cluster, project, "uid-1", "victim", origin="found")

    watching.list(5, reported_pod("uid-1", stamped_owner="victim"))

    assert owners() == [("uid-1", "", "victim")]


def test_what_was_found_at_first_stays_until_the_bind(
    watching: Watching, cluster: Cluster, project: Project
) -> None:
    waiting = reported_pod("uid-1", bound=None, stamped_owner="victim")
    watching.tell(event(waiting, 5))
    admitted(cluster, project, "uid-1", "victim")

    watching.tell(event(reported_pod("uid-1", bound=10, stamped_owner="victim"), 15))

    assert owners() == [("uid-1", "", "victim")]


def test_a_pod_with_claims_alone_is_believed_by_its_own_record(
    watching: Watching, cluster: Cluster
) -> None:
    AdmittedPod.objects.create(cluster=cluster, pod_uid="a", owner="alice", admitted_at=HOUR)
    for uid in ("a", "b"):
        pod = reported_pod(uid, stamped_owner="alice", requests=(), claims=("gpu",))
        watching.tell(event(pod, 5))

    kept = QueuedPod.objects.order_by("pod_uid").values_list("owner", "unproven_owner")
    assert list(kept) == [("alice", ""), ("", "alice")]
