"""Our own endpoint behind an API server: what it lets in, refuses, stamps and leaves unwritten."""

import base64
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import transaction

from metering.models import NodeRecord
from quotas.domain.admission.webhook_configuration import Registration, configurations
from quotas.models import AdmissionRefusal, Reservation
from quotas.services.limits.changes import open_counter
from quotas.webhook import answers
from tenants.models import Cluster
from tests.contract.kubernetes.conftest import GPU, new_name, pod_body
from tests.contract.kubernetes.test_mutating_webhooks import job_body
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.kubernetes.registering import GROUP, HOOK, MUTATING, OWN, POD_RULE, Hooks
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.webhook_view import WebhookView
from tests.support.kubernetes.wire import Wire
from tests.support.quotas.builders import make_limit
from tests.support.quotas.connecting import connected_as_admission, is_given_up

pytestmark = pytest.mark.needs(WEBHOOKS)
OWNER = "gpu-ledger.io/owner"
WHOLE = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}
DENIED = f'admission webhook "{HOOK}" denied the request: '
JOB_RULE = {**POD_RULE, "apiGroups": ["batch"], "resources": ["jobs"]}


@pytest.fixture
def ledger(committed_db: str, namespace: str) -> Iterator[Cluster]:
    """Grant the project of the namespace two Large on a cluster that enforces."""
    assert committed_db
    answers.FACTS.purge()
    answers.guard.cache_clear()
    cluster = make_cluster("contract", is_watched=True, admission_mode="enforce")
    NodeRecord.objects.create(
        cluster=cluster,
        node="n1",
        node_uid="n1",
        labels=WHOLE,
        allocatable={GPU: 8},
        begin_at=AT,
    )
    acme = make_organization()
    llm = make_project(acme)
    bind(cluster, namespace, llm)
    with transaction.atomic():
        open_counter(limit=make_limit(acme, llm, units=2), at=AT)
    yield cluster
    answers.guard().stop()
    answers.guard.cache_clear()
    answers.FACTS.purge()


@pytest.fixture
def hooks(
    wire: Wire,
    namespace: str,
    server: Server,
    ledger: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hooks]:
    """Register our endpoint for new pods of the namespace."""
    assert ledger.slug == "contract"
    answering = WebhookServer(tmp_path_factory.mktemp("client_for"), server.webhook_host)
    wire.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {OWN: namespace}}})
    answering.rule = WebhookView("/admit/contract/pods")
    made = Hooks(wire, namespace, answering)
    yield made
    made.remove()
    answering.stop()


