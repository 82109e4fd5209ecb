"""A limit over two namespaces: whole in each where admission counts, else it follows refused pods.

The quotas are planned from what the server itself returns, and applied there.
"""

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from metering.models import ClusterWatch, NodeRecord
from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.domain.admission.webhook_configuration import Registration, configurations
from quotas.domain.enforcement.coverage import COUNTING
from quotas.models import EnforcementTarget, Reservation
from quotas.services.enforcement.applying import apply_targets
from quotas.services.enforcement.coverage import refresh_coverage
from quotas.services.enforcement.refused_pods import refresh_refused_pods
from quotas.services.enforcement.targets import refresh_targets
from quotas.services.limits.changes import open_counter
from quotas.webhook import answers
from tenants.models import Cluster
from tests.contract.kubernetes.conftest import (
    GPU,
    GPU_KEY,
    LABELS,
    Core,
    new_name,
    pod_body,
    wait_for,
)
from tests.contract.kubernetes.test_jobs_and_priorities import job_body
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.kubernetes.registering import GROUP
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.sweeping import close_namespace
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.webhook_view import WebhookView
from tests.support.kubernetes.wire import Wire
from tests.support.quotas.builders import make_limit
from tests.support.quotas.enforcing import SYSTEM
from tests.support.references import reference_to

pytestmark = [pytest.mark.needs(WEBHOOKS), pytest.mark.needs("1.28")]
LIMIT = 9
WHOLE = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}
SETTLED = AT + timedelta(minutes=2)


