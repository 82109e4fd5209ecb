"""The loop over unseen pods: what it reads, and when it releases."""

from collections.abc import Mapping
from datetime import timedelta

from structlog.testing import capture_logs

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.pod_proofs import PodProofs, PodsOfController
from quotas.models import QuotaLimit
from quotas.protocols import EnforcementEndpoint
from quotas.services.admission.unseen import hold_release_lease
from quotas.webhook import unseen
from quotas.webhook.unseen import PODS_LISTED, PODS_PER_LOOK, UnseenPods
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, counted, demand, drifted, state
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

HOPPER = EnforcementEndpoint("hopper", "", "")
SECOND = timedelta(seconds=1)


class RecordedProofs(PodProofs):
    """What a cluster would prove, and which reads were made."""

    def __init__(self, *, webhook_seconds: int | None = 5) -> None:
        super().__init__(ClusterCalls())
        self.webhook_seconds = webhook_seconds
        self.uids: dict[str, str] = {}
        self.has_too_many = False
        self.lacking: Mapping[str, PodsOfController] = {}
        self.reads: list[str] = []

    def find_pod_uid(self, endpoint: EnforcementEndpoint, namespace: str, name: str) -> str:
        assert (endpoint, namespace) == (HOPPER, "llm")
        self.reads.append(name)
        return self.uids.get(name, "")

    def find_pod_uids(self, endpoint: EnforcementEndpoint, namespace: str) -> dict[str, str] | None:
        assert (endpoint, namespace) == (HOPPER, "llm")
        self.reads.append("all")
        return None if self.has_too_many else dict(self.uids)

    def find_lacking(
        self, endpoint: EnforcementEndpoint, namespace: str, controller: str
    ) -> PodsOfController | None:
        assert (endpoint, namespace) == (HOPPER, "llm")
        self.reads.append(controller)
        return self.lacking.get(controller)

    def read_webhook_seconds(self, endpoint: EnforcementEndpoint) -> int:
        assert endpoint == HOPPER
        self.reads.append("webhooks")
        if self.webhook_seconds is None:
            raise SourceUnavailableError("No.", reason="forbidden")
        return self.webhook_seconds


@shared_rows
def cluster(cast: Cast) -> Cluster:
    made = make_cluster("hopper", is_watched=True, admission_mode="enforce")
    bind(made, "llm", cast.llm)
    return made


@shared_rows
def limit(cast: Cast) -> QuotaLimit:
    return make_limit(cast.acme, units=8)


