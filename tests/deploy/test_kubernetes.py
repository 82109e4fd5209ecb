"""The access we ask of a cluster's administrator: enough for the enforcer, and nothing more."""

from typing import Any

import pytest
from django.conf import settings

from quotas.adapters.cluster_calls import ACCESS_REVIEWS, ClusterCalls
from quotas.adapters.kueue import API_VERSION, CONFIGURATION_NAME, CONFIGURATION_PATH
from quotas.domain.admission.webhook_configuration import configuration_name
from tests.deploy.files import ROOT, documents_of

MANIFEST = ROOT / "deploy" / "kubernetes" / "enforcer-rbac.yaml"


def documents() -> dict[str, dict[str, Any]]:
    """Return the manifest's objects by kind."""
    found = [dict(each) for each in documents_of(MANIFEST.read_text("utf-8"))]
    return {each["kind"]: each for each in found}


def test_the_role_allows_what_the_enforcers_ask_for_and_nothing_else() -> None:
    quotas, queues, *refused, webhooks = documents()["ClusterRole"]["rules"]

    assert quotas == {
        "apiGroups": [""],
        "resources": ["resourcequotas"],
        "verbs": ["get", "list", "watch", "create", "patch"],
    }
    assert queues == {
        "apiGroups": [API_VERSION.split("/")[0]],
        "resources": ["clusterqueues", "localqueues"],
        "verbs": ["get", "create", "patch"],
    }
    assert [(one["apiGroups"], one["resources"], one["verbs"]) for one in refused] == [
        ([""], ["events"], ["list"]),
        ([""], ["replicationcontrollers"], ["get"]),
        (["apps"], ["replicasets", "statefulsets"], ["get"]),
        (["batch"], ["jobs"], ["get"]),
    ]
    assert webhooks == {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "verbs": ["get"],
    }


def test_the_role_for_kueue_allows_reading_its_configuration_and_nothing_else() -> None:
    file = MANIFEST.with_name("kueue-rbac.yaml")
    found = {one["kind"]: one for one in documents_of(file.read_text("utf-8"))}

    assert found["Role"]["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [CONFIGURATION_NAME],
            "verbs": ["get"],
        }
    ]
    assert f"/namespaces/{found['Role']['metadata']['namespace']}/" in CONFIGURATION_PATH
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    account = documents()["ServiceAccount"]
    assert found["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]


def test_the_adapters_only_read_watch_apply_patch_and_ask_for_their_own_access() -> None:
    asked = {name for name in vars(ClusterCalls) if not name.startswith("_")}

    assert asked == {"get", "read_clock", "watch", "apply", "patch", "review"}
    assert ACCESS_REVIEWS.endswith("/selfsubjectaccessreviews")


def test_the_role_for_selectors_allows_our_own_configurations_and_no_others() -> None:
    file = MANIFEST.with_name("selector-rbac.yaml")
    found = {one["kind"]: one for one in documents_of(file.read_text("utf-8"))}
    role, binding = found["ClusterRole"], found["ClusterRoleBinding"]

    assert role["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            "resourceNames": [configuration_name("hopper")],
            "verbs": ["get", "patch"],
        }
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    account = documents()["ServiceAccount"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]


def test_the_burst_class_is_the_settings_default_and_pushes_nobody_out() -> None:
    (found,) = documents_of((MANIFEST.parent / "burst-priority-class.yaml").read_text())

    assert found["metadata"]["name"] in settings.BURST_PRIORITY_CLASSES
    assert found["value"] < 0
    assert (found["preemptionPolicy"], found["globalDefault"]) == ("Never", False)


def test_the_role_is_bound_to_the_one_account_of_the_file() -> None:
    found = documents()
    account, binding = found["ServiceAccount"], found["ClusterRoleBinding"]

    assert set(found) == {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    }
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": found["ClusterRole"]["metadata"]["name"],
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", ["enforcer", "watcher"])
def test_an_account_may_ask_for_its_own_tokens_and_for_no_others(name: str) -> None:
    file = MANIFEST.with_name(f"{name}-rbac.yaml")
    found = {one["kind"]: one for one in documents_of(file.read_text("utf-8"))}
    account = found["ServiceAccount"]["metadata"]

    assert found["Role"]["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": [account["name"]],
            "verbs": ["create"],
        }
    ]
    assert found["Role"]["metadata"]["namespace"] == account["namespace"]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    assert found["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert "--duration=24h" in file.read_text("utf-8")
