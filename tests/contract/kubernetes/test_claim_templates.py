"""Claims that are made from templates, behind an API server and our endpoint."""

from collections.abc import Iterator

import pytest
from django.db import transaction

from quotas.models import Reservation
from quotas.services.limits.changes import open_counter
from quotas.webhook import answers
from tenants.models import Cluster
from tests.contract.kubernetes.conftest import new_name, pod_body, wait_for
from tests.contract.kubernetes.test_claims import API, claim_spec, claims
from tests.support.builders import (
    AT,
    bind,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)
from tests.support.kubernetes.registering import OWN, POD_RULE, Hooks
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.webhook_view import WebhookView
from tests.support.kubernetes.wire import Body, Wire
from tests.support.quotas.builders import make_limit

pytestmark = pytest.mark.needs(WEBHOOKS, API)
OWNER = "gpu-ledger.io/owner"
CLAIM_RULE = {
    **POD_RULE,
    "apiGroups": ["resource.k8s.io"],
    "apiVersions": ["v1"],
    "resources": ["resourceclaims"],
}


@pytest.fixture
def hooks(
    committed_db: str,
    wire: Wire,
    namespace: str,
    server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hooks]:
    """Register our endpoint for pods and claims of a namespace whose default owner is lina."""
    assert committed_db
    answers.FACTS.purge()
    answers.guard.cache_clear()
    cluster = make_cluster("contract", is_watched=True, admission_mode="enforce")
    acme = make_organization()
    llm = make_project(acme)
    bind(cluster, namespace, llm, default_owner=make_user("lina"))
    alice = make_user("alice")
    with transaction.atomic():
        open_counter(limit=make_limit(acme, llm, units=8), at=AT)
        open_counter(limit=make_limit(acme, llm, alice, units=1), at=AT)
    answering = WebhookServer(tmp_path_factory.mktemp("templates"), server.webhook_host)
    wire.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {OWN: namespace}}})
    view = WebhookView("/admit/contract/pods")
    answering.rule = view
    made = Hooks(wire, namespace, answering)
    made.start(rules=[POD_RULE, CLAIM_RULE])
    # The user of this suite acts for others, so that its pods may name their owner.
    Cluster.objects.filter(slug="contract").update(trusted_controllers=[view.users[-1]])
    answers.FACTS.purge()
    yield made
    made.remove()
    answering.stop()
    answers.guard().stop()
    answers.guard.cache_clear()
    answers.FACTS.purge()


def template_pod(hooks: Hooks) -> Body:
    body = pod_body(new_name())
    body["metadata"]["annotations"] = {OWNER: "alice"}
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    made = hooks.wire.post(hooks.pods, body)
    assert made.code == 201, made.message
    return made.body


def test_claims_of_a_template_count_for_the_owner_of_their_pods(hooks: Hooks) -> None:
    template = {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": claim_spec()},
    }
    path = f"/apis/{API}/namespaces/{hooks.namespace}/resourceclaimtemplates"
    assert hooks.wire.post(path, template).code == 201

    for _ in range(3):
        template_pod(hooks)

    # Two of the three are refused again and again.
    tries = len(hooks.server.seen) + 6
    wait_for(lambda: len(hooks.server.seen) >= tries)
    made = hooks.wire.get(claims(hooks.namespace)).body["items"]
    rows = Reservation.objects.values_list("pod_uid", "resource", "owner", "username", "units")
    assert list(rows) == [(made[0]["metadata"]["uid"], "claim/gpu.nvidia.com", "alice", "alice", 1)]
    assert len(made) == 1
