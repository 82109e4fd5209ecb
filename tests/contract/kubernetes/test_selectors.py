"""The selectors of our webhooks follow the bindings, with the rights of deploy/kubernetes alone."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.domain.admission.webhook_configuration import (
    Registration,
    configurations,
    selected_namespaces,
    selector_patch,
)
from quotas.protocols import EnforcementEndpoint, SelectorChange
from simulator.kubernetes_api.access import write_kubeconfig
from tenants.domain.errors import SourceUnavailableError
from tests.contract.kubernetes.conftest import (
    GPU,
    JSON_PATCH,
    LABELS,
    Client,
    Core,
    new_name,
    pod_body,
    wait_for,
)
from tests.contract.kubernetes.test_roles import MANIFESTS, PATHS, RBAC, deploy
from tests.deploy.files import documents_of
from tests.support.kubernetes.registering import GROUP
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.sweeping import close_namespace
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.wire import Body, Wire
from tests.support.references import reference_to

pytestmark = [pytest.mark.needs(WEBHOOKS), pytest.mark.needs("1.28")]
PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
ASKED_TWICE = 2
"""About the owner, and about the pod."""


@dataclass(frozen=True)
class Registered:
    """Our webhooks as they are printed for a cluster, registered for one namespace."""

    wire: Wire
    slug: str
    answering: WebhookServer

    def paths(self) -> tuple[str, ...]:
        return tuple(f"{GROUP}/{plural}/gpu-ledger-{self.slug}" for plural in PLURALS)

    def found(self) -> tuple[Body, ...]:
        return tuple(self.wire.get(path).body for path in self.paths())

    def selected(self) -> list[set[str]]:
        return [set(selected_namespaces(one) or ()) for one in self.found()]

    def asked(self, namespace: str) -> int:
        """Return how many webhooks the server asks about a pod with a GPU."""
        self.answering.seen.clear()
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.wire.post(path, pod_body("probe", gpus=1), dryRun="All")
        return len(self.answering.seen)


@pytest.fixture
def other(core: Core, wire: Wire) -> Iterator[str]:
    """Return a second namespace."""
    name = new_name()
    core.create_namespace({"metadata": {"name": name, "labels": LABELS}})
    wait_for(lambda: wire.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").code == 200)
    yield name
    close_namespace(wire, name)


@pytest.fixture
def registered(wire: Wire, namespace: str, server: Server, tmp_path: Path) -> Iterator[Registered]:
    answering = WebhookServer(tmp_path, server.webhook_host)
    registration = Registration(
        cluster=new_name(),
        authority_pem=base64.b64decode(answering.authority).decode(),
        url=answering.url.removesuffix("/review"),
        failure_policy="Fail",
        bound=(namespace,),
        offered=(GPU,),
    )
    made = Registered(wire, registration.cluster, answering)
    for plural, configuration in zip(PLURALS, configurations(registration), strict=True):
        configuration["metadata"]["labels"] |= LABELS
        reply = wire.post(f"{GROUP}/{plural}", configuration)
        assert reply.code == 201, reply.message
    wait_for(lambda: made.asked(namespace) == ASKED_TWICE)
    yield made
    for path in made.paths():
        wire.delete(path)
    answering.stop()


def admin(registered: Registered, kubeconfig: str) -> EnforcementEndpoint:
    return EnforcementEndpoint(registered.slug, "", reference_to(kubeconfig))


def test_the_server_asks_about_a_namespace_that_is_bound_later_and_no_more_when_it_is_not(
    registered: Registered, namespace: str, other: str, kubeconfig: str
) -> None:
    enforcer, endpoint = KubernetesQuotaEnforcer(), admin(registered, kubeconfig)
    assert registered.asked(other) == 0

    both = enforcer.follow_bound(endpoint, (namespace, other))
    wait_for(lambda: registered.asked(other) == ASKED_TWICE)
    again = enforcer.follow_bound(endpoint, (other, namespace))
    one = enforcer.follow_bound(endpoint, (other,))
    wait_for(lambda: registered.asked(namespace) == 0)
    none = enforcer.follow_bound(endpoint, ())
    wait_for(lambda: registered.asked(other) == 0)

    assert both == SelectorChange(is_changed=True, added=frozenset({other}))
    assert again == SelectorChange()
    assert one == SelectorChange(is_changed=True, removed=frozenset({namespace}))
    assert none == SelectorChange(is_changed=True, removed=frozenset({other}))
    assert enforcer.follow_bound(endpoint, ()) == SelectorChange()


def test_a_change_by_others_in_between_is_not_overwritten(
    registered: Registered, other: str
) -> None:
    read = registered.found()[1]
    path = registered.paths()[1]
    labelled = registered.wire.patch(path, {"metadata": {"labels": {"changed": "yes"}}})

    refused = registered.wire.patch(path, list(selector_patch(read, (other,))), JSON_PATCH)
    fresh = list(selector_patch(labelled.body, (other,)))

    assert (labelled.code, refused.code, refused.body["reason"]) == (200, 422, "Invalid")
    assert registered.selected()[1] != {other}
    assert registered.wire.patch(path, fresh, JSON_PATCH).code == 200
    assert registered.selected()[1] == {other}


def test_configurations_for_all_namespaces_and_none_at_all_are_left_alone(
    registered: Registered, other: str, kubeconfig: str
) -> None:
    enforcer, endpoint = KubernetesQuotaEnforcer(), admin(registered, kubeconfig)
    for path, found in zip(registered.paths(), registered.found(), strict=True):
        for webhook in found["webhooks"]:
            webhook["namespaceSelector"] = {"matchLabels": {"nobody": "has-this"}}
        assert registered.wire.put(path, found).code == 200
    before = registered.found()
    nowhere = EnforcementEndpoint("nowhere", "", endpoint.credential_reference)

    assert enforcer.follow_bound(endpoint, (other,)) == SelectorChange()
    assert enforcer.follow_bound(nowhere, (other,)) == SelectorChange()

    assert registered.found() == before


@pytest.mark.needs("rbac.authorization.k8s.io/v1")
def test_the_account_follows_where_it_may_and_changes_no_other_configuration(
    registered: Registered, namespace: str, other: str, api_client: Client, tmp_path: Path
) -> None:
    wire, enforcer = registered.wire, KubernetesQuotaEnforcer()
    account = deploy(wire, namespace, "enforcer-rbac.yaml")
    settings = api_client.configuration
    pem = Path(settings.ssl_ca_cert).read_text("utf-8")
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, url=settings.host, authority_pem=pem, token=account.token)
    endpoint = EnforcementEndpoint(registered.slug, "", reference_to(path))
    try:
        wait_for(lambda: account.wire.get(registered.paths()[1]).code == 200)
        with pytest.raises(SourceUnavailableError) as refused:
            enforcer.follow_bound(endpoint, (other,))
        assert refused.value.reason == "forbidden"
        assert registered.selected() == [{namespace}, {namespace}]

        allow(wire, account.name, namespace, slug=registered.slug)
        wait_for(lambda: account.wire.get(registered.paths()[0]).code == 200)
        enforcer.follow_bound(endpoint, (other,))

        assert registered.selected() == [{other}, {other}]
        label = {"metadata": {"labels": {"a": "b"}}}
        for plural in PLURALS:
            elsewhere = f"{GROUP}/{plural}/gpu-ledger-of-another-cluster"
            assert account.wire.patch(elsewhere, label).code == 403
            assert account.wire.delete(f"{GROUP}/{plural}/gpu-ledger-{registered.slug}").code == 403
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            for name in (account.name, f"{account.name}-selector"):
                wire.delete(f"{RBAC}/{plural}/{name}")


def allow(wire: Wire, account: str, namespace: str, *, slug: str) -> None:
    """Apply the opt-in manifest for an account and a cluster, under a name of its own."""
    text = (MANIFESTS / "selector-rbac.yaml").read_text("utf-8").replace("hopper", slug)
    for document in documents_of(text):
        document["metadata"] = {"name": f"{account}-selector", "labels": LABELS}
        if document["kind"].endswith("Binding"):
            document["roleRef"]["name"] = f"{account}-selector"
            document["subjects"][0].update({"name": account, "namespace": namespace})
        assert wire.post(PATHS[document["kind"]], document).code == 201
