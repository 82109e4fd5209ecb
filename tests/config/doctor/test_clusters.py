"""The doctor's checks of clusters: their Kubernetes API, rights, watch and webhook."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.doctor import cluster_api, clusters, rights
from config.doctor.clusters import ClusterFacts
from config.doctor.findings import CheckResult
from metering.models import ClusterWatch
from quotas.adapters.cluster_calls import ClusterCalls
from simulator.kubernetes_api import KubernetesAPI
from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to

MANIFESTS = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALL = ("watcher-rbac", "enforcer-rbac", "preemption-rbac", "selector-rbac")
QUOTAS_LACKED = [
    (
        "Without 8 rights no quota is written: get resourcequotas, list resourcequotas, watch"
        " resourcequotas and 5 more."
    ),
    "Without 2 rights plans of preemption are only shown: patch jobs, create pods/eviction.",
    (
        "Without 4 rights webhooks do not follow the bound namespaces: get"
        " validatingwebhookconfigurations, patch validatingwebhookconfigurations, get"
        " mutatingwebhookconfigurations and 1 more."
    ),
]
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
Rules = tuple[rights.Rule, ...]


def documents(manifest: str, kind: str) -> list[dict[str, Any]]:
    text = (MANIFESTS / f"{manifest}.yaml").read_text(encoding="utf-8")
    return [one for one in yaml.safe_load_all(text) if one["kind"] == kind]


@pytest.mark.parametrize(
    ("manifest", "asked"),
    [
        ("watcher-rbac", rights.WATCHER),
        ("enforcer-rbac", rights.ENFORCER + rights.KUEUE),
        ("preemption-rbac", rights.PREEMPTION),
        ("selector-rbac", rights.SELECTOR),
    ],
)
def test_the_rights_asked_for_are_those_that_the_manifests_grant(
    manifest: str, asked: Rules
) -> None:
    (role,) = documents(manifest, "ClusterRole")
    granted = {
        (rule["apiGroups"][0], resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert granted == {
        (group, resource, verb)
        for group, resources, verbs in asked
        for resource in resources
        for verb in verbs
    }


@pytest.fixture
def account(wire: Wire, kubernetes_api: KubernetesAPI, tmp_path: Path) -> str:
    """Make the account gpu-ledger, without any right; return the reference to its kubeconfig."""
    wire.post("/api/v1/namespaces", {"metadata": {"name": "gpu-ledger"}})
    accounts = "/api/v1/namespaces/gpu-ledger/serviceaccounts"
    wire.post(accounts, {"metadata": {"name": "gpu-ledger"}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = wire.post(f"{accounts}/gpu-ledger/token", body).body["status"]["token"]
    path = kubernetes_api.kubeconfig(tmp_path / "account")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(content))
    return reference_to(path)


def grant_roles(wire: Wire, *manifests: str, namespace: str = "") -> None:
    """Bind the roles of manifests to the account; in one namespace only where one is named."""
    for manifest in manifests:
        (role,) = documents(manifest, "ClusterRole")
        for rule in role["rules"]:
            rule["resourceNames"] = ["gpu-ledger-hopper"] if "resourceNames" in rule else []
        assert wire.post(f"{RBAC}/clusterroles", role).code == 201
        name = role["metadata"]["name"]
        where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": RBAC.split("/")[2]},
            "subjects": [
                {"kind": "ServiceAccount", "name": "gpu-ledger", "namespace": "gpu-ledger"}
            ],
        }
        assert wire.post(f"{RBAC}/{where}", binding).code == 201


def facts_of(reference: str, **fields: object) -> ClusterFacts:
    cluster = Cluster(slug="hopper", credential_reference=reference, **fields)
    return ClusterFacts(cluster, namespaces=(), backlog=timedelta(), watch=None)


def asked(facts: ClusterFacts) -> dict[str, CheckResult]:
    return {one.check: one for one in cluster_api.check_kubernetes(facts, ClusterCalls())}


def test_an_account_with_all_roles_has_every_right(wire: Wire, account: str) -> None:
    grant_roles(wire, *ALL)

    found = asked(facts_of(account, is_watched=True))

    assert [(name, one.state) for name, one in found.items()] == [
        ("kubernetes", "ok"),
        ("kubernetes-clock", "ok"),
        ("credential", "ok"),
        ("permissions", "ok"),
    ]
    assert found["kubernetes"].found == "The API server answers, with version v1.36.3."
    assert found["permissions"].found == "The account has all 33 rights that the service uses."


def test_each_part_without_rights_is_named_with_its_manifest(wire: Wire, account: str) -> None:
    grant_roles(wire, "watcher-rbac")

    results = list(cluster_api.check_kubernetes(facts_of(account, is_watched=True), ClusterCalls()))
    lacks = [one for one in results if one.check == "permissions"]

    assert [one.state for one in lacks] == ["problem", "warning", "warning"]
    assert [one.found for one in lacks] == QUOTAS_LACKED
    assert lacks[0].remedy == (
        "Apply deploy/kubernetes/enforcer-rbac.yaml, and bind its role to the account."
    )


def test_rights_in_the_bound_namespaces_alone_are_enough(wire: Wire, account: str) -> None:
    wire.post("/api/v1/namespaces", {"metadata": {"name": "llm"}})
    grant_roles(wire, "watcher-rbac", "selector-rbac")
    grant_roles(wire, "enforcer-rbac", "preemption-rbac", namespace="llm")
    everywhere = facts_of(account, is_watched=True)
    bound = ClusterFacts(everywhere.cluster, ("llm",), timedelta(), None)

    found = asked(bound)["permissions"]

    assert found.state == "problem"
    assert found.found == (
        "Without 1 right no quota is written: get validatingwebhookconfigurations."
    )


def test_an_unknown_token_is_a_problem_that_does_not_show_it(
    kubernetes_api: KubernetesAPI, tmp_path: Path
) -> None:
    path = kubernetes_api.kubeconfig(tmp_path / "unknown")
    path.write_text(path.read_text().replace("admin-token", "stale-token"))

    found = asked(facts_of(reference_to(path)))

    assert list(found) == ["kubernetes"]
    assert found["kubernetes"].state == "problem"
    assert "401" in found["kubernetes"].found
    assert "stale-token" not in found["kubernetes"].found
    assert found["kubernetes"].remedy.startswith("Put a new token where credential_reference")


def test_an_api_that_is_away_or_not_set_is_one_finding() -> None:
    away = asked(facts_of("file:none", kubernetes_url="https://127.0.0.1:1"))
    unset = asked(facts_of(""))

    assert [(name, one.state) for name, one in away.items()] == [("kubernetes", "problem")]
    assert away["kubernetes"].remedy == (
        "Put the token or kubeconfig where credential_reference says."
    )
    assert [(name, one.state) for name, one in unset.items()] == [("kubernetes", "ok")]


def test_a_token_that_ends_soon_is_a_warning(kubernetes_api: KubernetesAPI, tmp_path: Path) -> None:
    reference = reference_to(kubernetes_api.kubeconfig(tmp_path / "admin"))
    soon = datetime.now(UTC) + timedelta(hours=1)

    found = asked(facts_of(reference, credential_expires_at=soon))["credential"]

    assert found.state == "warning"
    assert found.remedy.startswith("Run `manage.py renew_cluster_tokens --every 600`")


@pytest.mark.parametrize(
    ("seconds", "state", "sentence"),
    [
        (2, "ok", "Its clock and ours differ by 2 s."),
        (-90, "warning", "Its clock is 90 s behind ours."),
        (3_600, "problem", "Its clock is 3,600 s ahead of ours."),
    ],
)
def test_a_clock_that_is_off_is_named(seconds: int, state: str, sentence: str) -> None:
    found = clusters.clock_result("kubernetes-clock", NOW + timedelta(seconds=seconds), at=NOW)

    assert (found.state, found.found) == (state, sentence)


@pytest.mark.django_db
def test_a_watch_is_live_stale_or_was_never_there() -> None:
    make_cluster("ampere")
    hopper, volta = (make_cluster(slug, is_watched=True) for slug in ("hopper", "volta"))
    ClusterWatch.objects.create(cluster=hopper, healthy_at=NOW - timedelta(seconds=5))
    ClusterWatch.objects.create(
        cluster=volta, healthy_at=NOW - timedelta(hours=2), last_error="HTTP 410\nGone."
    )
    make_cluster("pascal", is_watched=True)

    found = {
        facts.cluster.slug: next(iter(clusters.check_watch(facts, at=NOW)))
        for facts in clusters.active_clusters(at=NOW)
    }

    assert {slug: (one.state, one.found) for slug, one in found.items()} == {
        "ampere": ("ok", "The cluster is not watched; Prometheus alone is metered."),
        "hopper": ("ok", "Its API is watched; the last heartbeat is 5 s old."),
        "pascal": ("problem", "No process has watched its API yet."),
        "volta": (
            "problem",
            "The last heartbeat is 7,200 s old. Its last error: HTTP 410 Gone.",
        ),
    }