@pytest.fixture
def other(core: Core, wire: Wire) -> Iterator[str]:
    """Return the project's second namespace."""
    name = new_name()
    core.create_namespace({"metadata": {"name": name, "labels": LABELS}})
    wait_for(lambda: wire.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").code == 200)
    yield name
    close_namespace(wire, name)


@pytest.fixture
def cluster(committed_db: str, namespace: str, other: str, kubeconfig: str) -> Iterator[Cluster]:
    """Grant a project nine Large over two namespaces of a cluster that counts every pod."""
    assert committed_db
    answers.FACTS.purge()
    answers.guard.cache_clear()
    made = make_cluster(
        new_name(),
        is_watched=True,
        admission_mode="enforce",
        admission_on_failure="deny",
        credential_reference=reference_to(kubeconfig),
        offered_resources=[GPU],
    )
    ClusterWatch.objects.create(cluster=made, healthy_at=SETTLED)
    NodeRecord.objects.create(
        cluster=made, node="n1", node_uid="n1", labels=WHOLE, allocatable={GPU: 8}, begin_at=AT
    )
    acme = make_organization()
    llm = make_project(acme)
    bind(made, namespace, llm)
    bind(made, other, llm)
    with transaction.atomic():
        open_counter(limit=make_limit(acme, llm, units=LIMIT), at=AT)
    yield made
    answers.guard().stop()
    answers.guard.cache_clear()
    answers.FACTS.purge()


@pytest.fixture
def registered(
    wire: Wire,
    namespace: str,
    other: str,
    server: Server,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Register the webhooks that count, as they are printed for the cluster; return their path."""
    answering = WebhookServer(tmp_path_factory.mktemp("whole"), server.webhook_host)
    answering.rule = WebhookView(f"/admit/{cluster.slug}/pods")
    registration = Registration(
        cluster=cluster.slug,
        authority_pem=base64.b64decode(answering.authority).decode(),
        url=answering.url.removesuffix("/review"),
        bound=(namespace, other),
        offered=(GPU,),
    )
    configuration = configurations(registration)[1]
    configuration["metadata"]["labels"] |= LABELS
    configuration["webhooks"] = [
        one for one in configuration["webhooks"] if one["name"] in COUNTING
    ]
    path = f"{GROUP}/validatingwebhookconfigurations"
    made = wire.post(path, configuration)
    assert made.code == 201, made.message
    wait_for(lambda: is_asked(wire, answering, (namespace, other)))
    yield f"{path}/{configuration['metadata']['name']}"
    wire.delete(f"{path}/{configuration['metadata']['name']}")
    answering.stop()


def is_asked(wire: Wire, answering: WebhookServer, namespaces: tuple[str, ...]) -> bool:
    answering.seen.clear()
    for name in namespaces:
        wire.post(pods_of(name), pod_body("probe", gpus=1), dryRun="All")
    return len(answering.seen) == len(namespaces)


def pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def apply(at: datetime) -> list[int]:
    """Read the webhooks, plan and apply; return what the cluster's quotas say."""
    enforcer = KubernetesQuotaEnforcer()
    refresh_coverage(enforcer=enforcer, actor=SYSTEM, at=at)
    refresh_targets(actor=SYSTEM, at=at)
    targets = EnforcementTarget.objects.order_by("namespace")
    ids = [target.pk for target in targets]
    apply_targets(target_ids=ids, enforcer=enforcer, actor=SYSTEM, at=at)
    assert {target.state for target in targets.all()} == {"applied"}
    return [target.live_hard[GPU_KEY] for target in targets.all()]


@pytest.mark.usefixtures("registered")
def test_a_pod_of_more_than_half_the_limit_is_created_in_either_namespace(
    wire: Wire, namespace: str, other: str
) -> None:
    assert sorted(apply(AT)) == [4, 5]
    divided = wire.post(pods_of(other), pod_body("trainer", gpus=6))

    assert apply(SETTLED) == [LIMIT, LIMIT]
    whole = wire.post(pods_of(other), pod_body("trainer", gpus=6))
    beyond = wire.post(pods_of(namespace), pod_body("trainer", gpus=4))

    assert (divided.code, whole.code, beyond.code) == (403, 201, 403)
    assert "exceeded quota: gpu-ledger" in divided.message
    assert "requests 4 Large, limit 9, used 0, reserved 6" in beyond.message


@pytest.mark.usefixtures("registered")
def test_a_job_of_one_pod_with_six_gpus_gets_its_pod(wire: Wire, other: str) -> None:
    apply(AT)
    assert apply(SETTLED) == [LIMIT, LIMIT]

    assert wire.post(f"/apis/batch/v1/namespaces/{other}/jobs", job_body(gpus=6)).code == 201

    wait_for(lambda: len(wire.get(pods_of(other)).body["items"]) == 1)
    assert list(Reservation.objects.values_list("units", flat=True)) == [6]


@pytest.mark.usefixtures("registered")
def test_pods_of_both_namespaces_at_once_hold_the_limit_exactly(
    wire: Wire, namespace: str, other: str
) -> None:
    apply(AT)
    assert apply(SETTLED) == [LIMIT, LIMIT]

    with ThreadPoolExecutor(16) as pool:
        codes = pool.map(
            lambda number: (
                wire.post(
                    pods_of((namespace, other)[number % 2]), pod_body(f"pod-{number}", gpus=1)
                ).code
            ),
            range(3 * LIMIT),
        )

    assert sorted(codes) == [201] * LIMIT + [403] * 2 * LIMIT
    created = [wire.get(pods_of(name)).body["items"] for name in (namespace, other)]
    assert sum(map(len, created)) == LIMIT


def test_webhooks_that_are_deleted_bring_the_division_back(wire: Wire, registered: str) -> None:
    apply(AT)
    assert apply(SETTLED) == [LIMIT, LIMIT]

    assert wire.delete(registered).code == 200

    assert sorted(apply(SETTLED + timedelta(seconds=1))) == [4, 5]


def deployment_body() -> dict[str, Any]:
    labels = {"app": "train"}
    template = {"metadata": {"labels": labels}, "spec": pod_body("train", gpus=6)["spec"]}
    return {
        "metadata": {"name": "train"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/batch/v1/namespaces/{}/jobs", job_body(gpus=6)),
        pytest.param(
            "/apis/apps/v1/namespaces/{}/deployments", deployment_body(), marks=pytest.mark.real
        ),
    ],
    ids=["job", "deployment"],
)
def test_where_nothing_counts_units_move_to_the_pods_that_a_quota_refuses(
    wire: Wire, cluster: Cluster, other: str, path: str, body: dict[str, Any]
) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(admission_mode="off")
    at = datetime.now(UTC)
    assert sorted(apply(at)) == [4, 5]

    assert wire.post(path.format(other), body).code == 201

    wait_for(lambda: is_refused(other))
    at += timedelta(minutes=1)
    apply(at)
    assert sum(apply(at)) == LIMIT
    assert EnforcementTarget.objects.get(namespace=other).live_hard[GPU_KEY] >= 6
    wait_for(lambda: len(wire.get(pods_of(other)).body["items"]) == 1)
    wait_for(lambda: not is_refused(other))


def is_refused(namespace: str) -> bool:
    """Read refused pods again, whenever that was done last."""
    EnforcementTarget.objects.update(refused_read_at=None)
    refresh_refused_pods(enforcer=KubernetesQuotaEnforcer(), actor=SYSTEM, at=datetime.now(UTC))
    return bool(EnforcementTarget.objects.get(namespace=namespace).refused_pods)