@pytest.fixture
def stamping(
    hooks: Hooks, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    """Register our stamp for new pods and Jobs of the namespace."""
    answering = WebhookServer(tmp_path_factory.mktemp("stamp"), server.webhook_host)
    answering.rule = WebhookView("/stamp/contract")
    made = Hooks(hooks.wire, hooks.namespace, answering)
    yield made
    made.remove()
    answering.stop()


def reserved() -> list[tuple[str, int]]:
    return list(Reservation.objects.order_by("pk").values_list("pod_uid", "units"))


def names(hooks: Hooks) -> list[str]:
    return [one["metadata"]["name"] for one in hooks.wire.get(hooks.pods).body["items"]]


def asker(hooks: Hooks) -> str:
    """Return our name of the user of this suite; "" when the API server calls it a machine."""
    rule = hooks.server.rule
    assert isinstance(rule, WebhookView)
    name = rule.users[-1]
    return "" if name.startswith("system:") else name


def test_a_pod_that_fits_is_made_and_counted_under_its_uid(hooks: Hooks) -> None:
    hooks.start()

    made = hooks.wire.post(hooks.pods, pod_body("trainer", gpus=2))

    assert made.code == 201
    assert reserved() == [(made.body["metadata"]["uid"], 2)]


def test_one_more_is_refused_in_our_words_and_not_made(hooks: Hooks) -> None:
    hooks.start()
    assert hooks.wire.post(hooks.pods, pod_body("first", gpus=2)).code == 201

    refused = hooks.wire.post(hooks.pods, pod_body("second", gpus=1))

    assert refused.code == 403
    assert refused.message == (
        f"{DENIED}Project llm of acme requests 1 Large, limit 2, used 0, reserved 2: "
        "ask for quota at http://127.0.0.1:8000/api/v1/quota-requests/."
    )
    assert names(hooks) == ["first"]
    assert len(reserved()) == 1


def test_gpus_of_an_init_container_count(hooks: Hooks) -> None:
    hooks.start()
    body = pod_body("hidden")
    resources = {"limits": {GPU: "3"}}
    init = {"name": "init", "image": "example.com/none:1", "resources": resources}
    body["spec"]["initContainers"] = [init]

    refused = hooks.wire.post(hooks.pods, body)

    assert refused.code == 403
    assert "requests 3 Large" in refused.message


def test_a_device_nobody_knows_is_refused(hooks: Hooks) -> None:
    hooks.start()
    body = pod_body("odd")
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpumem": "1"}}

    refused = hooks.wire.post(hooks.pods, body)

    assert (refused.code, "without a size" in refused.message) == (403, True)


@pytest.mark.parametrize(("gpus", "code"), [(2, 201), (3, 403)])
def test_a_dry_run_is_answered_and_writes_nothing(hooks: Hooks, gpus: int, code: int) -> None:
    hooks.start()

    answered = hooks.wire.post(hooks.pods, pod_body("ghost", gpus=gpus), dryRun="All")

    assert answered.code == code
    assert reserved() == []
    assert AdmissionRefusal.objects.count() == 0
    assert names(hooks) == []


def test_a_forged_owner_is_refused(hooks: Hooks) -> None:
    hooks.start()
    body = pod_body("forged", gpus=1)
    body["metadata"]["annotations"] = {OWNER: "somebody-else"}

    refused = hooks.wire.post(hooks.pods, body)

    assert (refused.code, "is forged" in refused.message) == (403, True)
    assert names(hooks) == []


def test_an_owner_cannot_be_changed_afterwards(hooks: Hooks) -> None:
    hooks.start(rules=[{**POD_RULE, "operations": ["CREATE", "UPDATE"]}])
    assert hooks.wire.post(hooks.pods, pod_body("trainer", gpus=1)).code == 201
    path = f"{hooks.pods}/trainer"

    refused = hooks.wire.patch(path, {"metadata": {"annotations": {OWNER: "somebody-else"}}})
    labelled = hooks.wire.patch(path, {"metadata": {"labels": {"tier": "gold"}}})

    assert (refused.code, "cannot be changed" in refused.message) == (403, True)
    assert labelled.code == 200
    assert "annotations" not in hooks.wire.get(path).body["metadata"]


def test_a_pod_is_stamped_with_who_asked_whatever_it_said(hooks: Hooks, stamping: Hooks) -> None:
    hooks.start()
    stamping.start(MUTATING)
    body = pod_body("trainer", gpus=1)
    body["metadata"]["annotations"] = {OWNER: "somebody-else"}

    made = hooks.wire.post(hooks.pods, body)

    assert made.code == 201
    assert made.body["metadata"].get("annotations", {}).get(OWNER, "") == asker(stamping)


def test_the_template_of_a_job_is_stamped(hooks: Hooks, stamping: Hooks) -> None:
    stamping.start(MUTATING, rules=[POD_RULE, JOB_RULE])
    body = job_body("train")
    body["spec"]["template"]["spec"]["containers"] = pod_body("x", gpus=1)["spec"]["containers"]
    body["spec"]["template"]["metadata"] = {"annotations": {OWNER: "somebody-else"}}

    made = hooks.wire.post(f"/apis/batch/v1/namespaces/{hooks.namespace}/jobs", body)

    assert made.code == 201
    metadata = made.body["spec"]["template"]["metadata"]
    assert (metadata.get("annotations") or {}).get(OWNER, "") == asker(stamping)


def test_a_job_whose_pods_could_never_start_is_refused(hooks: Hooks) -> None:
    hooks.start()
    hooks.remove()
    hooks.server.rule = WebhookView("/warn/contract")
    hooks.start(rules=[POD_RULE, JOB_RULE])
    body = job_body("huge")
    body["spec"]["template"]["spec"]["containers"] = pod_body("x", gpus=3)["spec"]["containers"]
    jobs = f"/apis/batch/v1/namespaces/{hooks.namespace}/jobs"

    refused = hooks.wire.post(jobs, body)
    body["spec"]["template"]["spec"]["containers"] = pod_body("x", gpus=2)["spec"]["containers"]
    body["spec"]["parallelism"] = 2
    warned = hooks.wire.post(jobs, body, dryRun="All")

    assert (refused.code, "it could never start" in refused.message) == (403, True)
    assert warned.code == 201
    assert "It does not fit now" in warned.headers["Warning"]
    assert reserved() == []


@pytest.mark.parametrize(("policy", "code"), [("allow", 201), ("deny", 503)])
def test_a_ledger_that_does_not_answer_in_time_leaves_it_to_the_clusters_policy(
    hooks: Hooks,
    ledger: Cluster,
    superuser_url: str,
    settings: Any,  # noqa: ANN401 - pytest-django's own.
    policy: str,
    code: int,
) -> None:
    ledger.admission_on_failure = policy
    ledger.save(update_fields=["admission_on_failure"])
    settings.ADMISSION_DEADLINE_SECONDS = 1
    hooks.start()

    with connected_as_admission(1), psycopg.connect(superuser_url) as holding:
        holding.execute("LOCK TABLE quotas_quotacounter IN ACCESS EXCLUSIVE MODE")
        answered = hooks.wire.post(hooks.pods, pod_body("trainer", gpus=1))
        # A question that still waited would be counted as soon as the lock is gone.
        has_ended = is_given_up(superuser_url)
        holding.rollback()

    assert (answered.code, has_ended) == (code, True)
    assert names(hooks) == (["trainer"] if policy == "allow" else [])
    if policy == "deny":
        assert answered.message.startswith(f"{DENIED}The quota service could not decide in time")
    assert reserved() == []


@pytest.mark.parametrize("where", [{"service": "gpu/ledger"}, {"url": "https://gpu.example.test"}])
def test_what_is_printed_for_a_cluster_is_taken_by_its_server(
    wire: Wire, hooks: Hooks, where: dict[str, str]
) -> None:
    """A dry run: nothing is registered beyond the namespace of the test."""
    authority = base64.b64decode(hooks.server.authority).decode()
    fields: dict[str, Any] = {"authority_pem": authority, "has_conditions": False, **where}

    for configuration in configurations(Registration(new_name(), **fields)):
        plural = f"{configuration['kind'].lower()}s"
        reply = wire.post(f"{GROUP}/{plural}", configuration, dryRun="All")

        assert reply.code == 201, reply.message