def test_a_pod_is_read_only_when_no_request_can_be_under_way(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    proofs = RecordedProofs(webhook_seconds=20)
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    ask(cluster)

    before = [pods.look(AT + seconds * SECOND) for seconds in (1, 9, 29)]
    after = pods.look(AT + 30 * SECOND)

    assert (before, after) == ([0, 0, 0], 1)
    assert proofs.reads == ["webhooks", "pod-1"]
    assert (state(), counted(limit)) == (("released", "absent"), (0, 0, 0, 0))
    assert drifted() == []


def test_thirty_seconds_are_assumed_where_webhooks_cannot_be_listed(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    pods = UnseenPods(cluster.pk, HOPPER, RecordedProofs(webhook_seconds=None))
    ask(cluster)

    with capture_logs() as logs:
        released = [pods.look(AT + seconds * SECOND) for seconds in (10, 39, 40)]

    assert released == [0, 0, 1]
    assert [(line["event"], line["reason"]) for line in logs if line["log_level"] == "warning"] == [
        ("admission.unseen.webhooks_unlisted", "forbidden")
    ]
    assert counted(limit) == (0, 0, 0, 0)


def test_a_pod_that_exists_is_read_again_after_some_seconds(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    proofs = RecordedProofs()
    proofs.uids["pod-1"] = "pod-1"
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    ask(cluster)

    released = [pods.look(AT + seconds * SECOND) for seconds in (15, 16, 19, 20)]

    assert released == [0, 0, 0, 0]
    assert proofs.reads == ["webhooks", "pod-1", "pod-1"]
    assert counted(limit) == (0, 1, 0, 0)


def test_many_pods_of_one_namespace_are_read_at_once(cluster: Cluster, limit: QuotaLimit) -> None:
    proofs = RecordedProofs()
    proofs.uids = {"pod-3": "pod-3"}
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    for number in range(PODS_LISTED + 2):
        ask(cluster, uid=f"pod-{number}", at=AT + number * SECOND / 10)

    released = [pods.look(AT + 60 * SECOND), pods.look(AT + 61 * SECOND)]

    assert released == [PODS_LISTED + 1, 0]
    assert proofs.reads == ["webhooks", "all"]
    assert state("pod-3") == ("reserved", "")
    assert counted(limit) == (0, 1, 0, 0)
    assert drifted() == []


def test_reads_of_one_look_are_bounded_and_the_oldest_pods_are_first(
    cluster: Cluster, cast: Cast
) -> None:
    limit = make_limit(cast.acme, units=PODS_PER_LOOK + 2)
    proofs = RecordedProofs()
    proofs.has_too_many = True
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    for number in range(PODS_PER_LOOK + 2):
        ask(cluster, uid=f"pod-{number}", at=AT + number * SECOND / 10)

    released = [pods.look(AT + 60 * SECOND), pods.look(AT + 60 * SECOND)]

    assert released == [PODS_PER_LOOK, 2]
    singly = [f"pod-{number}" for number in range(PODS_PER_LOOK + 2)]
    assert proofs.reads == ["webhooks", "all", *singly]
    assert counted(limit) == (0, 0, 0, 0)


def test_pods_that_exist_unobserved_keep_no_other_waiting(cluster: Cluster, cast: Cast) -> None:
    make_limit(cast.acme, units=PODS_PER_LOOK + 1)
    proofs = RecordedProofs()
    proofs.has_too_many = True
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    for number in range(PODS_PER_LOOK + 1):
        uid = f"pod-{number:02}"
        proofs.uids |= {uid: uid} if number < PODS_PER_LOOK else {}
        ask(cluster, uid=uid, at=AT + number * SECOND / 10)

    # The look comes so late that those of the first one are due again.
    released = [pods.look(AT + 60 * SECOND), pods.look(AT + 70 * SECOND)]

    assert released == [0, 1]


def test_a_controller_is_read_once_for_the_same_unseen_pods(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    proofs = RecordedProofs()
    proofs.lacking = {"ReplicaSet/web": PodsOfController(1, frozenset())}
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    for number in range(3):
        ask(cluster, uid=f"web-{number}", at=AT + number * SECOND, controller="ReplicaSet/web")
        ask(cluster, uid=f"ray-{number}", at=AT + number * SECOND, controller="RayCluster/ray")

    released = [pods.look(AT + 5 * SECOND), pods.look(AT + 5 * SECOND)]
    ask(cluster, uid="web-3", at=AT + 6 * SECOND, controller="ReplicaSet/web")
    released.append(pods.look(AT + 6 * SECOND))

    assert released == [2, 0, 1]
    tried = ["ReplicaSet/web", "web-0", "web-1"]
    assert proofs.reads == [*tried, "ReplicaSet/web", "web-2"]
    assert (state("web-2"), state("web-3")) == (("released", "replaced"), ("reserved", ""))
    assert counted(limit) == (0, 4, 0, 0)
    assert drifted() == []


def test_pods_that_were_taken_from_their_controller_keep_their_units(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    proofs = RecordedProofs()
    proofs.lacking = {"Job/web": PodsOfController(0, frozenset())}
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    for number in range(PODS_LISTED + 1):
        proofs.uids |= {f"web-{number}": f"web-{number}"} if number else {}
        ask(cluster, uid=f"web-{number}", at=AT + number * SECOND / 10, controller="Job/web")

    released = [pods.look(AT + 5 * SECOND), pods.look(AT + 5 * SECOND)]

    assert released == [1, 0]
    assert proofs.reads == ["Job/web", "all"]
    assert state("web-0") == ("released", "replaced")
    assert counted(limit) == (0, PODS_LISTED, 0, 0)


def test_a_pod_that_exists_uncounted_keeps_a_sibling_counted(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    proofs = RecordedProofs()
    proofs.lacking = {"ReplicaSet/web": PodsOfController(2, frozenset())}
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    for number in range(3):
        ask(
            cluster, "llm", f"web-{number}", demand(), at=AT + number * SECOND, controller="Job/web"
        )
    proofs.lacking = {"Job/web": PodsOfController(2, frozenset())}
    assert pods.look(AT + 5 * SECOND) == 1
    proofs.lacking = {"Job/web": PodsOfController(1, frozenset({"web-0"}))}
    ask(cluster, uid="web-3", at=AT + 6 * SECOND, controller="Job/web")

    assert pods.look(AT + 6 * SECOND) == 1

    assert state("web-0") == ("released", "replaced")
    assert counted(limit) == (0, 2, 0, 0)


def test_one_process_reads_for_a_cluster_and_another_when_it_falls_silent(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    proofs = RecordedProofs()
    pods = UnseenPods(cluster.pk, HOPPER, proofs)
    ask(cluster)

    def other_leads(seconds: int) -> bool:
        return hold_release_lease(
            cluster_id=cluster.pk, holder="other", lease_seconds=seconds, actor=unseen.ACTOR
        )

    assert other_leads(60)

    refused = pods.look(AT + 20 * SECOND)
    assert (refused, proofs.reads, state()) == (0, [], ("reserved", ""))
    assert other_leads(0)

    assert pods.look(AT + 21 * SECOND) == 1
    assert not other_leads(60)
    assert counted(limit) == (0, 0, 0, 0)
