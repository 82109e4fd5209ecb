"""Pods that our endpoint admits, and that something else then refuses, delays or knows already."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from metering.models import NodeRecord
from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.pod_proofs import PodProofs
from quotas.models import QuotaLimit, Reservation
from quotas.protocols import EnforcementEndpoint
from quotas.services.limits.changes import open_counter
from quotas.webhook import answers
from quotas.webhook.following import Follower, follow
from quotas.webhook.unseen import UnseenPods
from tenants.models import Cluster
from tests.contract.kubernetes.conftest import (
    GPU,
    Client,
    Core,
    hard_body,
    pod_body,
    wait_for,
    wait_for_hard,
)
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.kubernetes.registering import OWN, Hooks
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.webhook_server import WebhookServer, deny
from tests.support.kubernetes.webhook_view import WebhookView
from tests.support.kubernetes.wire import Wire
from tests.support.kubernetes.workloads import (
    connection_to,
    deploy,
    make_job,
    owned_body,
    request_for,
    take_a_pod,
    wake,
)
from tests.support.quotas.admitting import drifted
from tests.support.quotas.builders import make_limit
from tests.support.references import reference_to

pytestmark = pytest.mark.needs(WEBHOOKS)
WHOLE = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}
BOUND = timedelta(seconds=45)
"""Longer than any webhook may take, and quota evaluation."""
SOON = timedelta(seconds=5)


@pytest.fixture
def cluster(committed_db: str, namespace: str, kubeconfig: str) -> Iterator[Cluster]:
    """Grant the project of the namespace two Large on a cluster whose API may be read."""
    assert committed_db
    answers.FACTS.purge()
    answers.guard.cache_clear()
    made = make_cluster(
        "contract",
        is_watched=True,
        admission_mode="enforce",
        credential_reference=reference_to(kubeconfig),
    )
    NodeRecord.objects.create(
        cluster=made, node="n1", node_uid="n1", labels=WHOLE, allocatable={GPU: 8}, begin_at=AT
    )
    acme = make_organization()
    llm = make_project(acme)
    bind(made, namespace, llm)
    with transaction.atomic():
        open_counter(limit=make_limit(acme, llm, units=2), at=AT)
    yield made
    answers.guard().stop()
    answers.guard.cache_clear()
    answers.FACTS.purge()


@pytest.fixture
def hooks(
    wire: Wire,
    namespace: str,
    server: Server,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hooks]:
    """Register our endpoint for new pods of the namespace."""
    assert cluster.slug == "contract"
    answering = WebhookServer(tmp_path_factory.mktemp("behind"), server.webhook_host)
    wire.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {OWN: namespace}}})
    answering.rule = WebhookView("/admit/contract/pods")
    made = Hooks(wire, namespace, answering)
    yield made
    made.remove()
    answering.stop()


@pytest.fixture
def controllers(hooks: Hooks) -> None:
    """Trust the user of this suite, so that its pods may be those of controllers."""
    hooks.start()
    hooks.probe()
    user = hooks.server.seen[-1]["userInfo"]["username"]
    Cluster.objects.filter(slug="contract").update(trusted_controllers=[user])
    answers.FACTS.purge()


@pytest.fixture
def beside(
    hooks: Hooks, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    """Return a second validating webhook for the namespace, which a test registers."""
    answering = WebhookServer(tmp_path_factory.mktemp("beside"), server.webhook_host)
    made = Hooks(hooks.wire, hooks.namespace, answering)
    yield made
    made.remove()
    answering.stop()


def endpoint() -> EnforcementEndpoint:
    (cluster,) = Cluster.objects.all()
    return EnforcementEndpoint(cluster.slug, "", cluster.credential_reference)


@pytest.fixture
def unseen(cluster: Cluster) -> UnseenPods:
    return UnseenPods(cluster.pk, endpoint(), PodProofs(ClusterCalls()))


def states() -> list[tuple[str, str]]:
    rows = Reservation.objects.order_by("admitted_at", "pk")
    return list(rows.values_list("state", "release_reason"))


def forbid_pods(core: Core, namespace: str) -> None:
    """Have a ResourceQuota of others refuse every pod."""
    core.create_namespaced_resource_quota(namespace, hard_body({"pods": "0"}, "others"))
    wait_for_hard(core, namespace, {"pods": "0"}, "others")


@contextmanager
def following(unseen: UnseenPods) -> Iterator[None]:
    """Follow unseen pods as a process of the admission server does."""
    (cluster,) = Cluster.objects.all()
    follower = Follower(cluster.pk)
    thread = threading.Thread(target=follow, args=(unseen.look, "contract", follower))
    thread.start()
    waker = threading.Thread(target=wake, args=(follower,))
    waker.start()
    try:
        yield
    finally:
        follower.end()
        thread.join()
        waker.join()


def reserved() -> int:
    return Reservation.objects.filter(state="reserved").count()


def test_a_bare_pod_that_a_quota_refuses_counts_once_and_not_after_the_bound(
    core: Core, hooks: Hooks, unseen: UnseenPods
) -> None:
    hooks.start()
    forbid_pods(core, hooks.namespace)

    codes = [hooks.wire.post(hooks.pods, pod_body("trainer", gpus=2)).code for _ in range(4)]

    assert codes == [403] * 4
    assert states() == [*[("released", "replaced")] * 3, ("reserved", "")]
    assert unseen.look(datetime.now(UTC)) == 0
    assert unseen.look(datetime.now(UTC) + BOUND) == 1
    assert states()[-1] == ("released", "absent")
    assert drifted() == []


@pytest.mark.usefixtures("controllers")
def test_a_controller_that_a_quota_refuses_holds_one_and_is_not_refused_by_us(
    core: Core, hooks: Hooks, unseen: UnseenPods
) -> None:
    job = make_job(hooks)
    forbid_pods(core, hooks.namespace)

    answered = [hooks.wire.post(hooks.pods, owned_body(job)) for _ in range(4)]

    # The quota refuses, and not this service, although the limit is full of the first try.
    assert ["exceeded quota" in one.message for one in answered] == [True] * 4
    assert states() == [*[("released", "replaced")] * 3, ("reserved", "")]
    assert unseen.look(datetime.now(UTC) + BOUND) == 1
    assert drifted() == []


def test_pods_that_only_say_that_a_controller_made_them_keep_their_units(
    hooks: Hooks, unseen: UnseenPods
) -> None:
    job = make_job(hooks)
    hooks.start()
    forged = owned_body(job)
    # The Job does not know them: it lacks a pod, however many of these there are.
    forged["metadata"]["labels"] = {}

    codes = [hooks.wire.post(hooks.pods, forged).code for _ in range(3)]

    assert codes == [201, 403, 403]
    assert unseen.look(datetime.now(UTC)) == 0
    assert states() == [("reserved", "")]


@pytest.mark.usefixtures("controllers")
def test_a_pod_that_was_taken_from_its_controller_keeps_its_units(
    hooks: Hooks, unseen: UnseenPods
) -> None:
    job = make_job(hooks)
    take_a_pod(hooks, job, lambda: unseen.look(datetime.now(UTC) + BOUND) == 1)

    assert hooks.wire.post(hooks.pods, owned_body(job)).code == 403

    assert unseen.look(datetime.now(UTC)) == 0
    assert [state for state in states() if state[0] != "released"] == [("reserved", "")]


def test_a_pod_that_a_slow_webhook_allows_keeps_its_units(
    hooks: Hooks, beside: Hooks, unseen: UnseenPods
) -> None:
    hooks.start()
    assert beside.register(beside.webhook(timeoutSeconds=30)).code == 201
    wait_for(lambda: beside.probe().code < 300 and len(beside.server.seen) > 0)
    held = threading.Event()

    def slowly(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["metadata"]["name"] == "first":
            held.wait(20)
        return {"uid": request["uid"], "allowed": True}

    beside.server.rule = slowly
    codes: list[int] = []
    first = threading.Thread(
        target=lambda: codes.append(hooks.wire.post(hooks.pods, pod_body("first", gpus=2)).code)
    )
    first.start()
    wait_for(lambda: Reservation.objects.filter(state="reserved").count() == 1)

    released = unseen.look(datetime.now(UTC) + timedelta(seconds=39))
    second = hooks.wire.post(hooks.pods, pod_body("second", gpus=1))
    held.set()
    first.join()

    assert (released, second.code, codes) == (0, 403, [201])
    assert unseen.look(datetime.now(UTC) + BOUND) == 0
    assert states() == [("reserved", "")]


def test_a_pod_that_a_second_webhook_refuses_is_released(
    hooks: Hooks, beside: Hooks, unseen: UnseenPods
) -> None:
    hooks.start(prefix="a-")
    beside.start(prefix="b-")
    beside.server.rule = deny("not today", 403)

    assert hooks.wire.post(hooks.pods, pod_body("trainer", gpus=2)).code == 403

    assert unseen.look(datetime.now(UTC) + timedelta(seconds=14)) == 0
    assert unseen.look(datetime.now(UTC) + BOUND) == 1
    assert states() == [("released", "absent")]


def test_a_name_that_exists_already_counts_once(hooks: Hooks, unseen: UnseenPods) -> None:
    hooks.start()
    assert hooks.wire.post(hooks.pods, pod_body("trainer", gpus=1)).code == 201

    again = hooks.wire.post(hooks.pods, pod_body("trainer", gpus=1))

    assert again.code == 409
    # The pod that exists is counted by the later reservation until the watch observes it.
    assert states() == [("released", "replaced"), ("reserved", "")]
    assert unseen.look(datetime.now(UTC) + BOUND) == 0
    Reservation.objects.filter(state="released").update(
        state="reserved", released_at=None, release_reason=""
    )
    assert unseen.look(datetime.now(UTC) + BOUND + SOON) == 1
    assert states() == [("reserved", ""), ("released", "absent")]


def test_a_client_that_hangs_up_keeps_units_only_for_a_pod_that_was_made(
    hooks: Hooks, beside: Hooks, unseen: UnseenPods, api_client: Client
) -> None:
    hooks.start()
    beside.start()
    asked, answered = threading.Event(), threading.Event()

    def slowly(request: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        answered.wait(4)
        return {"uid": request["uid"], "allowed": True}

    beside.server.rule = slowly
    with connection_to(api_client) as raw:
        raw.sendall(request_for(api_client, hooks.pods, pod_body("trainer", gpus=2)))
        assert asked.wait(10)
        wait_for(lambda: reserved() == 1)
    answered.set()
    # No answer tells when the server has done with it.
    time.sleep(1)

    unseen.look(datetime.now(UTC) + BOUND)

    is_made = hooks.wire.get(f"{hooks.pods}/trainer").code == 200
    assert states() == [("reserved", "") if is_made else ("released", "absent")]
    assert drifted() == []


@pytest.mark.real
def test_a_deployment_that_a_quota_refuses_holds_one_and_then_none(
    core: Core, hooks: Hooks, unseen: UnseenPods
) -> None:
    QuotaLimit.objects.update(limit_units=16)
    hooks.start()
    forbid_pods(core, hooks.namespace)
    counts: list[int] = []

    with following(unseen):
        deploy(hooks, replicas=1)
        wait_for(lambda: Reservation.objects.count() >= 5)
        settled_at = time.monotonic() + 3
        while time.monotonic() < settled_at + 7:
            if time.monotonic() > settled_at:
                counts.append(reserved())
            time.sleep(0.05)
        # Its controller tries again ever more rarely: from a second apart on, one is too many
        # only for the moment in which both are read.
        assert sorted(counts)[len(counts) * 95 // 100] <= 1
        assert max(counts) <= 2
        core.delete_namespaced_resource_quota("others", hooks.namespace)
        wait_for(lambda: len(hooks.wire.get(hooks.pods).body["items"]) == 1)
        wait_for(lambda: reserved() == 1)
    assert drifted() == []


@pytest.mark.real
def test_units_of_a_refused_pod_are_back_two_seconds_after_the_bound(
    core: Core, hooks: Hooks, unseen: UnseenPods
) -> None:
    hooks.start()
    forbid_pods(core, hooks.namespace)
    bound = timedelta(seconds=PodProofs(ClusterCalls()).read_webhook_seconds(endpoint()) + 10)

    with following(unseen):
        for number in range(20):
            QuotaLimit.objects.update(limit_units=40)
            assert hooks.wire.post(hooks.pods, pod_body(f"t-{number}", gpus=1)).code == 403
            time.sleep(0.1)
        wait_for(lambda: reserved() == 0)

    took = Reservation.objects.values_list("released_at", "admitted_at")
    late = [released - admitted - bound for released, admitted in took if released is not None]
    assert len(late) == 20
    assert min(late) >= timedelta(0)
    assert max(late) <= timedelta(seconds=2)


@pytest.mark.real
def test_the_limit_holds_while_a_second_webhook_takes_eight_seconds(
    hooks: Hooks, beside: Hooks, unseen: UnseenPods
) -> None:
    hooks.start()
    assert beside.register(beside.webhook(timeoutSeconds=30)).code == 201
    wait_for(lambda: beside.probe().code < 300 and len(beside.server.seen) > 0)

    def slowly(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["metadata"]["name"] == "first":
            time.sleep(8)
        return {"uid": request["uid"], "allowed": True}

    beside.server.rule = slowly
    codes: list[int] = []
    first = threading.Thread(
        target=lambda: codes.append(hooks.wire.post(hooks.pods, pod_body("first", gpus=2)).code)
    )
    with following(unseen):
        first.start()
        wait_for(lambda: reserved() == 1)
        others = [hooks.wire.post(hooks.pods, pod_body(f"o-{n}", gpus=1)).code for n in range(8)]
        first.join()
        after = hooks.wire.post(hooks.pods, pod_body("after", gpus=1)).code

    assert (codes, set(others), after) == ([201], {403}, 403)
    assert states() == [("reserved", "")]
